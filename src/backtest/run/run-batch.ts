import type { Query } from '../../archive/query/query.ts';
import { compareUtf8, computePartNumber } from '../../base/symbol-name.ts';
import type { Window } from '../../base/window.ts';
import { type Batch, type BatchSymbol, batchTicksMax, groupByMarket } from '../data/batches.ts';
import { findSharedWindows, readMarketStates } from '../data/markets.ts';
import { openOrderBookStore, readOrderBooks } from '../data/order-book-store.ts';
import { readTicks, type TickColumns, type TickReadFilter, TooManyTicksError } from '../data/tick-columns.ts';
import { mergeRunTotals, type RunPlan, type RunTotals, runSeries } from '../engine/run-series.ts';
import type { MarketState, OrderBookSeries, SymbolSeries, Venue } from '../engine/symbol-series.ts';

/** Plan of a batch run. */
export interface BatchPlan {
  readonly runPlan: RunPlan;
  readonly parts: number;
  /** From the start of the first window to the end of the last, epoch ms. */
  readonly span: Window;
  /** Start of the ticks, including lookback. */
  readonly readFrom: number;
  /** Start of the market states. */
  readonly statesFrom: number;
  readonly hasStates: boolean;
  readonly hasBooks: boolean;
}

/** Resources of a batch run. */
interface BatchContext {
  /** Folder for temporary files, created if needed. */
  readonly scratch: string;
  readonly signal: AbortSignal;
  /** Called regularly in synchronous code; aborts the signal if the run is cancelled. */
  checkStopped(): void;
}

/** A batch with more than this multiple of the estimated maximum of ticks is split in halves. */
const estimateFactorMax = 2;

/**
 * Loads and runs a batch.
 * @param query over the files of the batch, ticks by part
 * @param cut filters for reading ticks
 * @param ticksMax with more ticks, the batch is split in halves if possible
 */
export async function runBatch(
  query: Query,
  batch: Batch,
  plan: BatchPlan,
  filter: TickReadFilter,
  context: BatchContext,
  ticksMax = batchTicksMax * estimateFactorMax,
): Promise<RunTotals> {
  const { scratch, signal, checkStopped } = context;
  const { members } = batch;
  const halves = splitBatch(batch);
  const ticks = await loadTicks(
    query,
    batch,
    plan,
    filter,
    halves === null ? Number.POSITIVE_INFINITY : ticksMax,
    signal,
  );
  if (ticks === null) {
    const symbolFilter = { ...filter, symbols: true };
    const [first, second] = halves!;
    const firstTotals = await runBatch(query, first, plan, symbolFilter, context, ticksMax);
    return mergeRunTotals(firstTotals, await runBatch(query, second, plan, symbolFilter, context, ticksMax));
  }
  const symbols = members.map(({ symbol }) => symbol);
  const states = plan.hasStates ? await readMarketStates(query, symbols, plan.span.to, signal) : new Map();
  const times = new Map(symbols.map((symbol) => [symbol, ticks.get(symbol)!.t]));
  const bookStore = openOrderBookStore(scratch);
  try {
    const books = plan.hasBooks ? await readOrderBooks(query, times, plan.span, bookStore, signal) : new Map();
    return runSeries(plan.runPlan, createSeries(batch, ticks, states, books), () => {
      checkStopped();
      signal.throwIfAborted();
    });
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
async function loadTicks(
  query: Query,
  { members, otherVenues }: Batch,
  { readFrom, span, parts }: BatchPlan,
  filter: TickReadFilter,
  ticksMax: number,
  signal: AbortSignal,
): Promise<Map<string, TickColumns> | null> {
  const out = new Map<string, TickColumns>();
  const window = { from: readFrom, to: span.to };
  const all = [...members, ...otherVenues].map(({ symbol }) => symbol).sort(compareUtf8);
  let loaded = 0;
  for (const [part, symbols] of Map.groupBy(all, (symbol) => computePartNumber(symbol, parts))) {
    try {
      const columns = await readTicks(query, { part, symbols, window, cut: filter }, ticksMax - loaded, signal);
      for (const [i, symbol] of symbols.entries()) out.set(symbol, columns[i]!);
      loaded += columns.reduce((sum, { t }) => sum + t.length, 0);
    } catch (error) {
      if (error instanceof TooManyTicksError) return null;
      throw error;
    }
  }
  return out;
}

const noTicks = { t: new Float64Array(0), p: new Float64Array(0) };

function createSeries(
  { members, otherVenues }: Batch,
  ticks: ReadonlyMap<string, TickColumns>,
  states: ReadonlyMap<string, readonly MarketState[]>,
  books: ReadonlyMap<string, OrderBookSeries>,
): SymbolSeries[] {
  const groups = Map.groupBy([...members, ...otherVenues], ({ marketGroup }) => marketGroup);
  const findVenues = (player: BatchSymbol): Venue[] =>
    player.marketGroup === null
      ? []
      : groups.get(player.marketGroup)!.flatMap((other) => createVenue(player, other, ticks));
  return members.map((player) => ({
    symbol: player.symbol,
    settlement: player.settlement,
    ...(ticks.get(player.symbol) ?? noTicks),
    states: states.get(player.symbol) ?? [],
    books: books.get(player.symbol) ?? [],
    otherVenues: findVenues(player),
  }));
}

/** Another symbol as a venue of a market; empty if it is on the same venue, or was never known to have the same market. */
function createVenue(player: BatchSymbol, other: BatchSymbol, ticks: ReadonlyMap<string, TickColumns>): Venue[] {
  if (other.symbol === player.symbol || (other.source !== null && other.source === player.source)) return [];
  const sharedWindows = findSharedWindows(player.ids, other.ids);
  return sharedWindows.length === 0 ? [] : [{ ...(ticks.get(other.symbol) ?? noTicks), sharedWindows: sharedWindows }];
}
