import { type SeriesRows, sortSeriesByTime, splitSeriesByDay } from '../../archive/format/series.ts';
import { createNullTexts, isNullColumn, type TextColumn } from '../../archive/format/text-columns.ts';
import { openSpillFile, type SpilledRows, type SpillFile } from '../../archive/publish/spill-file.ts';
import { DiskFullError } from '../../base/errors.ts';
import { listWholeBuffers, moveToCaller, openWorkerPool } from '../../base/worker-threads.ts';
import { type FilledRows, groupRows, type RowArrays } from './row-buffer.ts';

/** Rows of one symbol and UTC day in a scratch file. */
export interface SpilledDay {
  readonly symbol: string;
  readonly day: number;
  readonly spilled: SpilledRows;
}

/** Sorts the rows of each symbol by time, splits them by day and writes them to a scratch file. */
export function spillRows(groups: Iterable<SeriesRows & { readonly symbol: string }>, file: SpillFile): SpilledDay[] {
  const out: SpilledDay[] = [];
  for (const { symbol, ...ofSymbol } of groups)
    for (const { day, ...ofDay } of splitSeriesByDay(sortSeriesByTime(ofSymbol)))
      out.push({ symbol, day, spilled: file.appendRows(ofDay) });
  return out;
}

/** What a thread gets: no texts for a column of nulls, whose shared arrays would be copied whole. */
interface SpillTask extends Omit<FilledRows, 'texts'> {
  readonly path: string;
  readonly texts: readonly (TextColumn | null)[];
}

/** `full`: why the rows were not written. */
type SpillResult = { readonly days: readonly SpilledDay[]; readonly arrays: RowArrays } | { readonly full: string };

/** A thread that spills the rows of an import, while the calling thread reads the next ones. */
export interface SpillThread {
  /**
   * Spills rows, after those of earlier calls. Returns the arrays of the rows too, to use them again.
   * @param path scratch file of this thread
   * @throws DiskFullError
   */
  spill(path: string, rows: FilledRows): Promise<{ readonly days: readonly SpilledDay[]; readonly arrays: RowArrays }>;
  /** Ends the thread, even if it is writing. */
  close(): Promise<void>;
}

/** Minimum number of rows of a series for which a thread that spills them pays off. */
const threadedRowsMin = 1_000_000;

/** The thread of an import, which is started when there are enough rows for it. */
export function createSpillThread(threads: number) {
  let thread: Promise<SpillThread> | undefined;
  return {
    /** @param rows number of rows so far. Returns null if they are spilled on the calling thread */
    async get(rows: number): Promise<SpillThread | null> {
      if (threads < 2 || rows < threadedRowsMin) return null;
      thread ??= startSpillThread();
      return await thread;
    },
    /** Ends it, because the threads of a publish need its processor and its memory. */
    async end(): Promise<void> {
      const ended = thread;
      thread = undefined;
      await (await ended)?.close();
    },
  };
}

/** Starts the thread. */
export async function startSpillThread(): Promise<SpillThread> {
  const pool = await openWorkerPool('./spill-rows', import.meta.url, 1);
  return {
    async spill(path, { arrays, texts, ...rows }) {
      const sent = texts.map((column) => (isNullColumn(column) ? null : column));
      const task: SpillTask = { ...rows, path, arrays, texts: sent };
      const result = (await pool.run('spillOnThread', task, listBuffers(arrays, sent))) as SpillResult;
      if ('full' in result) throw new DiskFullError(result.full);
      return result;
    },
    close: () => pool.close(),
  };
}

const listBuffers = ({ ids, t, values }: RowArrays, texts: readonly (TextColumn | null)[]): ArrayBuffer[] => [
  ids.buffer,
  ...listWholeBuffers([t, ...values, ...texts.flatMap((column) => (column === null ? [] : [column.bytes]))]),
];

/** The scratch files of this thread. Node closes them when it ends. */
const files = new Map<string, SpillFile>();

/** Runs on the thread. */
export function spillOnThread({ path, texts, ...rows }: SpillTask): Promise<SpillResult> | SpillResult {
  try {
    const file = files.get(path) ?? openSpillFile(path);
    files.set(path, file);
    const { arrays, length } = rows;
    const groups = groupRows({ ...rows, texts: texts.map((column) => column ?? createNullTexts(length)) });
    const days = spillRows(groups, file);
    return moveToCaller({ days, arrays }, listBuffers(arrays, []));
  } catch (error) {
    // The class of an error is lost on the way to the caller.
    if (error instanceof DiskFullError) return { full: error.message };
    throw error;
  }
}
