import { systemDisk } from '../../archive/disk/file-system.ts';
import { checkNextFile, type SharedCheck } from '../../archive/integrity/check-files.ts';
import { openQueryEngine } from '../../archive/query/open-query.ts';
import type { DatasetFiles, Query, QueryEngine } from '../../archive/query/query.ts';
import { OddslakeError } from '../../base/errors.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { hasOneOf } from '../../base/symbol-range.ts';
import { emptyTicks, type TickColumns } from '../../base/ticks.ts';
import type { Window } from '../../base/window.ts';
import type { Trade } from '../../contract/trade-fields.ts';
import { type Batch, type BatchSymbol, batchTicksMax, groupByMarket, memoryBytesMax } from '../data/batches.ts';
import { type CoverageTotals, computeCoverageTotals, type LifetimeWindow } from '../data/coverage-gaps.ts';
import { findSharedWindows, readMarketStates } from '../data/markets.ts';
import { openOrderBookStore, readOrderBooks, readQuotes } from '../data/order-book-store.ts';
import {
  createTickMemory,
  readTickFiles,
  type TickFile,
  type TickMemory,
  TooManyTicksError,
} from '../data/tick-files.ts';
import { openTradeSpill } from '../data/trade-files.ts';
import { bookAgeMsMax, quoteAgeMsMax } from '../engine/book-lookup.ts';
import { mergeRunTotals, type RunPlan, type RunTotals, runSeries } from '../engine/run-series.ts';
import type { MarketState, OrderBookSeries, SymbolSeries, Venue } from '../engine/symbol-series.ts';

// Worker thread of a run: loads and simulates batches, and computes the coverage. The thread and its DuckDB end with the run.

interface WorkerTask {
  /** Folder of the files, and folder for temporary files. */
  readonly root: string;
  readonly scratch: string;
  /** Shared; 1 if the run is cancelled. */
  readonly stopped: Int32Array;
}

export interface BatchTask extends WorkerTask {
  readonly batch: Batch;
  readonly plan: BatchPlan;
  /** Order books, quotes and market states. */
  readonly sources: readonly DatasetFiles[];
  readonly tickFiles: readonly TickFile[];
  /** Path prefix of the files for all trades, see `openTradeSpill`; null if they are not needed. */
  readonly tradesPrefix: string | null;
}

/** Checks the hashes of files, together with other threads. */
export interface CheckFilesTask extends WorkerTask {
  readonly check: SharedCheck;
}

/** Computes the uncovered time of lifetimes. */
export interface CoverageTask extends WorkerTask {
  /** Files of coverage, by day. */
  readonly paths: readonly string[];
  readonly lifetimes: readonly LifetimeWindow[];
}

/** Expected errors are passed as data, because error classes are lost between threads. */
export type TaskResult<T> = { readonly done: T } | { readonly failed: TaskFailure };

export type TaskFailure = Pick<OddslakeError, 'exitCode' | 'message' | 'stack'>;

/** A batch with more than this multiple of the estimated maximum of ticks is split in halves. */
const estimateFactorMax = 2;

/** Interval of checks for cancellation while DuckDB runs, in ms. */
const stopPollMs = 50;

let engine: Promise<QueryEngine> | undefined;

/** A thread runs one batch at a time. */
const threadMemory = createTickMemory(estimateFactorMax * batchTicksMax);

/** One DuckDB thread, because the pool already uses all cores, and because it keeps rows in file order. */
const openSharedEngine = (root: string, scratch: string): Promise<QueryEngine> => {
  engine ??= openQueryEngine(root, { threads: 1, memoryBytesMax, scratch });
  return engine;
};

/** Opens DuckDB in advance if batches need it. Errors are ignored by the caller, because the first task repeats them. */
export async function openThread({
  root,
  scratch,
  needsQuery,
}: Pick<WorkerTask, 'root' | 'scratch'> & { readonly needsQuery: boolean }): Promise<void> {
  if (needsQuery) await openSharedEngine(root, scratch);
}

export const runBatchTask = (task: BatchTask): Promise<TaskResult<RunTotals>> =>
  runTask(task, async (cancellation) => {
    const spill = task.tradesPrefix === null ? null : openTradeSpill(task.tradesPrefix);
    const { root, scratch, sources, tickFiles } = task;
    const context = { scratch, memory: threadMemory, ...cancellation, ...(spill !== null && { onTrades: spill.add }) };
    let query: Promise<Query> | undefined;
    const openQuery = (): Promise<Query> => {
      query ??= openSharedEngine(root, scratch).then((shared) => shared.openQuery(sources, []));
      return query;
    };
    try {
      const totals = await runBatch({ openQuery, tickFiles }, task.batch, task.plan, context);
      spill?.end();
      return totals;
    } finally {
      // Not if it could not be opened.
      await query?.then(
        (opened) => opened.close(),
        () => {},
      );
    }
  });

export const checkFilesTask = (task: CheckFilesTask): Promise<TaskResult<null>> =>
  runTask(task, async ({ throwIfStopped }) => {
    while (checkNextFile(task.check, systemDisk)) {
      throwIfStopped();
    }
    return null;
  });

export const computeCoverageTask = (task: CoverageTask): Promise<TaskResult<CoverageTotals>> =>
  runTask(task, ({ signal }) => computeCoverageTotals(task.paths, task.lifetimes, signal));

interface Cancellation {
  readonly signal: AbortSignal;
  /** Called regularly in synchronous code; aborts the signal and throws its reason if the run is cancelled. */
  throwIfStopped(): void;
}

async function runTask<T>(
  { stopped }: WorkerTask,
  work: (cancellation: Cancellation) => Promise<T>,
): Promise<TaskResult<T>> {
  const stop = new AbortController();
  const checkStopped = (): void => {
    if (Atomics.load(stopped, 0) === 1) stop.abort(new Error('the backtest was cancelled'));
  };
  const throwIfStopped = (): void => {
    checkStopped();
    stop.signal.throwIfAborted();
  };
  throwIfStopped();
  const timer = setInterval(checkStopped, stopPollMs);
  try {
    return { done: await work({ signal: stop.signal, throwIfStopped }) };
  } catch (error) {
    if (!(error instanceof OddslakeError)) throw error;
    const { exitCode, message, stack } = error;
    return { failed: { exitCode, message, ...(stack !== undefined && { stack }) } };
  } finally {
    clearInterval(timer);
  }
}

export interface BatchPlan {
  readonly runPlan: RunPlan;
  /** From the start of the first window to the end of the last, epoch ms. */
  readonly span: Window;
  /** Start of the ticks, including lookback. */
  readonly readFrom: number;
  /** Start of the market states. */
  readonly statesFrom: number;
  readonly hasStates: boolean;
  readonly hasBooks: boolean;
  readonly hasQuotes: boolean;
}

/** Resources of a batch run. */
interface BatchContext extends Cancellation {
  /** Folder for temporary files, created if needed. */
  readonly scratch: string;
  /** For the ticks of the batch. */
  readonly memory: TickMemory;
  /** Called with all trades of each symbol of a detailed run. */
  onTrades?(trades: readonly Trade[]): void;
}

interface BatchSources {
  /** Opens DuckDB over the files besides ticks. */
  openQuery(): Promise<Query>;
  readonly tickFiles: readonly TickFile[];
}

/**
 * Loads and runs a batch.
 * @param ticksMax with more ticks, the batch is split in halves if possible
 */
export async function runBatch(
  sources: BatchSources,
  batch: Batch,
  plan: BatchPlan,
  context: BatchContext,
  ticksMax = batchTicksMax * estimateFactorMax,
): Promise<RunTotals> {
  const { scratch, signal, throwIfStopped } = context;
  const { members } = batch;
  const halves = splitBatch(batch);
  context.memory.reset();
  const ticks = loadTicks(
    sources.tickFiles,
    batch,
    plan,
    context,
    halves === null ? Number.POSITIVE_INFINITY : ticksMax,
  );
  if (ticks === null) {
    const [first, second] = halves!;
    const firstTotals = await runBatch(sources, first, plan, context, ticksMax);
    return mergeRunTotals(firstTotals, await runBatch(sources, second, plan, context, ticksMax));
  }
  const symbols = members.map(({ symbol }) => symbol);
  const states = plan.hasStates
    ? await readMarketStates(await sources.openQuery(), symbols, plan.span.to, signal)
    : new Map();
  const times = new Map(symbols.map((symbol) => [symbol, ticks.get(symbol)!.t]));
  const bookStore = openOrderBookStore(scratch);
  try {
    const selection = { ticks: times, span: plan.span };
    // A book that is too old for a fill still replaces the quotes before it.
    const ageMsMax = plan.hasQuotes ? quoteAgeMsMax : bookAgeMsMax;
    const books = plan.hasBooks
      ? await readOrderBooks(await sources.openQuery(), { ...selection, ageMsMax }, bookStore, signal)
      : new Map();
    const quotes = plan.hasQuotes
      ? await readQuotes(await sources.openQuery(), selection, bookStore, signal)
      : new Map();
    return runSeries(plan.runPlan, createSeries(batch, ticks, states, books, quotes), throwIfStopped, context.onTrades);
  } finally {
    bookStore.close();
  }
}

/** Splits a batch in two without splitting markets; null if there is only one market. */
function splitBatch({ members, otherVenues }: Batch): readonly [Batch, Batch] | null {
  const groups = groupByMarket(members);
  if (groups.length < 2) return null;
  const createHalf = (groupsHalf: readonly BatchSymbol[][]): Batch => {
    const halfMembers = groupsHalf.flat();
    const names = new Set(halfMembers.map(({ marketGroup }) => marketGroup));
    return { members: halfMembers, otherVenues: otherVenues.filter(({ marketGroup }) => names.has(marketGroup)) };
  };
  const middle = groups.length >> 1;
  return [createHalf(groups.slice(0, middle)), createHalf(groups.slice(middle))];
}

/** Loads the ticks of all symbols of a batch; null if there are too many. */
function loadTicks(
  tickFiles: readonly TickFile[],
  { members, otherVenues }: Batch,
  { readFrom, span }: BatchPlan,
  { memory, throwIfStopped }: BatchContext,
  ticksMax: number,
): Map<string, TickColumns> | null {
  const window = { from: readFrom, to: span.to };
  const symbols = [...members, ...otherVenues].map(({ symbol }) => symbol).sort(compareUtf8);
  const files = tickFiles.filter(({ range }) => hasOneOf(range, symbols));
  try {
    const columns = readTickFiles({ files, symbols, window }, memory, ticksMax, throwIfStopped);
    return new Map(symbols.map((symbol, i) => [symbol, columns[i]!]));
  } catch (error) {
    if (error instanceof TooManyTicksError) return null;
    throw error;
  }
}

function createSeries(
  { members, otherVenues }: Batch,
  ticks: ReadonlyMap<string, TickColumns>,
  states: ReadonlyMap<string, readonly MarketState[]>,
  books: ReadonlyMap<string, OrderBookSeries>,
  quotes: ReadonlyMap<string, OrderBookSeries>,
): SymbolSeries[] {
  const groups = Map.groupBy([...members, ...otherVenues], ({ marketGroup }) => marketGroup);
  const findVenues = (member: BatchSymbol): Venue[] =>
    member.marketGroup === null
      ? []
      : groups.get(member.marketGroup)!.flatMap((other) => createVenue(member, other, ticks));
  return members.map((member) => ({
    symbol: member.symbol,
    settlement: member.settlement,
    ...(ticks.get(member.symbol) ?? emptyTicks),
    states: states.get(member.symbol) ?? [],
    books: books.get(member.symbol) ?? [],
    quotes: quotes.get(member.symbol) ?? [],
    otherVenues: findVenues(member),
  }));
}

/** Another symbol as a venue of a market; empty if it is on the same venue, or was never known to have the same market. */
function createVenue(member: BatchSymbol, other: BatchSymbol, ticks: ReadonlyMap<string, TickColumns>): Venue[] {
  if (other.symbol === member.symbol || (other.source !== null && other.source === member.source)) return [];
  const sharedWindows = findSharedWindows(member.ids, other.ids);
  return sharedWindows.length === 0 ? [] : [{ ...(ticks.get(other.symbol) ?? emptyTicks), sharedWindows }];
}
