import { compareUtf8 } from '../../core/compare-utf8.ts';
import { partOf } from '../../core/partition.ts';
import type { Window } from '../../core/window.ts';
import type { Query } from '../../query/query.ts';
import { addRun, type RunDone, type RunPlan, runSeries } from '../../research/run-series.ts';
import type { Books, MarketState, Series, Venue } from '../../research/symbol-series.ts';
import { type Batch, batchTicksMax, type Player, together } from './batches.ts';
import { readBooks } from './load-order-books.ts';
import { readStates } from './market-states.ts';
import { togetherOf } from './markets.ts';
import { openShelf } from './order-book-store.ts';
import { type Cut, readTicks, type TickColumns, TooManyTicks } from './tick-columns.ts';

/** What a thread is given to play. */
export interface BatchPlan {
  readonly plan: RunPlan;
  readonly parts: number;
  /** Of the first span to the last, epoch milliseconds. */
  readonly span: Window;
  /** From when on ticks are looked back on. */
  readonly lookFrom: number;
  /** From when on it is looked for what was known of markets. */
  readonly statesFrom: number;
  readonly states: boolean;
  readonly books: boolean;
}

/** What there is around a batch. */
export interface Around {
  /** A folder for what does not fit in memory; made if need be. */
  readonly scratch: string;
  readonly signal: AbortSignal;
  /** Asked now and then while nothing else can be heard; aborts the signal where it is time to. */
  look(): void;
}

/** A guess of its ticks may be wrong: with so many times more, a batch is played in halves. */
const surpriseMax = 2;

/**
 * Loads a batch and plays it.
 * @param query over the files that it may need, ticks by their part
 * @param cut what of these is not to be read
 * @param ticksMax with more of them it is played in halves, as long as there are any
 */
export async function playBatch(
  query: Query,
  batch: Batch,
  plan: BatchPlan,
  cut: Cut,
  around: Around,
  ticksMax = batchTicksMax * surpriseMax,
): Promise<RunDone> {
  const { scratch, signal, look } = around;
  const { members } = batch;
  const halves = halvesOf(batch);
  const ticks = await load(query, batch, plan, cut, halves === null ? Number.POSITIVE_INFINITY : ticksMax, signal);
  if (ticks === null) {
    const less = { ...cut, symbols: true };
    const [first, second] = halves!;
    const done = await playBatch(query, first, plan, less, around, ticksMax);
    return addRun(done, await playBatch(query, second, plan, less, around, ticksMax));
  }
  const symbols = members.map(({ symbol }) => symbol);
  const states = plan.states ? await readStates(query, symbols, plan.span.to, signal) : new Map();
  const times = new Map(symbols.map((symbol) => [symbol, ticks.get(symbol)!.t]));
  const shelf = openShelf(scratch);
  try {
    const books = plan.books ? await readBooks(query, times, plan.span, shelf, signal) : new Map();
    return runSeries(plan.plan, seriesOf(batch, ticks, states, books), () => {
      look();
      signal.throwIfAborted();
    });
  } finally {
    shelf.close();
  }
}

/** Two batches in the place of one, what has to be played together in one of them; null where that is all of it. */
function halvesOf({ members, beside }: Batch): readonly [Batch, Batch] | null {
  const groups = together(members);
  if (groups.length < 2) return null;
  const half = (some: readonly Player[][]): Batch => {
    const own = some.flat();
    const names = new Set(own.map(({ group }) => group));
    return { members: own, beside: beside.filter(({ group }) => names.has(group)) };
  };
  const middle = groups.length >> 1;
  return [half(groups.slice(0, middle)), half(groups.slice(middle))];
}

/** The ticks of all symbols of a batch; null where they are too many. */
async function load(
  query: Query,
  { members, beside }: Batch,
  { lookFrom, span, parts }: BatchPlan,
  cut: Cut,
  ticksMax: number,
  signal: AbortSignal,
): Promise<Map<string, TickColumns> | null> {
  const out = new Map<string, TickColumns>();
  const window = { from: lookFrom, to: span.to };
  const all = [...members, ...beside].map(({ symbol }) => symbol).sort(compareUtf8);
  let loaded = 0;
  for (const [part, symbols] of Map.groupBy(all, (symbol) => partOf(symbol, parts))) {
    try {
      const columns = await readTicks(query, { part, symbols, window, cut }, ticksMax - loaded, signal);
      for (const [i, symbol] of symbols.entries()) out.set(symbol, columns[i]!);
      loaded += columns.reduce((sum, { t }) => sum + t.length, 0);
    } catch (error) {
      if (error instanceof TooManyTicks) return null;
      throw error;
    }
  }
  return out;
}

const noTicks = { t: new Float64Array(0), p: new Float64Array(0) };

function seriesOf(
  { members, beside }: Batch,
  ticks: ReadonlyMap<string, TickColumns>,
  states: ReadonlyMap<string, readonly MarketState[]>,
  books: ReadonlyMap<string, Books>,
): Series[] {
  const groups = Map.groupBy([...members, ...beside], ({ group }) => group);
  const venuesOf = (player: Player): Venue[] =>
    player.group === null ? [] : groups.get(player.group)!.flatMap((other) => venueOf(player, other, ticks));
  return members.map((player) => ({
    symbol: player.symbol,
    settlement: player.settlement,
    ...(ticks.get(player.symbol) ?? noTicks),
    states: states.get(player.symbol) ?? [],
    books: books.get(player.symbol) ?? [],
    others: venuesOf(player),
  }));
}

/** Another symbol as a venue of a market; none where it is of the same venue, or was never known to have the market. */
function venueOf(player: Player, other: Player, ticks: ReadonlyMap<string, TickColumns>): Venue[] {
  if (other.symbol === player.symbol || (other.source !== null && other.source === player.source)) return [];
  const spans = togetherOf(player.ids, other.ids);
  return spans.length === 0 ? [] : [{ ...(ticks.get(other.symbol) ?? noTicks), together: spans }];
}
