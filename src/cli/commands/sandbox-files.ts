import { join } from 'node:path';
import type { Command } from 'commander';
import { UsageError } from '../../base/errors.ts';
import { formatCount } from '../../base/format-quantity.ts';
import { suggestName } from '../../base/nearest-name.ts';
import { formatIsoUtc } from '../../base/time.ts';
import type { CsvPiece, FeedDataset } from '../../sandbox/feed-files.ts';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  printResult,
  withCommonFlags,
  withContext,
} from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';
import { parseSandboxOptions, sandboxDataFlags } from '../sandbox-flags.ts';
import { createFromOption, createToOption, parseTimeWindow } from '../shared-options.ts';

interface SandboxFilesFlags extends CommonFlags {
  readonly from?: string;
  readonly to?: string;
  readonly dataset: string;
}

const fileDatasets: readonly FeedDataset[] = ['ticks', 'quotes', 'trades'];

/** `sandbox files`: writes the data of a simulated service to files, quotes and trades included, which no route serves. */
export function addSandboxFiles(shell: CliContext, sandbox: Command): void {
  const command = sandbox
    .command('files')
    .description('write simulated ticks, quotes and trades to CSV files, which import reads without further flags')
    .argument('<dir>', 'folder for the files; it is created if it does not exist')
    .addOption(createFromOption(' (required)'))
    .addOption(createToOption(' (required); at most the current time of the sandbox'))
    .option('--dataset <names>', 'datasets to write, comma-separated', fileDatasets.join());
  for (const { flags, text } of sandboxDataFlags) command.option(flags, text);
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command, ['--config', '--output', '--set', ...flagsUnusedByReaders]).action(
    (folder: string, _ownFlags: object, self: Command) => {
      // Commander assigns a flag to the parent command if both commands have it.
      const flags = self.optsWithGlobals<SandboxFilesFlags>();
      return withContext(flags, shell.version, false, async ({ clock, disk, settings }) => {
        const [
          { formatFeedCsv },
          { checkSandboxOptions, describeExpected },
          { createSimulatedFeed },
          { isInside, writeFileAtomically },
        ] = await Promise.all([
          import('../../sandbox/feed-files.ts'),
          import('../../sandbox/sandbox-options.ts'),
          import('../../sandbox/simulated-feed.ts'),
          import('../../archive/read/export-file.ts'),
        ]);
        const datasets = parseDatasets(flags.dataset);
        const options = checkSandboxOptions(parseSandboxOptions({ ...flags }, describeExpected));
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

const notes = `
Each dataset has one file: ticks.csv, quotes.csv, trades.csv. Equal flags give equal files. The ticks are those that the sandbox
of the same seed serves, in their final state. At the time of each tick there is a trade at its price, sometimes two in one
millisecond, and a quote around it.`;

const examples = `
  oddslake sandbox files recordings --seed 7 --from 2026-07-01 --to 2026-07-03
  oddslake import --output lake recordings --covers 2026-07-01..2026-07-03`;
