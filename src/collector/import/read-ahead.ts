import type { MergeThreads } from '../steps/merge-workers.ts';
import type { ImportFile } from './files.ts';
import type { PageRead, PageReader } from './page-workers.ts';

/** Maximum size of a batch for one worker. */
const batchBytes = 4 << 20;
const batchFiles = 64;
/**
 * Batches that are read before the first of them has been imported. With 4, the calling thread ran out of work while the first
 * batch waited for a thread that was starting. The ticks of a batch are in a scratch file.
 */
const batchesPerThread = 16;

/** Yields the files in order. If there are threads, they read saved pages ahead. */
export async function* readAhead(
  files: readonly ImportFile[],
  reader: PageReader,
  threads: MergeThreads | undefined,
): AsyncGenerator<{ readonly file: ImportFile; readonly page: PageRead | null }, void, undefined> {
  if (threads === undefined) {
    for (const file of files) yield { file, page: null };
    return;
  }
  const pending: { readonly files: readonly ImportFile[]; readonly pages: Promise<SettledBatch> }[] = [];
  const next = async function* () {
    const { files, pages } = pending.shift()!;
    const settled = await pages;
    if ('error' in settled) throw settled.error;
    for (const [i, file] of files.entries()) yield { file, page: settled.pages[i] ?? null };
  };
  for (const batch of splitFilesIntoBatches(files)) {
    // More batches than threads, because batches do not finish in order.
    while (pending.length >= batchesPerThread * threads.count) yield* next();
    const pages = batch[0]!.format === 'pages' ? reader.readPages(batch.map(toTaskFile)) : Promise.resolve([]);
    pending.push({
      files: batch,
      pages: pages.then(
        (read) => ({ pages: read }),
        (error: unknown) => ({ error }),
      ),
    });
  }
  while (pending.length > 0) yield* next();
}

type SettledBatch = { readonly pages: readonly (PageRead | null)[] } | { readonly error: unknown };

const toTaskFile = ({ path, writtenAt }: ImportFile) => ({ path, writtenAt });

/** Splits the files into batches, in order. A batch holds either saved pages or other files. */
function splitFilesIntoBatches(files: readonly ImportFile[]): ImportFile[][] {
  const out: ImportFile[][] = [];
  let bytes = 0;
  for (const file of files) {
    const last = out.at(-1);
    const fits = last !== undefined && last.length < batchFiles && bytes + file.bytes <= batchBytes;
    if (fits && (last[0]!.format === 'pages') === (file.format === 'pages')) last.push(file);
    else {
      out.push([file]);
      bytes = 0;
    }
    bytes += file.bytes;
  }
  return out;
}
