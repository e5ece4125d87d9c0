import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import { sortTicksByTime } from '../../archive/journal/journal.ts';
import { openSpillFile, type SpillFile } from '../../archive/publish/spill-file.ts';
import type { RejectedInput } from '../../base/ticks.ts';
import type { ColumnBuffers } from '../../client/fast-page-decoder.ts';
import { UnreadableResponseError } from '../../client/response-body.ts';
import { type MergeThreads, openMergeThreads } from '../steps/merge-workers.ts';
import { formatErrorLine, type ImportFile, readWholeFile } from './files.ts';
import { readSavedPage, type SavedPage } from './import-page.ts';
import type { ImportedTicks } from './scratch-list.ts';

// The threads of an import use the exports of this module.
export { mergePart, mergeSeriesOnThread } from '../steps/merge-workers.ts';

/** How saved pages are read. */
interface PageRules {
  readonly dataset: 'ticks' | 'markets' | null;
  /** Latest time accepted, epoch ms. */
  readonly futureMs: number;
  /** Maximum size of a file. */
  readonly bytesMax: number;
  /** Folder for scratch files. */
  readonly scratch: string;
}

type PageFile = Pick<ImportFile, 'path' | 'writtenAt'>;

/** A batch of saved pages for one thread. */
interface ReadPagesTask extends PageRules {
  readonly files: readonly PageFile[];
}

/** What a saved page contains. Its ticks are in the scratch file of the thread that read it. */
export type PageRead =
  | { readonly kind: 'ticks'; readonly ticks: ImportedTicks; readonly rejected: readonly RejectedInput[] }
  | Exclude<SavedPage, { readonly kind: 'ticks' }>
  /**
   * `reason` is one clause. `isInvalid`: the content is not a response. Otherwise the file could not be read, and a
   * second attempt may succeed.
   */
  | { readonly kind: 'unreadable'; readonly reason: string; readonly isInvalid: boolean };

/** Starts threads that read saved pages and merge part files. @param count at least 2 */
export const openImportThreads = (count: number): Promise<MergeThreads> =>
  openMergeThreads(count, './page-workers', import.meta.url);

type PageReader = ReturnType<typeof openPageReader>;

export function openPageReader(rules: PageRules, threads: MergeThreads | undefined) {
  let spill: SpillFile | undefined;
  let isClosed = false;
  const openSpill = (): SpillFile => {
    // A batch may still be pending when an import is aborted.
    if (isClosed) throw new Error('the page reader is closed');
    spill ??= openSpillFile(toSpillPath(rules));
    return spill;
  };
  let assignments = Promise.resolve();
  return {
    /**
     * Reads a batch on another thread, or on this one if the others have no room. Null for a market list, whose records
     * stay in memory, and for a file that could not be read: `readPage` reads these one at a time.
     */
    async readPages(files: readonly PageFile[]): Promise<(PageRead | null)[]> {
      const task: ReadPagesTask = { ...rules, files };
      // Assign the tasks one by one, each after the completion messages of the threads have been processed.
      assignments = assignments.then(() => new Promise((resolve) => setImmediate(resolve)));
      await assignments;
      if (threads?.hasRoom() === true) return await threads.run<(PageRead | null)[]>('readPagesOnThread', task);
      return readBatch(task, openSpill());
    },
    /** Reads a page on this thread. */
    readPage: (file: PageFile): PageRead => readPage(file, rules, openSpill()),
    close() {
      isClosed = true;
      spill?.close();
    },
  };
}

const toSpillPath = ({ scratch }: PageRules): string => join(scratch, `ticks-${threadId}`);

/** The scratch file of this thread. The threads of an import end with the import, so it need not be closed. */
let threadSpill: SpillFile | undefined;

export function readPagesOnThread(task: ReadPagesTask): (PageRead | null)[] {
  threadSpill ??= openSpillFile(toSpillPath(task));
  return readBatch(task, threadSpill);
}

const readBatch = ({ files, ...rules }: ReadPagesTask, spill: SpillFile): (PageRead | null)[] =>
  files.map((file) => {
    const page = readPage(file, rules, spill);
    return page.kind === 'markets' || (page.kind === 'unreadable' && !page.isInvalid) ? null : page;
  });

/** The ticks of a page are in the scratch file before the next page is read. */
const pageBuffers: ColumnBuffers = { t: new Float64Array(0), p: new Float64Array(0) };

/** Reads a page, and writes its ticks to the scratch file. */
function readPage(file: PageFile, { dataset, futureMs, bytesMax }: PageRules, spill: SpillFile): PageRead {
  let page: SavedPage;
  try {
    page = readSavedPage(readWholeFile(file, bytesMax), dataset, { writtenAt: file.writtenAt, futureMs }, pageBuffers);
  } catch (error) {
    const isInvalid = error instanceof UnreadableResponseError;
    return {
      kind: 'unreadable',
      isInvalid,
      reason: isInvalid ? `invalid response: ${error.message}` : `cannot be read: ${formatErrorLine(error)}`,
    };
  }
  if (page.kind !== 'ticks') return page;
  const { symbol, observedAt, validated, covered } = page;
  const { t, p } = sortTicksByTime(validated.ticks);
  const spilled = spill.append({ t, values: [p], texts: [] });
  return { kind: 'ticks', ticks: { symbol, observedAt, spilled, covered }, rejected: validated.rejected };
}

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
