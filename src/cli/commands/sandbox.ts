import { type Command, Option } from 'commander';
import { UsageError } from '../../base/errors.ts';
import { quoteShellWord } from '../../base/shell-quote.ts';
import { parseDuration, parseTime } from '../../base/time.ts';
import { createListenError } from '../../collector/run/error-message.ts';
import { completeCommands } from '../../context/command-name.ts';
import { checkSandboxOptions, describeExpected, type SandboxOptions } from '../../sandbox/sandbox-options.ts';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  printResult,
  withCommonFlags,
  withContext,
} from '../command-context.ts';
import { withExamples } from '../help.ts';

interface SandboxCommandFlags extends CommonFlags {
  readonly ticks?: string;
  readonly markets?: string;
  readonly shift: 'own' | 'end-now';
  readonly [option: string]: unknown;
}

/** `sandbox` runs a simulated upstream service on loopback until it is stopped. */
export function addSandbox(command: Command, shell: CliContext): void {
  command
    .option('--ticks <file>', 'replay a recording instead of simulating: Parquet with symbol, t, p')
    .option('--markets <file>', 'markets of the recording: Parquet with symbol, question, category, resolved_yes')
    .addOption(
      new Option('--shift <how>', 'timestamps of a recording: its own, or shifted so that the recording ends now')
        .choices(['own', 'end-now'])
        .default('own'),
    );
  for (const [flags, text] of sandboxFlags) command.option(flags, text);
  command.option(
    '--options <json>',
    'further options: faults, page caps, late or revised ticks, …; see docs/LIBRARY.md',
  );
  withExamples(command, sandboxExamples);
  withCommonFlags(command, ['--config', '--output', '--set', ...flagsUnusedByReaders]).action(
    (flags: SandboxCommandFlags) =>
      withContext({ ...flags, config: null }, shell.version, false, async (context) => {
        const { startSandbox } = await import('../../sandbox/sandbox.ts');
        const options = parseSandboxOptions(command.opts());
        const feed = await openFeed(flags, options.nowMs ?? context.clock.nowMs());
        const deps = { clock: context.clock, ...(feed === undefined ? {} : { feed }) };
        const sandbox = await startSandbox(options, deps).catch((error: NodeJS.ErrnoException) => {
          throw error.syscall === 'listen' ? createListenError('--port', options.port, '127.0.0.1', error) : error;
        });
        const { url } = sandbox;
        const lines = [
          `sandbox at ${url}, key ${options.key}; stop it with Ctrl-C`,
          '',
          `  export ODDSLAKE_BASE_URL=${url} ODDSLAKE_API_KEY=${quoteShellWord(options.key)}`,
          `  ${completeCommands('oddslake nightly --output output/try --set upstream.requests_per_second=100')}`,
        ];
        printResult(flags, { url, key: options.key }, () => `${lines.join('\n')}\n`);
        if (!context.signal.aborted) await new Promise((resolve) => context.signal.addEventListener('abort', resolve));
        const { requests, tickRows, perSecondMax } = sandbox.stats();
        await sandbox.stop();
        context.log.info({ requests, tick_rows: tickRows, requests_per_second_max: perSecondMax }, 'sandbox stopped');
      }),
  );
}

async function openFeed({ ticks, markets, shift }: SandboxCommandFlags, nowMs: number) {
  if (ticks === undefined && markets === undefined) return undefined;
  if (ticks === undefined || markets === undefined)
    throw new UsageError('A recording needs both --ticks and --markets.');
  const [{ readRecording }, { createRecordedFeed }] = await Promise.all([
    import('../../archive/query/tick-recording.ts'),
    import('../../sandbox/recorded-feed.ts'),
  ]);
  return createRecordedFeed(await readRecording(ticks, markets), { shift, nowMs });
}

const sandboxExamples = `
  oddslake sandbox --port 8080 --seed 7
  oddslake sandbox --rate 5 --latency 300ms --fault-share 0.1 --retention 3d
  oddslake sandbox --options '{"lateShare": 0.02, "faultShare": 0.1, "faults": ["503", "reset"]}'
  oddslake sandbox --ticks ticks.parquet --markets markets.parquet --shift end-now
  # Three nights, each polled at 03:17 UTC of the next day (needs GNU date):
  export ODDSLAKE_BASE_URL=http://127.0.0.1:8080 ODDSLAKE_API_KEY=sandbox-key
  for n in 3 2 1; do
    now=$(date -ud "$((n - 1)) days ago" +%FT03:17Z)
    oddslake sandbox --port 8080 --now "$now" & sleep 3
    oddslake nightly --output nights --date "$(date -ud "$n days ago" +%F)" \\
      --set upstream.requests_per_second=100
    kill $!; wait
  done`;

/** A flag of `oddslake sandbox`, its help with the default in words, the option that it sets, and the parser of its value. */
type SandboxFlag = readonly [
  flags: string,
  text: string,
  option: keyof SandboxOptions,
  parse: (text: string, flag: string) => unknown,
];

const parseText = (text: string): string => text;

/** Parses a duration with a unit, such as `300ms` or `90s`, or a plain number of milliseconds. */
const parseMs = (text: string, flag: string): number => parseDuration(/^\d+$/.test(text) ? `${text}ms` : text, flag);

/** Flags for what people try. All other options of a sandbox are those of `--options`. */
export const sandboxFlags: readonly SandboxFlag[] = [
  ['--port <n>', 'TCP port on 127.0.0.1 (default: a free one)', 'port', Number],
  ['--key <key>', 'market data key that the sandbox accepts (default: sandbox-key)', 'key', parseText],
  ['--now <time>', 'fixed current time of the sandbox (default: the system clock)', 'nowMs', parseTime],
  ['--seed <n>', 'random seed (default: 1)', 'seed', Number],
  ['--market-count <n>', 'number of concurrent simulated markets (default: 40)', 'markets', Number],
  ['--ticks-per-day <n>', 'mean number of ticks per day and symbol (default: 400)', 'ticksPerDay', Number],
  ['--retention <duration>', 'maximum age of ticks, e.g. 3d (default: unlimited)', 'retentionMs', parseDuration],
  ['--rate <n>', 'requests per second; others get status 429 (default: unlimited)', 'requestsPerSecond', Number],
  ['--latency <duration>', 'delay of each response, e.g. 300ms or 1s (default: none)', 'latencyMs', parseMs],
  ['--fault-share <share>', 'share of requests that hit a fault (default: 0)', 'faultShare', Number],
];

/**
 * Parses the sandbox options from the flags that Commander read. Flags override `--options`.
 * @throws UsageError with the flag or the option, its value and the expected value
 */
export function parseSandboxOptions(values: Readonly<Record<string, unknown>>): SandboxOptions {
  const out: Record<string, unknown> = parseJsonOptions(values.options);
  for (const [flags, , option, parse] of sandboxFlags) {
    const flag = flags.split(' ')[0]!;
    const text = values[flag.slice(2).replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())];
    if (text === undefined) continue;
    const value = parse(String(text), flag);
    const expected = describeExpected(option, value);
    if (expected !== null) throw new UsageError(`${flag} ${JSON.stringify(text)}: expected ${expected}`);
    out[option] = value;
  }
  return checkSandboxOptions(out);
}

function parseJsonOptions(text: unknown): Record<string, unknown> {
  if (text === undefined) return {};
  try {
    const value: unknown = JSON.parse(String(text));
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value };
  } catch {
    // The error below says what was expected.
  }
  throw new UsageError(`--options ${JSON.stringify(text)}: expected one JSON object, e.g. '{"lateShare": 0.02}'`);
}
