import { createHash } from 'node:crypto';
import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join, normalize } from 'node:path';
import { sha256 } from '../../archive/disk/file-system.ts';
import { type SeriesDataset, seriesDatasets } from '../../archive/format/series-datasets.ts';
import { UsageError } from '../../base/errors.ts';
import { isBucketUrl } from '../../bucket/address.ts';
import type { ObjectStore } from '../../bucket/object-store.ts';
import type { Context } from '../../context/context.ts';
import { openObjectCache, withFilesDisplay, withObjectStore } from '../steps/bucket-access.ts';

/** What deploy/spark/fold.py has written, checked against its summary. Its docstring describes the files. */
export interface FoldedInput {
  /** The folder or address, for messages. */
  readonly place: string;
  /** Where the files are on this machine. */
  readonly folder: string;
  /** Paths below the folder. */
  readonly files: readonly string[];
  /** The dataset that was folded. */
  readonly dataset: 'ticks' | SeriesDataset;
  /** Ends the use of the files. */
  release(): void;
}

interface FoldedFile {
  /** Below the folder of the fold. */
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
}

interface FoldSummary {
  readonly format: number;
  readonly dataset: FoldedInput['dataset'];
  readonly files: readonly FoldedFile[];
}

const foldFormat = 1;

/**
 * Reads the summary of a fold and hashes its files, before anything is opened or written. Those of a bucket are downloaded into
 * the cache folder of the settings.
 * @param place a folder, or an address such as s3://BUCKET/PREFIX; s3a:// is what Spark calls it
 * @throws UsageError if it is incomplete or differs from its summary
 */
export async function prepareFolded(context: Context, place: string): Promise<FoldedInput> {
  const url = place.replace(/^s3a:/, 's3:');
  return isBucketUrl(url)
    ? await withObjectStore(context, url, (store) => downloadFold(context, store))
    : readFold(place);
}

async function readFold(folder: string): Promise<FoldedInput> {
  const at = join(folder, 'summary');
  const names = existsSync(at) ? readdirSync(at).filter(isSummaryName) : [];
  if (names.length !== 1) throw createFoldError(folder, unfinished);
  const { files, dataset } = parseSummary(folder, readFileSync(join(at, names[0]!), 'utf8'));
  for (const file of files) {
    const path = join(folder, file.path);
    if (!existsSync(path)) throw createFoldError(folder, `${file.path} is missing`);
    if (statSync(path).size !== file.bytes || (await hashFile(path)) !== file.sha256)
      throw createFoldError(folder, `${file.path} ${differs}`);
  }
  return { place: folder, folder, files: files.map(({ path }) => path), dataset, release: () => {} };
}

/** Bytes of files that are downloaded at a time, unless one is larger. */
const bytesAtOnceMax = 512 * 1024 ** 2;
const downloadsAtOnceMax = 8;

async function downloadFold(context: Context, store: ObjectStore): Promise<FoldedInput> {
  const { files, dataset } = await readRemoteSummary(store);
  const { fetchThroughCache } = await import('../../bucket/fetch-files.ts');
  const cache = await openObjectCache(context);
  try {
    const folder = join(cache.folder, 'folded');
    const largest = files.reduce((max, { bytes }) => Math.max(max, bytes), 1);
    const wanted = files.map((file) => ({ ...file, target: join(folder, file.path) }));
    await fetchThroughCache(cache, wanted, {
      download: (file) => downloadFile(store, file),
      concurrency: Math.min(downloadsAtOnceMax, Math.max(1, Math.floor(bytesAtOnceMax / largest))),
      disk: context.disk,
      signal: context.signal,
      showProgress: (download) => withFilesDisplay(context, 'download', download),
    });
    const paths = files.map(({ path }) => path);
    return { place: store.url, folder, files: paths, dataset, release: () => cache.release() };
  } catch (error) {
    cache.release();
    throw error;
  }
}

async function readRemoteSummary(store: ObjectStore): Promise<FoldSummary> {
  const paths: string[] = [];
  for await (const { path } of store.list('summary/'))
    if (isSummaryName(path.slice('summary/'.length))) paths.push(path);
  const found = paths.length === 1 ? await store.get(paths[0]!) : null;
  if (found === null) throw createFoldError(store.url, unfinished);
  return parseSummary(store.url, Buffer.from(found.bytes).toString('utf8'));
}

async function downloadFile(store: ObjectStore, file: FoldedFile): Promise<Uint8Array> {
  const found = await store.get(file.path);
  if (found === null) throw createFoldError(store.url, `${file.path} is missing`);
  if (found.bytes.length === file.bytes && sha256(found.bytes) === file.sha256) return found.bytes;
  throw createFoldError(store.url, `${file.path} ${differs}`);
}

/** Spark names the file of a result. */
const isSummaryName = (name: string): boolean => /^part-[^/]*\.txt$/.test(name);

const unfinished = 'there is no summary, so it is no finished result of deploy/spark/fold.py';
const differs = 'differs from what the fold wrote';

const createFoldError = (place: string, fault: string): UsageError =>
  new UsageError(`${place}: ${fault}. Run fold.py again, into a new folder: docs/SPARK.md.`);

function parseSummary(place: string, text: string): FoldSummary {
  let summary: Partial<FoldSummary> | null = null;
  try {
    summary = JSON.parse(text) as Partial<FoldSummary> | null;
  } catch {}
  if (typeof summary !== 'object' || summary === null) throw createFoldError(place, 'its summary is not a JSON object');
  if (summary.format !== foldFormat || !Array.isArray(summary.files))
    throw createFoldError(place, `its summary has format ${summary.format}, and this oddslake reads ${foldFormat}`);
  const { dataset } = summary;
  if (dataset === undefined || (dataset !== 'ticks' && !seriesDatasets.some((name) => name === dataset)))
    throw createFoldError(place, 'its summary names no dataset');
  const folders: readonly string[] = [dataset, ...otherFolders];
  const isFile = (file: Partial<FoldedFile> | null): boolean =>
    Number.isSafeInteger(file?.bytes) &&
    file!.bytes! >= 0 &&
    /^[0-9a-f]{64}$/.test(String(file!.sha256)) &&
    isPathBelow(folders, file!.path);
  const files: readonly (Partial<FoldedFile> | null)[] = summary.files;
  const isWhole = otherFolders.every((folder) => files.some((file) => isPathBelow([folder], file?.path)));
  if (!isWhole || !files.every(isFile) || new Set(files.map((file) => file!.path)).size < files.length)
    throw createFoldError(place, 'its summary does not list the files of a fold');
  return summary as FoldSummary;
}

/** The folders of every fold, besides that of the dataset. */
const otherFolders = ['coverage', 'rejected', 'unreadable'] as const;

/** Files are read and linked by these paths, so they must not lead elsewhere. */
const isPathBelow = (folders: readonly string[], path: unknown): boolean =>
  typeof path === 'string' &&
  path.endsWith('.parquet') &&
  !path.includes('\0') &&
  normalize(path) === path &&
  folders.some((folder) => path.startsWith(`${folder}/`));

async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}
