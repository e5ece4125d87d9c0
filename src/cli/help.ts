import type { Command } from 'commander';
import { suggestName } from '../base/nearest-name.ts';
import { completeCommands, completeHelp } from '../context/command-name.ts';

/** Width of help, in columns, if the terminal width is unknown. The same as Commander's default. */
const widthDefault = 80;

/** Programs that a user has started. */
const runPrograms = new WeakSet<Command>();

/** Lets the help of a program call it as the user did. The man page, which is made of the help of another one, calls it by its name. */
export const callAsUser = (program: Command): void => void runPrograms.add(program);

const completeIfRun = (command: Command, text: string): string =>
  runPrograms.has(findProgram(command)) ? completeHelp(text) : text;

/** Adds paragraphs after a command's options, wrapped to the terminal. */
export function withNotes(command: Command, notes: string): Command {
  return command.addHelpText('after', () => `\n${wrapNotes(command, completeIfRun(command, notes))}`);
}

/** Adds example command lines after a command's options. They are not wrapped, so that they can be copied. */
export function withExamples(command: Command, examples: string): Command {
  return command.addHelpText('after', () => `\nExamples:\n${completeIfRun(command, examples.replace(/^\n/, ''))}`);
}

/** Adds notes, and examples below them. */
export const withHelp = (command: Command, notes: string, examples: string): Command =>
  withExamples(withNotes(command, notes), examples);

/** Adds a list of terms and their meanings after a command's options, aligned with the options. */
export function withTerms(command: Command, head: string, terms: Readonly<Record<string, string>>): Command {
  const termWidth = Math.max(...Object.keys(terms).map((term) => term.length));
  return command.addHelpText('after', () => {
    const help = command.createHelp();
    help.prepareContext({ helpWidth: getHelpWidth(command) });
    const items = Object.entries(terms).map(([term, meaning]) => help.formatItem(term, termWidth, meaning, help));
    return [`\n${wrapNotes(command, head)}`, ...items].join('\n');
  });
}

/**
 * Makes Commander print usage errors like all other errors, with a hint to `--help`. If a flag of a subcommand precedes
 * the subcommand, the error says so; Commander only calls it unknown.
 */
export function configureUsageErrors(program: Command): void {
  const listSubcommands = (command: Command, name: string): [Command, string][] =>
    command.commands.flatMap((subcommand) => [
      [subcommand, `${name} ${subcommand.name()}`],
      ...listSubcommands(subcommand, `${name} ${subcommand.name()}`),
    ]);
  for (const [command, name] of [[program, 'oddslake'] as const, ...listSubcommands(program, 'oddslake')]) {
    command.showHelpAfterError(completeCommands(`${name} --help shows the usage.`));
    command.configureOutput({
      outputError(text, write) {
        const flag = /^error: unknown option '(--[\w-]+)/.exec(text)?.[1] ?? '';
        const isSubcommandFlag =
          flag !== '' &&
          listSubcommands(command, '').some(([{ options }]) => options.some((option) => option.long === flag));
        write(
          isSubcommandFlag
            ? `oddslake: ${flag} must follow the command: ${name} COMMAND ${flag} …\n`
            : suggestChoice(command, text).replace(/^error: /, 'oddslake: '),
        );
      },
    });
  }
}

/**
 * Adds the choice or the subcommand that was probably meant to a message of Commander, which has suggestions for unknown
 * commands and flags only.
 * @param command the command of the message
 */
export function suggestChoice(command: Command, message: string): string {
  const [shown = '', ...rest] = hideValues(message).split('\n');
  const first = message.split('\n', 1)[0]!;
  const [, flag] = /unknown option '(--?[\w-]+)/.exec(first) ?? [];
  if (flag !== undefined) {
    // Below the suggestion of Commander stands where to find the usage.
    const isSuggestion = rest[0]?.startsWith('(Did you mean') === true;
    const advice = adviseUnknownFlag(command, flag, isSuggestion ? rest[0]! : '');
    return [shown, ...(advice === '' ? [] : [completeCommands(advice)]), ...(isSuggestion ? rest.slice(1) : rest)].join(
      '\n',
    );
  }
  const [, given, choices] =
    /'([^']*)' is invalid(?: for argument '[^']*')?\. Allowed choices are (.*)\.$/.exec(first) ?? [];
  const [, missing] = /missing required argument '([^']*)'$/.exec(first) ?? [];
  const missingChoices = command.registeredArguments.find((argument) => argument.name() === missing)?.argChoices;
  if (missingChoices !== undefined) return [`${shown}: one of ${missingChoices.join(', ')}`, ...rest].join('\n');
  const [, extra] = /^(?:error: )?too many arguments .* but got 1: (.*)\.$/.exec(first) ?? [];
  const advice =
    given !== undefined
      ? suggestName(given, choices!.replaceAll('"', '').split(', '))
      : extra === undefined
        ? ''
        : suggestName(
            extra,
            command.commands.map((subcommand) => subcommand.name()),
          );
  return [shown + advice, ...rest].join('\n');
}

/** Hides values that may be a key: those of unknown flags, surplus arguments, and whatever is longer than a command or a choice. */
const hideValues = (message: string): string =>
  message
    .replace(/(unknown option '[^='\n]+)=.*'/s, "$1'")
    .replace(/(too many arguments .* but got \d+): .{16,}$/m, '$1.')
    .replace(/(?<!missing required argument )'(?!--)[^'\s]{16,}'/g, '(hidden)');

const getHelpWidth = (command: Command): number => command.configureOutput().getOutHelpWidth?.() ?? widthDefault;

const wrapNotes = (command: Command, text: string): string =>
  text
    .trim()
    .split('\n\n')
    .map((paragraph) => command.createHelp().boxWrap(paragraph.replaceAll('\n', ' '), getHelpWidth(command)))
    .join('\n\n');

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
  [['v'], ['verbose']],
  [['debug', 'trace'], ['log-level debug']],
  [['dry', 'n', 'plan', 'preview'], ['dry-run']],
  [['days', 'hours', 'last', 'lookback', 'period'], ['since']],
  [['start', 'begin', 'after', 'start-date', 'date-from', 'date'], ['from']],
  [['end', 'until', 'before', 'end-date', 'date-to'], ['to']],
  [['p'], ['port']],
  [['bind', 'listen', 'address', 'addr'], ['host']],
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
function adviseUnknownFlag(command: Command, flag: string, suggestion: string): string {
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

const findProgram = (command: Command): Command => (command.parent === null ? command : findProgram(command.parent));

const listCommands = (command: Command): Command[] => command.commands.flatMap((each) => [each, ...listCommands(each)]);

const formatPath = (command: Command): string =>
  command.parent === null || command.parent.parent === null
    ? command.name()
    : `${formatPath(command.parent)} ${command.name()}`;
