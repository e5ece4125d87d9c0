import { exitCodes, OddslakeError, UsageError } from '../../base/errors.ts';
import type { Window } from '../../base/window.ts';
import type { CompletenessCounts, DayState } from '../../contract/completeness-counts.ts';
import type { AcceptedWindow, LostWindow } from './coverage.ts';
import { type DatasetName, datasetNames } from './datasets.ts';

/**
 * The version of the archive's layout that this program writes: 2 added order books, candles and views.sql, 3 the
 * evidence of coverage and the states of days.
 */
export const formatVersion = 3;

/** One published file. Times are epoch milliseconds; `t_max` is the time of the last row, included. */
export interface PublishedFile {
  /** Relative to the archive's root, with forward slashes. */
  readonly path: string;
  /** UTC day, or null where the dataset has no days. */
  readonly date: string | null;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
  readonly t_min: number | null;
  readonly t_max: number | null;
  /** How many symbols it holds. */
  readonly symbols: number;
  /** The generation that wrote it. */
  readonly generation: number;
}

/** Rows and bytes of files together. */
export function sumFileTotals(files: readonly Pick<PublishedFile, 'rows' | 'bytes'>[]): {
  rows: number;
  bytes: number;
} {
  const add = (of: (file: Pick<PublishedFile, 'rows' | 'bytes'>) => number): number =>
    files.reduce((sum, file) => sum + of(file), 0);
  return { rows: add((file) => file.rows), bytes: add((file) => file.bytes) };
}

/** manifest.json: what is published, one generation. */
export interface Manifest {
  readonly format_version: number;
  readonly generation: number;
  readonly created_at: number;
  readonly writer: string;
  readonly upstream: string;
  readonly parts: number;
  /** sha256 of the manifest before this one; null for the first. */
  readonly previous_sha256: string | null;
  /** Up to where every live symbol is covered by proven windows, epoch ms; null where no symbol is live. */
  readonly watermark: number | null;
  /** The same with inferred windows. */
  readonly reached: number | null;
  /** Since when every published byte has been hashed, or written; null where some never were, absent in older manifests. */
  readonly verified_through?: number | null;
  /** The ID of the commit that wrote it; absent from what older versions wrote. */
  readonly commit_id?: string;
  readonly days: Readonly<Record<string, DayState>>;
  /** How whole the generation is, as it was judged when it was published; absent from what older versions wrote. */
  readonly verdict?: CompletenessCounts;
  readonly datasets: Readonly<Record<DatasetName, { readonly files: readonly PublishedFile[] }>>;
  /** Windows whose ticks were published once and were lost, so that a state filled from here knows; absent where none is. */
  readonly lost?: readonly LostWindow[];
  /** Gaps that somebody accepted, so that a state filled from here knows; absent where none is. */
  readonly accepted?: readonly AcceptedGap[];
  /** Files that a repair had to take out, nothing of them being left, for copies that follow; absent where none was. */
  readonly removed?: readonly RemovedFile[];
}

/** A window of a symbol's ticks that somebody accepted as a gap, and why. */
export interface AcceptedGap extends Window {
  readonly symbol: string;
  readonly reason: string;
  readonly accepted_at: number;
}

/** A path that was published and is no more, and the first generation without it. */
export interface RemovedFile {
  readonly path: string;
  readonly generation: number;
}

/** What a manifest says of lost windows: nothing where there are none. */
export const toManifestLost = (lost: readonly LostWindow[]): Pick<Manifest, 'lost'> =>
  lost.length === 0
    ? {}
    : { lost: lost.map(({ dataset, symbol, from, to, ticks }) => ({ dataset, symbol, from, to, ticks })) };

/** What a manifest says of accepted gaps: nothing where there are none. */
export const toManifestAccepted = (accepted: readonly AcceptedWindow[]): Pick<Manifest, 'accepted'> =>
  accepted.length === 0
    ? {}
    : {
        accepted: accepted.map(({ symbol, from, to, reason, acceptedAt }) => ({
          symbol,
          from,
          to,
          reason,
          accepted_at: acceptedAt,
        })),
      };

/** Generation 0: what an archive is before its first publish. */
export const createEmptyManifest = (writer: string, upstream: string, parts: number): Manifest => ({
  format_version: formatVersion,
  generation: 0,
  created_at: 0,
  writer,
  upstream,
  parts,
  previous_sha256: null,
  watermark: null,
  reached: null,
  days: {},
  datasets: createEmptyDatasets(),
});

const createEmptyDatasets = (): Manifest['datasets'] =>
  Object.fromEntries(datasetNames.map((name) => [name, { files: [] }])) as unknown as Manifest['datasets'];

/** The text of a manifest.json: what is hashed and compared is this, to the byte. */
export const formatManifest = (manifest: Manifest): string => `${JSON.stringify(manifest, null, 1)}\n`;

/** Reads manifest.json; `path` is for the error. A newer format is refused before anything else is believed. */
export function parseManifest(text: string, path: string): Manifest {
  let parsed: Partial<Manifest>;
  try {
    parsed = JSON.parse(text) as Partial<Manifest>;
  } catch (error) {
    throw new OddslakeError(exitCodes.damaged, `${path} is damaged: it is not JSON. Run oddslake verify --repair.`, {
      cause: error,
    });
  }
  if (typeof parsed?.format_version === 'number' && parsed.format_version > formatVersion) {
    throw new UsageError(
      `${path} was written by a newer oddslake (format ${parsed.format_version}, this one knows ${formatVersion}). Upgrade oddslake.`,
    );
  }
  const { generation, upstream, parts, datasets } = parsed ?? {};
  const isComplete = typeof generation === 'number' && typeof upstream === 'string' && typeof parts === 'number';
  if (!isComplete || !datasets || !Object.values(datasets).every(isFileListing)) {
    throw new OddslakeError(
      exitCodes.damaged,
      `${path} is damaged: it is not a manifest. Run oddslake verify --repair.`,
    );
  }
  // An older format lacks the datasets that came later, and evidence.
  const days = Object.fromEntries(Object.entries(parsed.days ?? {}).map(([day, state]) => [day, parseDayState(state)]));
  const { watermark = null, reached = watermark } = parsed;
  return { ...(parsed as Manifest), reached, days, datasets: { ...createEmptyDatasets(), ...datasets } };
}

/** The state of a day as a manifest has it; what an older format called complete rests on inferred windows. */
function parseDayState(day: DayState | LegacyDayState): DayState {
  if (!('complete' in day)) return day;
  const { complete, ...rest } = day;
  const state = rest.expected === 0 ? 'empty' : complete ? 'provisional' : 'incomplete';
  return { state, ...rest, exceptions: 0 };
}

/** A day of formats 1 and 2. */
interface LegacyDayState extends Omit<DayState, 'state' | 'exceptions'> {
  readonly complete: boolean;
}

/** Whether it is a list of files that can be looked for. */
function isFileListing(dataset: unknown): boolean {
  const { files } = (dataset ?? {}) as { files?: unknown };
  if (!Array.isArray(files)) return false;
  return (files as (Partial<PublishedFile> | null)[]).every(
    (file) => typeof file?.path === 'string' && typeof file.sha256 === 'string' && typeof file.bytes === 'number',
  );
}

export const listManifestFiles = (manifest: Manifest): PublishedFile[] =>
  Object.values(manifest.datasets).flatMap((dataset) => [...dataset.files]);

/** What the manifest says of a file, by its path from the root; undefined where it lists none there. */
export const findManifestFile = (manifest: Manifest, dataset: DatasetName, path: string): PublishedFile | undefined =>
  manifest.datasets[dataset]?.files.find((file) => file.path === path);

/** SHA256SUMS, as `sha256sum -c` reads it. */
export const formatChecksums = (manifest: Manifest): string =>
  listManifestFiles(manifest)
    .map((file) => `${file.sha256}  ${file.path}\n`)
    .join('');
