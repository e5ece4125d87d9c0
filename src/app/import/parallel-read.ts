import type { Context } from '../context.ts';
import { openThreads, type Threads } from '../worker-pool.ts';
import type { ImportFile } from './files.ts';
import type { PageRead } from './pages.ts';
import type { Reading } from './read-rows.ts';

/** Bytes of saved pages that are worth the start of threads. */
const threadedBytes = 16 << 20;
/** What a thread is given to read at a time. */
const batchBytes = 4 << 20;
const batchFiles = 64;
const batchesPerThread = 4;

/** Threads where there is enough for them to do. */
export async function threadsFor({ threads }: Context, files: readonly ImportFile[]): Promise<Threads | undefined> {
  const bytes = files.reduce((sum, file) => sum + (file.format === 'pages' ? file.bytes : 0), 0);
  return threads > 1 && bytes >= threadedBytes ? await openThreads(threads) : undefined;
}

/** The files in their order; pages of ticks as threads have read them, whatever else there is as null. */
export async function* inThreads(
  reading: Reading,
  files: readonly ImportFile[],
  threads: Threads | undefined,
): AsyncGenerator<{ readonly file: ImportFile; readonly page: PageRead }, void, undefined> {
  if (threads === undefined) {
    for (const file of files) yield { file, page: null };
    return;
  }
  const { rules, futureMs, scratch, run } = reading;
  const shared = {
    dataset: rules.dataset,
    futureMs,
    scratch,
    bytesMax: run.context.settings.upstream.responseBytesMax,
  };
  const under: { readonly files: readonly ImportFile[]; readonly pages: Promise<Settled> }[] = [];
  const next = async function* (): AsyncGenerator<{ file: ImportFile; page: PageRead }> {
    const first = under.shift()!;
    const settled = await first.pages;
    if ('error' in settled) throw settled.error;
    for (const [i, file] of first.files.entries()) yield { file, page: settled.pages[i] ?? null };
  };
  for (const batch of batchesOf(files)) {
    // More than they are at, as they do not end in order.
    while (under.length >= batchesPerThread * threads.count) yield* next();
    const isOfPages = batch[0]!.format === 'pages';
    const pages = isOfPages ? threads.pages({ ...shared, files: batch.map(namesOf) }) : Promise.resolve([]);
    under.push({
      files: batch,
      pages: pages.then(
        (read) => ({ pages: read }),
        (error: unknown) => ({ error }),
      ),
    });
  }
  while (under.length > 0) yield* next();
}

type Settled = { readonly pages: readonly PageRead[] } | { readonly error: unknown };

const namesOf = ({ path, compression, writtenAt }: ImportFile) => ({ path, compression, writtenAt });

/** The files cut into batches, in order: of pages, or of none. */
function batchesOf(files: readonly ImportFile[]): ImportFile[][] {
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

/** Takes in what a thread has read of a page. */
export async function takePage({ run, writer }: Reading, page: NonNullable<PageRead>): Promise<void> {
  run.pages++;
  await writer.read(page.read, page.rejected);
}
