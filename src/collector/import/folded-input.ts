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
  return { folder, files: files.map(({ path }) => path), dataset, release: () => {} };
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
    return { folder, files: files.map(({ path }) => path), dataset, release: () => cache.release() };
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
  let summary: Partial<FoldSummary>;
  try {
    summary = JSON.parse(text) as Partial<FoldSummary>;
  } catch {
    throw createFoldError(place, 'its summary is not JSON');
  }
  if (summary.format !== foldFormat || !Array.isArray(summary.files))
    throw createFoldError(place, `its summary has format ${summary.format}, and this oddslake reads ${foldFormat}`);
  const { dataset } = summary;
  if (dataset !== 'ticks' && !seriesDatasets.some((name) => name === dataset))
    throw createFoldError(place, `its summary names no dataset`);
  // Files are read and linked by these paths.
  const foreign = summary.files.find(({ path }) => normalize(path) !== path || /^(?:\/|\.\.)/.test(path));
  if (foreign !== undefined) throw createFoldError(place, `its summary has a path outside of the folder`);
  return summary as FoldSummary;
}

async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}
