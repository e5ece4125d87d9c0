import { findFirstIndex } from '../../base/binary-search.ts';
import { DamageError, exitCodes, OddslakeError, UsageError } from '../../base/errors.ts';
import type { Window } from '../../base/window.ts';
import type { CompletenessCounts } from '../../contract/completeness-counts.ts';
import type { DayState } from '../../contract/day-reasons.ts';
import type { AcceptedWindow, LostWindow } from './coverage.ts';
import { type DatasetName, datasetNames } from './datasets.ts';
import type { PublishedSelection } from './selection.ts';
import type { PublishedWithdrawal } from './withdrawals.ts';

/** The archive format of this program. An archive of any other format is refused. */
export const formatVersion = 6;

/** One published file. Times are epoch milliseconds; `t_max` is the time of the last row, inclusive. */
export interface PublishedFile {
  /** Relative to the archive's root, with forward slashes. */
  readonly path: string;
  /** UTC day; null for a dataset that is not split by day. */
  readonly date: string | null;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
  readonly t_min: number | null;
  readonly t_max: number | null;
  /** The number of symbols in the file. */
  readonly symbols: number;
  /** The least and the greatest symbol by their UTF-8 bytes, both included; null if there are no rows. */
  readonly symbol_from: string | null;
  readonly symbol_to: string | null;
  /** The generation that wrote it. */
  readonly generation: number;
}

/** @throws DamageError if the hash of a pinned file differs from the manifest's */
export function requireFileHash(hash: string, { path, sha256 }: PublishedFile): void {
  if (hash !== sha256)
    throw new DamageError(`${path} is damaged: its sha256 differs from the manifest's. Run oddslake verify.`);
}

export function sumFileSizes(files: readonly Pick<PublishedFile, 'rows' | 'bytes'>[]): {
  rows: number;
  bytes: number;
} {
  let [rows, bytes] = [0, 0];
  for (const file of files) {
    rows += file.rows;
    bytes += file.bytes;
  }
  return { rows, bytes };
}

/** One of several sources of an archive. Its name identifies it; the upstream is where it was last collected from. */
export interface SourceIdentity {
  readonly name: string;
  /** Origin of the URL; empty if it is not known, as in an archive of imports. */
  readonly upstream: string;
}

/** What an archive is collected from: one service, or several sources. */
export interface ArchiveOwner {
  /** The only service: `source.name`, else the origin of the URL. Empty if there are several sources. */
  readonly upstream: string;
  /** Sorted by name; empty for an archive of one service. */
  readonly sources: readonly SourceIdentity[];
}

/** manifest.json: the published files of one generation. */
export interface Manifest {
  readonly format_version: number;
  readonly generation: number;
  readonly created_at: number;
  readonly writer: string;
  /** The only service; absent if there are several sources. */
  readonly upstream?: string;
  /** The sources, sorted by name; absent in an archive of one service. */
  readonly sources?: readonly SourceIdentity[];
  /** SHA-256 of the previous manifest; null for the first. */
  readonly previous_sha256: string | null;
  /** Every live symbol is covered by proven windows up to here, epoch ms; null if no symbol is live. */
  readonly watermark: number | null;
  /** The same, counting inferred windows too. */
  readonly reached: number | null;
  /**
   * Every published byte was hashed or written at or after this time, epoch ms; null if some were never hashed, absent
   * before the first publish.
   */
  readonly verified_through?: number | null;
  /** ID of the commit that wrote it; absent before the first publish. */
  readonly commit_id?: string;
  readonly days: Readonly<Record<string, DayState>>;
  /** Completeness of the generation when it was published; absent before the first publish. */
  readonly completeness?: CompletenessCounts;
  readonly datasets: Readonly<Record<DatasetName, { readonly files: readonly PublishedFile[] }>> & {
    /** `withdrawn`: tick coverage that was withdrawn, whether or not it was proven again; absent if there is none. */
    readonly coverage: { readonly withdrawn?: readonly PublishedWithdrawal[] };
    /** `lists`: what the polls of the market lists found, sorted by date and view; absent before the first poll. */
    readonly markets: { readonly lists?: readonly PublishedList[] };
  };
  /** Windows whose published ticks were lost, listed so that a rebuilt state knows them; absent if there are none. */
  readonly lost?: readonly LostWindow[];
  /** Accepted gaps, listed so that a rebuilt state knows them; absent if there are none. */
  readonly accepted?: readonly AcceptedGap[];
  /** What was decided about which symbols are collected, listed so that a rebuilt state knows it; absent if nothing was. */
  readonly selection?: PublishedSelection;
  /**
   * Files that a repair removed because nothing in them could be salvaged, listed so that copies remove them too;
   * absent if there are none.
   */
  readonly removed?: readonly RemovedFile[];
}

/** The best poll of a market list within a UTC day: a whole one if there is any, else a complete one, else the latest. */
export interface PublishedList {
  readonly date: string;
  /** `*`: the lists of all views together. With several sources, it begins with the source and a colon. */
  readonly view: string;
  /** Time of the list, epoch ms. */
  readonly at: number;
  readonly markets: number;
  /** The number of markets as the service stated it; null if it stated none. */
  readonly total: number | null;
  readonly complete: boolean;
  /** Why the list is not complete, or why a complete one is not known to be whole, one clause; null if it is whole. */
  readonly reason: string | null;
}

/** A window of a symbol's ticks that a user accepted as a gap, with the reason. */
interface AcceptedGap extends Window {
  readonly symbol: string;
  readonly reason: string;
  readonly accepted_at: number;
}

/** A path that is no longer published, and the first generation without it. */
export interface RemovedFile {
  readonly path: string;
  readonly generation: number;
}

/** Lost windows as the manifest stores them; an empty object if there are none. */
export const toManifestLost = (lost: readonly LostWindow[]): Pick<Manifest, 'lost'> =>
  lost.length === 0
    ? {}
    : { lost: lost.map(({ dataset, symbol, from, to, ticks }) => ({ dataset, symbol, from, to, ticks })) };

/** Accepted gaps as the manifest stores them; an empty object if there are none. */
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

/** The owner as the manifest stores it: either the only service or the sources. */
export const toManifestOwner = ({ upstream, sources }: ArchiveOwner): Pick<Manifest, 'upstream' | 'sources'> =>
  sources.length === 0 ? { upstream } : { sources };

export const readOwner = ({ upstream = '', sources = [] }: Manifest): ArchiveOwner => ({ upstream, sources });

/** Names the service or the sources of an archive, for messages and pages. */
export const formatOwner = ({ upstream, sources }: ArchiveOwner): string =>
  sources.length === 0 ? `upstream ${upstream}` : `sources ${sources.map(({ name }) => name).join(', ')}`;

/** Generation 0: an archive before its first publish. */
export const createEmptyManifest = (
  writer: string,
  upstream: string,
  sources: readonly SourceIdentity[] = [],
): Manifest => ({
  format_version: formatVersion,
  generation: 0,
  created_at: 0,
  writer,
  ...toManifestOwner({ upstream, sources }),
  previous_sha256: null,
  watermark: null,
  reached: null,
  days: {},
  datasets: createEmptyDatasets(),
});

const createEmptyDatasets = (): Manifest['datasets'] =>
  Object.fromEntries(datasetNames.map((name) => [name, { files: [] }])) as unknown as Manifest['datasets'];

/** Formats manifest.json. Hashes and comparisons are of these exact bytes. */
export const formatManifest = (manifest: Manifest): string => `${JSON.stringify(manifest, null, 1)}\n`;

/**
 * Parses manifest.json. `path` appears in errors. Another format is rejected before anything else is read.
 * @throws OddslakeError if the text is not a manifest, UsageError if it has another format
 */
export function parseManifest(text: string, path: string): Manifest {
  let parsed: Partial<Manifest>;
  try {
    parsed = JSON.parse(text) as Partial<Manifest>;
  } catch (error) {
    throw new OddslakeError(exitCodes.damaged, `${path} is damaged: not valid JSON. Run oddslake verify --repair.`, {
      cause: error,
    });
  }
  const { format_version: format, generation, datasets } = parsed ?? {};
  if (typeof format === 'number' && format !== formatVersion) {
    throw new UsageError(
      `${path} has format ${format}, and this oddslake reads and writes only format ${formatVersion}: use the oddslake that wrote it, or another archive.`,
    );
  }
  const isComplete = typeof format === 'number' && typeof generation === 'number' && hasOwner(parsed);
  if (!isComplete || !datasetNames.every((name) => isFileListing(datasets?.[name]))) {
    throw new OddslakeError(
      exitCodes.damaged,
      `${path} is damaged: not a valid manifest. Run oddslake verify --repair.`,
    );
  }
  return parsed as Manifest;
}

function hasOwner({ upstream, sources }: Partial<Manifest>): boolean {
  if (sources === undefined) return typeof upstream === 'string';
  const isSource = (one: Partial<SourceIdentity> | null): boolean =>
    typeof one?.name === 'string' && typeof one.upstream === 'string';
  return Array.isArray(sources) && sources.length > 0 && sources.every(isSource);
}

const isSymbolOrNull = (value: unknown): boolean => value === null || typeof value === 'string';

/** Whether a dataset has a valid list of files. */
function isFileListing(dataset: unknown): boolean {
  const { files } = (dataset ?? {}) as { files?: unknown };
  if (!Array.isArray(files)) return false;
  return (files as (Partial<PublishedFile> | null)[]).every(
    (file) =>
      typeof file?.path === 'string' &&
      typeof file.sha256 === 'string' &&
      typeof file.bytes === 'number' &&
      isSymbolOrNull(file.symbol_from) &&
      isSymbolOrNull(file.symbol_to),
  );
}

/** Whether a file has rows. A dataset without rows has a file too (`publish/stage-empty-files.ts`). */
export const hasRows = ({ rows }: Pick<PublishedFile, 'rows'>): boolean => rows !== 0;

/** The files of a dataset that have rows, in manifest order. */
export const listFilesWithRows = (
  { datasets }: Pick<Manifest, 'datasets'>,
  dataset: DatasetName,
): readonly PublishedFile[] => datasets[dataset].files.filter(hasRows);

export const listManifestFiles = (manifest: Manifest): PublishedFile[] =>
  Object.values(manifest.datasets).flatMap((dataset) => dataset.files);

/** Finds a published file by its path from the root. */
export function findManifestFile(
  { datasets }: Pick<Manifest, 'datasets'>,
  dataset: DatasetName,
  path: string,
): PublishedFile | undefined {
  const files = datasets[dataset]?.files ?? [];
  const sorted = files[findFirstIndex(0, files.length, (i) => files[i]!.path >= path)];
  // Another program may have written a manifest that is not sorted.
  return sorted?.path === path ? sorted : files.find((file) => file.path === path);
}

/** The same for a file with rows. */
export function findFileWithRows(manifest: Manifest, dataset: DatasetName, path: string): PublishedFile | undefined {
  const file = findManifestFile(manifest, dataset, path);
  return file !== undefined && hasRows(file) ? file : undefined;
}

/** SHA256SUMS, in the format of `sha256sum -c`. */
export const formatChecksums = (manifest: Manifest): string =>
  listManifestFiles(manifest)
    .map((file) => `${file.sha256}  ${file.path}\n`)
    .join('');
