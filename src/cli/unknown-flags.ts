import type { Command } from 'commander';

// What to use in place of a flag that a command does not have, but that many other programs do.

/** Names of flags by those that may be meant. The first one that the command has is suggested. */
const synonyms: readonly (readonly [given: readonly string[], meant: readonly string[]])[] = [
  [
    ['out', 'o', 'dir', 'output-dir', 'data-dir', 'path', 'lake', 'root'],
    ['out', 'output'],
  ],
  [['h', 'help-all', 'usage'], ['help']],
  [['c', 'conf', 'settings'], ['config']],
  [['q', 'silent'], ['quiet']],
  [['verbose', 'v', 'debug', 'trace'], ['log-level debug']],
  [['dry', 'n', 'plan', 'preview'], ['dry-run']],
  [['days', 'hours', 'last', 'lookback', 'period'], ['since']],
  [['start', 'begin', 'after', 'start-date', 'date-from', 'date'], ['from']],
  [['end', 'until', 'before', 'end-date', 'date-to'], ['to']],
  [['csv'], ['format csv']],
  [['parquet'], ['format parquet']],
  [['format', 'csv', 'parquet'], ['json']],
  [['limit', 'max-rows', 'n'], ['rows']],
  [['fix'], ['repair']],
  [['ticker', 'tickers', 'market', 's'], ['symbol']],
  [['url', 'endpoint', 'upstream'], ['base-url']],
  [['key', 'api-key', 'token', 'k'], ['api-key-file']],
];

/** Commands that send requests to the upstream. */
const collecting = ['nightly', 'markets', 'ticks', 'orderbook', 'backfill', 'schedule', 'doctor', 'demo'];
/** Settings that other programs have flags for, by command. */
const settings: readonly (readonly [given: readonly string[], commands: readonly string[], advice: string])[] = [
  [['port', 'p'], ['serve'], 'set the port by --set service.port=8080'],
  [['host', 'bind', 'listen', 'address', 'addr'], ['serve'], 'set the listen address by --set service.host=0.0.0.0'],
  [['port', 'p'], ['schedule'], 'set the health port by --set schedule.port=8081'],
  [['host', 'bind', 'listen', 'address', 'addr'], ['schedule'], 'set its address by --set schedule.host=0.0.0.0'],
  [['key', 'api-key', 'token', 'k'], ['serve'], 'create keys of the service by oddslake keys create'],
  [
    ['key', 'api-key', 'token', 'k'],
    collecting,
    'set the variable ODDSLAKE_API_KEY_FILE or ODDSLAKE_API_KEY: other users see command lines',
  ],
  [
    ['url', 'base-url', 'endpoint', 'upstream'],
    collecting,
    'set it by ODDSLAKE_BASE_URL or --set upstream.base_url=URL',
  ],
  [['rate', 'rps', 'rate-limit'], collecting, 'set it by --set upstream.requests_per_second=5'],
  [['concurrency', 'parallel', 'jobs', 'threads', 'workers'], collecting, 'set it by --set upstream.concurrency=4'],
  [['cron', 'at', 'interval'], ['schedule'], "set the times by --set 'schedule.nightly=17 3 * * *'"],
  [
    ['from', 'to', 'since', 'days', 'start', 'end', 'last', 'force'],
    ['nightly', 'ticks'],
    'it polls from where the last one ended; to fetch past windows: oddslake backfill --since 7d',
  ],
  [['symbol', 'symbols', 'ticker', 's'], ['nightly'], 'poll single symbols by oddslake ticks --symbol SYMBOL'],
];

const othersMax = 3;

/**
 * Says what to use in place of an unknown flag: a setting, a flag of another name, or another command that has it.
 * @param flag with its dashes
 * @param suggestion what is returned if nothing better is known
 */
export function adviseUnknownFlag(command: Command, flag: string, suggestion: string): string {
  const given = flag.replace(/^--?/, '').toLowerCase();
  const setting = settings.find(([names, commands]) => names.includes(given) && commands.includes(command.name()));
  if (setting !== undefined) return `(${setting[2][0]!.toUpperCase()}${setting[2].slice(1)})`;
  const known = new Set(['--help', ...listFlags(command)]);
  const meant = synonyms
    .filter(([names]) => names.includes(given))
    .flatMap(([, names]) => names)
    .find((name) => known.has(`--${name.replace(/ .*/, '')}`));
  if (meant !== undefined) return `(Did you mean --${meant}?)`;
  if (suggestion !== '') return suggestion;
  const others = listCommands(findProgram(command)).filter(
    (other) => other !== command && listFlags(other).includes(flag),
  );
  if (others.length === 0) return '';
  const names = others.slice(0, othersMax).map((other) => `oddslake ${formatPath(other)}`);
  return `(${flag} is a flag of ${names.join(', ')}${others.length > othersMax ? ', …' : ''})`;
}

/** The flags that the help shows. */
const listFlags = ({ options }: Command): string[] =>
  options.flatMap(({ hidden, long }) => (hidden || long === undefined || long === null ? [] : [long]));

/** The program that a command belongs to. */
export const findProgram = (command: Command): Command =>
  command.parent === null ? command : findProgram(command.parent);

const listCommands = (command: Command): Command[] => command.commands.flatMap((each) => [each, ...listCommands(each)]);

const formatPath = (command: Command): string =>
  command.parent === null || command.parent.parent === null
    ? command.name()
    : `${formatPath(command.parent)} ${command.name()}`;
