import { Option } from 'commander';
import { UsageError } from '../../core/errors.ts';
import { parseDuration, parseTime } from '../../core/time.ts';
import type { SandboxOptions } from '../../sandbox/options.ts';
import { type CommonFlags, withCommonFlags, withContext } from '../session.ts';
import type { Shell } from '../shell.ts';

interface SandboxFlags extends CommonFlags {
  readonly ticks?: string;
  readonly markets?: string;
  readonly shift: 'own' | 'end-now';
  readonly [option: string]: unknown;
}

/** How a flag's text becomes an option of the sandbox; its own checks say what is wrong with a value. */
interface FlagRule {
  readonly flags: string;
  readonly text: string;
  readonly option: keyof SandboxOptions;
  readonly parse: (text: string) => unknown;
}

const list = (text: string): string[] => text.split(',').filter((name) => name !== '');
const same = (text: string): string => text;
const flag = (): boolean => true;
const span = (name: string) => (text: string) => parseDuration(text, name);

const rules: readonly FlagRule[] = [
  { flags: '--port <n>', text: 'TCP port on 127.0.0.1 (default: a free one)', option: 'port', parse: Number },
  { flags: '--key <key>', text: 'the market data key it asks for', option: 'key', parse: same },
  {
    flags: '--now <time>',
    text: 'what time it is there, standing still (default: the clock)',
    option: 'nowMs',
    parse: (text) => parseTime(text, '--now'),
  },
  { flags: '--seed <n>', text: 'everything made up comes from this number', option: 'seed', parse: Number },
  { flags: '--market-count <n>', text: 'simulated markets side by side', option: 'markets', parse: Number },
  { flags: '--ticks-per-day <n>', text: 'mean ticks a day of a symbol', option: 'ticksPerDay', parse: Number },
  {
    flags: '--epoch <time>',
    text: 'nothing is known from before',
    option: 'epochMs',
    parse: (text) => parseTime(text, '--epoch'),
  },
  { flags: '--cap <n>', text: 'most ticks in an answer, whatever was asked', option: 'cap', parse: Number },
  {
    flags: '--truncate <side>',
    text: 'which ticks of a full window are kept: earliest or latest',
    option: 'truncate',
    parse: same,
  },
  { flags: '--order <order>', text: 'ascending, newest-first or shuffled', option: 'order', parse: same },
  { flags: '--repeat-share <share>', text: 'ticks sent twice', option: 'repeatShare', parse: Number },
  { flags: '--from-exclusive', text: 'a tick at from is not answered', option: 'fromInclusive', parse: () => false },
  { flags: '--to-inclusive', text: 'a tick at to is answered', option: 'toInclusive', parse: flag },
  { flags: '--echo-window <how>', text: 'asked, tightened or none', option: 'echoWindow', parse: same },
  {
    flags: '--layout <layout>',
    text: 'how pages are written: compact, spaced, reordered, extra, exponent or mixed',
    option: 'layout',
    parse: same,
  },
  {
    flags: '--book-shapes <shapes>',
    text: 'how order books are told, by turns, with commas between: objects, arrays, text, short, shuffled, list, map, outcomes, dollars, no-time, cents',
    option: 'bookShapes',
    parse: list,
  },
  {
    flags: '--retention <duration>',
    text: 'nothing older is answered, e.g. 3d',
    option: 'retentionMs',
    parse: span('--retention'),
  },
  {
    flags: '--rate <n>',
    text: 'requests allowed in a second, more are answered 429',
    option: 'requestsPerSecond',
    parse: Number,
  },
  { flags: '--limiter <kind>', text: 'how it counts: sliding, fixed or bucket', option: 'limiter', parse: same },
  {
    flags: '--rate-headers <form>',
    text: 'that tell of it: none, draft, old or x',
    option: 'rateHeaders',
    parse: same,
  },
  { flags: '--retry-after <how>', text: 'on a 429: seconds, date or none', option: 'retryAfter', parse: same },
  { flags: '--latency <duration>', text: 'wait before each answer', option: 'latencyMs', parse: span('--latency') },
  { flags: '--fault-share <share>', text: 'share of requests that meet a fault', option: 'faultShare', parse: Number },
  { flags: '--faults <kinds>', text: 'which, with commas between (default: all)', option: 'faults', parse: list },
  {
    flags: '--late-share <share>',
    text: 'share of ticks that become visible late',
    option: 'lateShare',
    parse: Number,
  },
  {
    flags: '--late-delay <duration>',
    text: 'by at most so much',
    option: 'lateDelayMsMax',
    parse: span('--late-delay'),
  },
  { flags: '--revise-share <share>', text: 'share of ticks whose price changes', option: 'reviseShare', parse: Number },
  {
    flags: '--revise-after <duration>',
    text: 'so long after their time',
    option: 'reviseAfterMs',
    parse: span('--revise-after'),
  },
];

/** `sandbox`: a simulated upstream service on loopback, until it is stopped. */
export function addSandbox(shell: Shell): void {
  const command = shell.program
    .command('sandbox')
    .description(
      'a simulated upstream service on loopback: same interface, deterministic from a seed, faults on request',
    )
    .option('--ticks <file>', 'replay a recording in place of simulating: Parquet with symbol, t, p')
    .option('--markets <file>', 'its markets: Parquet with symbol, question, category, resolved_yes')
    .addOption(
      new Option('--shift <how>', 'a recording at its own dates, or shifted to end now')
        .choices(['own', 'end-now'])
        .default('own'),
    );
  for (const { flags, text } of rules) command.option(flags, text);
  withCommonFlags(command).action((flags: SandboxFlags) =>
    withContext(flags, shell.version, false, async (context) => {
      const [{ startSandbox }, { checkSandboxOptions }] = await Promise.all([
        import('../../sandbox/sandbox.ts'),
        import('../../sandbox/options-check.ts'),
      ]);
      const options = checkSandboxOptions(optionsOf(command.opts()));
      const feed = await feedOf(flags, options.nowMs ?? context.clock.nowMs());
      const sandbox = await startSandbox(options, { clock: context.clock, ...(feed === undefined ? {} : { feed }) });
      const { url } = sandbox;
      const lines = [
        `sandbox at ${url}, key ${options.key}; stop it with Ctrl-C`,
        '',
        `  export ODDSLAKE_BASE_URL=${url} ODDSLAKE_API_KEY=${options.key}`,
        '  oddslake nightly --output output/try --set upstream.requests_per_second=100',
      ];
      process.stdout.write(
        flags.json === true ? `${JSON.stringify({ url, key: options.key })}\n` : `${lines.join('\n')}\n`,
      );
      if (!context.signal.aborted) await new Promise((resolve) => context.signal.addEventListener('abort', resolve));
      const { requests, tickRows, perSecondMost } = sandbox.stats();
      await sandbox.stop();
      context.log.info({ requests, tickRows, perSecondMost }, 'sandbox stopped');
    }),
  );
}

function optionsOf(given: Readonly<Record<string, unknown>>): Partial<SandboxOptions> {
  const out: Record<string, unknown> = {};
  for (const { flags, option, parse } of rules) {
    const name = flags
      .split(' ')[0]!
      .slice(2)
      .replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
    const value = given[name];
    if (value !== undefined) out[option] = parse(String(value));
  }
  return out as Partial<SandboxOptions>;
}

async function feedOf({ ticks, markets, shift }: SandboxFlags, nowMs: number) {
  if (ticks === undefined && markets === undefined) return undefined;
  if (ticks === undefined || markets === undefined)
    throw new UsageError('A recording needs both --ticks and --markets.');
  const [{ readRecording }, { recordedFeed }] = await Promise.all([
    import('../../query/recording.ts'),
    import('../../sandbox/recorded-feed.ts'),
  ]);
  return recordedFeed(await readRecording(ticks, markets), { shift, nowMs });
}
