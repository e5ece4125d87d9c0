import type { Query } from '../../archive/query/query.ts';
import { compareUtf8, computePartNumber } from '../../base/symbol-name.ts';
import type { Window } from '../../base/window.ts';
import { type Batch, type BatchSymbol, batchTicksMax, groupByMarket } from '../data/batches.ts';
import { findSharedWindows, readMarketStates } from '../data/markets.ts';
import { openOrderBookStore, readOrderBooks } from '../data/order-book-store.ts';
import { readTicks, type TickColumns, type TickReadFilter, TooManyTicksError } from '../data/tick-columns.ts';
import { mergeRunTotals, type RunPlan, type RunTotals, runSeries } from '../engine/run-series.ts';
import type { MarketState, OrderBookSeries, SymbolSeries, Venue } from '../engine/symbol-series.ts';

/** What a thread is given to play. */
export interface BatchPlan {
  readonly runPlan: RunPlan;
  readonly parts: number;
  /** Of the first span to the last, epoch milliseconds. */
  readonly span: Window;
  /** From when on ticks are looked back on. */
  readonly readFrom: number;
  /** From when on it is looked for what was known of markets. */
  readonly statesFrom: number;
  readonly hasStates: boolean;
  readonly hasBooks: boolean;
}

/** What there is around a batch. */
export interface BatchContext {
  /** A folder for what does not fit in memory; made if need be. */
  readonly scratch: string;
  readonly signal: AbortSignal;
  /** Asked now and then while nothing else can be heard; aborts the signal where it is time to. */
  checkStopped(): void;
}

/** A guess of its ticks may be wrong: with so many times more, a batch is played in halves. */
const estimateFactorMax = 2;

/**
 * Loads a batch and plays it.
 * @param query over the files that it may need, ticks by their part
 * @param cut what of these is not to be read
 * @param ticksMax with more of them it is played in halves, as long as there are any
 */
export async function runBatch(
  query: Query,
  batch: Batch,
  plan: BatchPlan,
  cut: TickReadFilter,
  around: BatchContext,
  ticksMax = batchTicksMax * estimateFactorMax,
): Promise<RunTotals> {
  const { scratch, signal, checkStopped } = around;
  const { members } = batch;
  const halves = splitBatch(batch);
  const ticks = await loadTicks(query, batch, plan, cut, halves === null ? Number.POSITIVE_INFINITY : ticksMax, signal);
  if (ticks === null) {
    const less = { ...cut, symbols: true };
    const [first, second] = halves!;
    const done = await runBatch(query, first, plan, less, around, ticksMax);
    return mergeRunTotals(done, await runBatch(query, second, plan, less, around, ticksMax));
  }
  const symbols = members.map(({ symbol }) => symbol);
  const states = plan.hasStates ? await readMarketStates(query, symbols, plan.span.to, signal) : new Map();
  const times = new Map(symbols.map((symbol) => [symbol, ticks.get(symbol)!.t]));
  const shelf = openOrderBookStore(scratch);
  try {
    const books = plan.hasBooks ? await readOrderBooks(query, times, plan.span, shelf, signal) : new Map();
    return runSeries(plan.runPlan, createSeries(batch, ticks, states, books), () => {
      checkStopped();
      signal.throwIfAborted();
    });
  } finally {
    shelf.close();
  }
}

/** Two batches in the place of one, what has to be played together in one of them; null where that is all of it. */
function splitBatch({ members, otherVenues }: Batch): readonly [Batch, Batch] | null {
  const groups = groupByMarket(members);
  if (groups.length < 2) return null;
  const half = (some: readonly BatchSymbol[][]): Batch => {
    const own = some.flat();
    const names = new Set(own.map(({ marketGroup }) => marketGroup));
    return { members: own, otherVenues: otherVenues.filter(({ marketGroup }) => names.has(marketGroup)) };
  };
  const middle = groups.length >> 1;
  return [half(groups.slice(0, middle)), half(groups.slice(middle))];
}

/** The ticks of all symbols of a batch; null where they are too many. */
async function loadTicks(
  query: Query,
  { members, otherVenues }: Batch,
  { readFrom, span, parts }: BatchPlan,
  cut: TickReadFilter,
  ticksMax: number,
  signal: AbortSignal,
): Promise<Map<string, TickColumns> | null> {
  const out = new Map<string, TickColumns>();
  const window = { from: readFrom, to: span.to };
  const all = [...members, ...otherVenues].map(({ symbol }) => symbol).sort(compareUtf8);
  let loaded = 0;
  for (const [part, symbols] of Map.groupBy(all, (symbol) => computePartNumber(symbol, parts))) {
    try {
      const columns = await readTicks(query, { part, symbols, window, cut }, ticksMax - loaded, signal);
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
  const venuesOf = (player: BatchSymbol): Venue[] =>
    player.marketGroup === null
      ? []
      : groups.get(player.marketGroup)!.flatMap((other) => createVenue(player, other, ticks));
  return members.map((player) => ({
    symbol: player.symbol,
    settlement: player.settlement,
    ...(ticks.get(player.symbol) ?? noTicks),
    states: states.get(player.symbol) ?? [],
    books: books.get(player.symbol) ?? [],
    otherVenues: venuesOf(player),
  }));
}

/** Another symbol as a venue of a market; none where it is of the same venue, or was never known to have the market. */
function createVenue(player: BatchSymbol, other: BatchSymbol, ticks: ReadonlyMap<string, TickColumns>): Venue[] {
  if (other.symbol === player.symbol || (other.source !== null && other.source === player.source)) return [];
  const spans = findSharedWindows(player.ids, other.ids);
  return spans.length === 0 ? [] : [{ ...(ticks.get(other.symbol) ?? noTicks), sharedWindows: spans }];
}
