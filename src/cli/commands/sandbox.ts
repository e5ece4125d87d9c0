import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { UsageError } from '../../base/errors.ts';
import { formatCount } from '../../base/format-quantity.ts';
import { suggestName } from '../../base/nearest-name.ts';
import { quoteShellWord } from '../../base/shell-quote.ts';
import { formatIsoUtc } from '../../base/time.ts';
import { createListenError } from '../../collector/run/error-message.ts';
import type { CsvPiece, FeedDataset } from '../../sandbox/simulated-series.ts';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  printResult,
  withCommonFlags,
  withContext,
} from '../command-context.ts';
import { completeCommands } from '../command-name.ts';
import { withExamples, withHelp } from '../help.ts';
import { parseSandboxOptions, sandboxDataFlags, sandboxFlags } from '../sandbox-flags.ts';
import { createFromOption, createToOption, parseTimeWindow } from '../shared-options.ts';

interface SandboxCommandFlags extends CommonFlags {
  readonly ticks?: string;
  readonly markets?: string;
  readonly shift: 'own' | 'end-now';
  readonly [option: string]: unknown;
}

/** `sandbox` runs a simulated upstream service on loopback until it is stopped; `sandbox files` writes its data to files. */
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
  addSandboxFiles(shell, command);
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

interface SandboxFilesFlags extends CommonFlags {
  readonly from?: string;
  readonly to?: string;
  readonly dataset: string;
}

const fileDatasets: readonly FeedDataset[] = ['ticks', 'quotes', 'trades'];

/** `sandbox files`: writes the data of a simulated service to files, quotes and trades included, which no route serves. */
function addSandboxFiles(shell: CliContext, sandbox: Command): void {
  const command = sandbox
    .command('files')
    .description('write simulated ticks, quotes and trades to CSV files, which import reads without further flags')
    .argument('<dir>', 'folder for the files; it is created if it does not exist')
    .addOption(createFromOption(' (required)'))
    .addOption(createToOption(' (required); at most the current time of the sandbox'))
    .option('--dataset <names>', 'datasets to write, comma-separated', fileDatasets.join());
  for (const [flags, text] of sandboxDataFlags) command.option(flags, text);
  withHelp(command, filesNotes, filesExamples);
  withCommonFlags(command, ['--config', '--output', '--set', ...flagsUnusedByReaders]).action(
    (folder: string, _ownFlags: object, self: Command) => {
      // Commander assigns a flag to the parent command if both commands have it.
      const flags = self.optsWithGlobals<SandboxFilesFlags>();
      return withContext(flags, shell.version, false, async ({ clock, disk, settings }) => {
        const [{ formatFeedCsv }, { createSimulatedFeed }, { isInside, writeFileAtomically }] = await Promise.all([
          import('../../sandbox/simulated-series.ts'),
          import('../../sandbox/simulated-feed.ts'),
          import('../../archive/read/export-file.ts'),
        ]);
        const datasets = parseDatasets(flags.dataset);
        const options = parseSandboxOptions({ ...flags });
        const nowMs = options.nowMs ?? clock.nowMs();
        const window = parseTimeWindow(flags, nowMs, 'sandbox files');
        // Equal flags give equal files, so nothing is cut at a clock.
        if (window.from < options.epochMs || window.to > nowMs)
          throw new UsageError(
            `The sandbox has data from ${formatIsoUtc(options.epochMs)} to ${formatIsoUtc(nowMs)}: see --now.`,
          );
        const feed = createSimulatedFeed(options);
        const symbols = feed.symbols(nowMs);
        const { output } = settings.archive;
        if (isInside(disk, disk.realPath(folder), output))
          throw new UsageError(`${folder} is inside the archive ${output}: readers would treat it as archive data.`);
        if (disk.size(folder) !== null && !disk.isFolder(folder))
          throw new UsageError(`${folder} is a file, not a folder for the files.`);
        disk.makeFolder(folder);
        const files: { readonly path: string; readonly rows: number }[] = [];
        for (const dataset of datasets) {
          const path = join(folder, `${dataset}.csv`);
          const written = encodePieces(formatFeedCsv(dataset, feed, options.seed, symbols, window));
          await writeFileAtomically(disk, path, dataset, written.chunks());
          files.push({ path, rows: written.rows() });
        }
        printResult(flags, { ...window, files }, () =>
          files.map(({ path, rows }) => `${path}: ${formatCount(rows, 'row')}\n`).join(''),
        );
      });
    },
  );
}

/** @throws UsageError for an unknown dataset */
function parseDatasets(text: string): FeedDataset[] {
  const names = text.split(',').map((name) => name.trim());
  const unknown = names.find((name) => !fileDatasets.some((dataset) => dataset === name));
  if (unknown !== undefined)
    throw new UsageError(
      `--dataset ${JSON.stringify(text)}: expected names of ${fileDatasets.join(', ')}${suggestName(unknown, fileDatasets)}`,
    );
  return fileDatasets.filter((dataset) => names.includes(dataset));
}

/** Encodes the pieces of a file, and counts their rows. */
function encodePieces(pieces: Iterable<CsvPiece>) {
  let count = 0;
  return {
    async *chunks(): AsyncGenerator<Uint8Array> {
      for (const { text, rows } of pieces) {
        count += rows;
        yield Buffer.from(text);
      }
    },
    rows: () => count,
  };
}

const filesNotes = `
Each dataset has one file: ticks.csv, quotes.csv, trades.csv. Equal flags give equal files. The ticks are those that the sandbox
of the same seed serves, in their final state. At the time of each tick there is a trade at its price, sometimes two in one
millisecond, and a quote around it.`;

const filesExamples = `
  oddslake sandbox files recordings --seed 7 --from 2026-07-01 --to 2026-07-03
  oddslake import --output lake recordings --covers 2026-07-01..2026-07-03`;
