import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import { sortTicksByTime } from '../../archive/journal/journal.ts';
import { type ImportedSymbolTicks, splitTicksByDay } from '../../archive/publish/import-buffer.ts';
import { openSpillFile, type SpillFile } from '../../archive/publish/spill-file.ts';
import type { RejectedInput } from '../../base/ticks.ts';
import type { ColumnBuffers } from '../../client/fast-page-decoder.ts';
import { UnreadableResponseError } from '../../client/response-body.ts';
import { type MergeThreads, openMergeThreads } from '../steps/merge-workers.ts';
import { formatErrorLine, type ImportFile, readWholeFile } from './files.ts';
import { readSavedPage, type SavedPage } from './import-page.ts';

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
  | { readonly kind: 'ticks'; readonly read: ImportedSymbolTicks; readonly rejected: readonly RejectedInput[] }
  | Exclude<SavedPage, { readonly kind: 'ticks' }>
  /**
   * `reason` is one clause. `isInvalid`: the content is not a response. Otherwise the file could not be read, and a
   * second attempt may succeed.
   */
  | { readonly kind: 'unreadable'; readonly reason: string; readonly isInvalid: boolean };

/** Starts threads that read saved pages and merge part files. @param count at least 2 */
export const openImportThreads = (count: number): Promise<MergeThreads> =>
  openMergeThreads(count, './page-workers', import.meta.url);

export interface PageReader {
  /**
   * Reads a batch on another thread, or on this one if the others have no room. Null for a market list, whose records
   * stay in memory, and for a file that could not be read: `readPage` reads these one at a time.
   */
  readPages(files: readonly PageFile[]): Promise<(PageRead | null)[]>;
  /** Reads a page on this thread. */
  readPage(file: PageFile): PageRead;
  close(): void;
}

export function openPageReader(rules: PageRules, threads: MergeThreads | undefined): PageReader {
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
    async readPages(files) {
      const task: ReadPagesTask = { ...rules, files };
      // Assign the tasks one by one, each after the completion messages of the threads have been processed.
      assignments = assignments.then(() => new Promise((resolve) => setImmediate(resolve)));
      await assignments;
      if (threads?.hasRoom() === true) return await threads.run<(PageRead | null)[]>('readPagesOnThread', task);
      return readBatch(task, openSpill());
    },
    readPage: (file) => readPage(file, rules, openSpill()),
    close() {
      isClosed = true;
      spill?.close();
    },
  };
}

const toSpillPath = ({ scratch }: PageRules): string => join(scratch, `ticks-${threadId}`);

/** The scratch file of this thread. The threads of an import end with the import, so it need not be closed. */
let threadSpill: SpillFile | undefined;

/** Reads pages on a thread. */
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
  const sorted = sortTicksByTime(validated.ticks);
  const read = { symbol, observedAt, ticks: spill.append(sorted), days: splitTicksByDay(sorted), covered };
  return { kind: 'ticks', read, rejected: validated.rejected };
}
