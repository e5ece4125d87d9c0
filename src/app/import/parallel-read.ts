import type { Context } from '../context.ts';
import { type JobWorkers, openJobWorkers } from '../worker-pool.ts';
import type { ImportFile } from './files.ts';
import type { TickPageRead } from './pages.ts';
import type { ImportContext } from './read-rows.ts';

/** Bytes of saved pages that are worth the start of threads. */
const threadedBytesMin = 16 << 20;
/** What a thread is given to read at a time. */
const batchBytes = 4 << 20;
const batchFiles = 64;
const batchesPerThread = 4;

/** Threads where there is enough for them to do. */
export async function openWorkersFor(
  { threads }: Context,
  files: readonly ImportFile[],
): Promise<JobWorkers | undefined> {
  const bytes = files.reduce((sum, file) => sum + (file.format === 'pages' ? file.bytes : 0), 0);
  return threads > 1 && bytes >= threadedBytesMin ? await openJobWorkers(threads) : undefined;
}

/** The files in their order; pages of ticks as threads have read them, whatever else there is as null. */
export async function* readInThreads(
  reading: ImportContext,
  files: readonly ImportFile[],
  threads: JobWorkers | undefined,
): AsyncGenerator<{ readonly file: ImportFile; readonly page: TickPageRead }, void, undefined> {
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
  const under: { readonly files: readonly ImportFile[]; readonly pages: Promise<SettledBatch> }[] = [];
  const next = async function* (): AsyncGenerator<{ file: ImportFile; page: TickPageRead }> {
    const first = under.shift()!;
    const settled = await first.pages;
    if ('error' in settled) throw settled.error;
    for (const [i, file] of first.files.entries()) yield { file, page: settled.pages[i] ?? null };
  };
  for (const batch of splitFilesIntoBatches(files)) {
    // More than they are at, as they do not end in order.
    while (under.length >= batchesPerThread * threads.count) yield* next();
    const isOfPages = batch[0]!.format === 'pages';
    const pages = isOfPages ? threads.readPages({ ...shared, files: batch.map(toTaskFile) }) : Promise.resolve([]);
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

type SettledBatch = { readonly pages: readonly TickPageRead[] } | { readonly error: unknown };

const toTaskFile = ({ path, compression, writtenAt }: ImportFile) => ({ path, compression, writtenAt });

/** The files cut into batches, in order: of pages, or of none. */
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

/** Takes in what a thread has read of a page. */
export async function importPage({ run, writer }: ImportContext, page: NonNullable<TickPageRead>): Promise<void> {
  run.pages++;
  await writer.addReadPage(page.read, page.rejected);
}
