import { seriesDatasets } from '../../archive/format/series-datasets.ts';
import type { ColumnFilter, ColumnRename } from '../../archive/query/read-rows.ts';
import { UsageError } from '../../base/errors.ts';
import type { Window } from '../../base/window.ts';
import type { Context } from '../../context/context.ts';
import { type ImportFile, type ImportFormat, listImportFiles } from './files.ts';
import type { TradesGuess } from './guess-flags.ts';
import type { ArchivePlan } from './import-archive.ts';
import { type ImportDataset, type TickRowRules, timedDatasets } from './import-rows.ts';
import { type CheckRules, checkRows, type RowPlan } from './preflight.ts';
import { createLazyReader } from './read-rows.ts';
import type { FileCounts } from './rejected-rows.ts';
import type { FileFault } from './row-columns.ts';

// The flags and files of an import, and their checks before anything is opened or written.

export interface ImportFlags {
  readonly paths: readonly string[];
  /** Another archive that is taken whole, instead of files; `showPlan` is set for a dry run. */
  readonly archive?: { readonly place: string; readonly showPlan: ((plan: ArchivePlan) => void) | null };
  /** The datasets that the files feed. Null: inferred from their columns. */
  readonly datasets: readonly ImportDataset[] | null;
  readonly format: ImportFormat | null;
  /** How times and prices of rows are read. */
  readonly rows: TickRowRules;
  /** Columns of rows that have a different name in the file. */
  readonly renames: readonly ColumnRename[];
  /** Only rows that match all of these are imported. */
  readonly filters: readonly ColumnFilter[];
  /** Declared coverage of each symbol in the rows. Null: nothing is declared. */
  readonly covers: Window | null;
  /** Whether imported prices take precedence over polled ones. */
  readonly preferred: boolean;
  /** Maximum share of a file's rows that may be rejected, 0 to 1. Null: `import.rejected_share_max`. */
  readonly rejectedShareMax: number | null;
  /** Check mode: called with the results, and nothing is imported. Null to import. */
  readonly showCheck: ((files: readonly CheckedFile[]) => void) | null;
}

/** Result of reading a file, to its end or up to a fault. A file that feeds several datasets has one result for each. */
export interface CheckedFile extends FileCounts {
  readonly path: string;
  /** Null if the file feeds one dataset only. */
  readonly dataset: ImportDataset | null;
  /** Why the file cannot be read to its end, as one clause. Null if it can. */
  readonly fault: string | null;
  /** Whether too many of its rows are rejected, so that nothing is published. */
  readonly isOverShare: boolean;
  /** Whether its prices may be in cents, and no scale is given, so that nothing is published. */
  readonly hasCents: boolean;
  /** Flags with which more of its rows would be accepted. */
  readonly flags: readonly string[];
  /** Columns that are not imported. A file with several results has them in the first. */
  readonly unused: readonly string[];
  /** Flags with which one more dataset is imported, from the unused columns. Empty if there are none. */
  readonly moreFlags: readonly string[];
  /** Columns that look like trades, although the file is imported as ticks. Null if there are none. */
  readonly trades: TradesGuess | null;
}

/** Files whose beginnings passed the checks. */
export interface ImportInput {
  readonly flags: ImportFlags;
  readonly files: readonly ImportFile[];
  readonly ignored: readonly string[];
  /** Results for row files. Compressed Parquet is checked later, when it is decompressed. */
  readonly plans: ReadonlyMap<ImportFile, RowPlan | FileFault>;
}

export function toCheckRules(
  { settings, sources = [] }: Context,
  { datasets, rows, renames, filters }: ImportFlags,
): CheckRules {
  // The paths of the source that --source names, so that its records have the symbols that a poll of it finds.
  const paths = settings.sources.find(({ name }) => name === sources[0])?.source ?? settings.source;
  return { datasets, rows, renames, filters, paths };
}

/** Whether a file holds responses from the service rather than rows derived from them. */
export const isResponseFile = ({ format }: ImportFile): boolean => format === 'pages' || format === 'raw';

export const isCompressedParquet = (file: ImportFile): boolean =>
  file.format === 'parquet' && file.compression !== 'none';

/** Lists the files and checks each one before anything is opened or written. Throws UsageError for invalid input. */
export async function prepareImport(context: Context, flags: ImportFlags): Promise<ImportInput> {
  const { files, ignored } = listImportFiles(flags.paths, flags.format, context.clock.nowMs());
  if (flags.covers !== null && files.every(isResponseFile))
    throw new UsageError('--covers applies to row files only: saved pages state their own coverage.');
  if (flags.preferred && files.every((file) => file.format === 'raw'))
    throw new UsageError('--prefer does not apply to raw responses: they keep the precedence of polled data.');
  checkResponseFiles(files, flags.datasets);
  const plans = new Map<ImportFile, RowPlan | FileFault>();
  const lazy = createLazyReader('');
  try {
    for (const file of files) {
      context.signal.throwIfAborted();
      if (isResponseFile(file) || isCompressedParquet(file)) continue;
      plans.set(file, await checkRows(file, lazy.reader, toCheckRules(context, flags)));
    }
  } finally {
    await lazy.close();
  }
  const hasNoSeries = (file: ImportFile): boolean => {
    const plan = plans.get(file);
    return isResponseFile(file) || (plan !== undefined && !('fault' in plan) && !plan.datasets.some(canBeCovered));
  };
  if (flags.covers !== null && files.every(hasNoSeries))
    throw new UsageError(
      '--covers applies to ticks, quotes and trades only: the rows of these files are of another dataset.',
    );
  return { flags, files, ignored, plans };
}

/** Whether rows of a dataset cover what `--covers` says. */
const canBeCovered = (dataset: ImportDataset): boolean => timedDatasets.includes(dataset);

/** @throws UsageError for a response file that has none of the datasets */
function checkResponseFiles(files: readonly ImportFile[], datasets: ImportFlags['datasets']): void {
  if (datasets === null || datasets.includes('ticks') || datasets.includes('markets')) return;
  const series = seriesDatasets.find((dataset) => datasets.includes(dataset));
  const page = files.find(({ format }) => format === 'pages' || (format === 'raw' && series !== undefined));
  if (page === undefined) return;
  const [what, sources] =
    series !== undefined
      ? [`${series} are`, 'rows (--format ndjson, csv or parquet)']
      : ['order books are', 'rows (--format ndjson, csv or parquet) or from raw responses'];
  const kind = page.format === 'pages' ? 'is a saved page' : 'contains raw responses';
  throw new UsageError(`${page.path} ${kind}: ${what} imported from ${sources}.`);
}
