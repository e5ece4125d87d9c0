import { compareUtf8 } from '../../core/order.ts';
import type { Window } from '../../core/window.ts';
import type { Query } from '../../query/query.ts';
import { addRun, type RunDone, type RunPlan, runSeries } from '../../research/run-series.ts';
import type { Book, MarketState, Series } from '../../research/series.ts';
import { type Batch, batchTicksMax } from './batches.ts';
import { type Lacking, lackingOf } from './lacking.ts';
import { readBooks, readStates } from './market-states.ts';
import { byPart, runsOf, type TicksBySymbol, ticksOf } from './tick-runs.ts';

/** What a thread is given to play. */
export interface BatchPlan {
  readonly plan: RunPlan;
  readonly parts: number;
  /** Of the first span to the last, epoch milliseconds. */
  readonly span: Window;
  /** From when on ticks are looked back on. */
  readonly lookFrom: number;
  readonly states: boolean;
  readonly books: boolean;
}

export interface BatchDone {
  readonly run: RunDone;
  readonly lacking: Lacking;
}

/** A guess of its ticks may be wrong: with so many times more, a batch is played in halves. */
const surpriseMax = 2;

/** Loads a batch and plays it. `query` is over the files that it may need. */
export async function playBatch(query: Query, batch: Batch, plan: BatchPlan, signal: AbortSignal): Promise<BatchDone> {
  const lacking = await lackingOf(query, batch.members, plan.span, signal);
  return { run: await playMembers(query, batch, plan, signal), lacking };
}

async function playMembers(query: Query, batch: Batch, plan: BatchPlan, signal: AbortSignal): Promise<RunDone> {
  const { members, beside, isRange } = batch;
  const window = { from: plan.lookFrom, to: plan.span.to };
  const loads: { asked: Parameters<typeof ticksOf>[1]; runs: Awaited<ReturnType<typeof runsOf>> }[] = [];
  for (const [, ofPart] of byPart([...members, ...beside], plan.parts)) {
    const asked = { symbols: ofPart.map(({ symbol }) => symbol).sort(compareUtf8), isRange, ...window };
    loads.push({ asked, runs: await runsOf(query, asked, signal) });
  }
  const ticks = loads.flatMap(({ runs }) => runs).reduce((sum, { n }) => sum + n, 0);
  if (ticks > surpriseMax * batchTicksMax && members.length > 1 && beside.length === 0) {
    const middle = members.length >> 1;
    const halves = [members.slice(0, middle), members.slice(middle)];
    const [first, second] = [halves[0]!, halves[1]!].map((half) => ({ ...batch, members: half }));
    return addRun(await playMembers(query, first!, plan, signal), await playMembers(query, second!, plan, signal));
  }
  const bySymbol = new Map<string, { t: Float64Array; p: Float64Array }>();
  for (const { asked, runs } of loads)
    for (const [symbol, columns] of await ticksOf(query, asked, runs, signal)) bySymbol.set(symbol, columns);
  const symbols = members.map(({ symbol }) => symbol);
  const states = plan.states ? await readStates(query, symbols, plan.span.to, signal) : new Map();
  const books = plan.books ? await readBooks(query, symbols, plan.span, signal) : new Map();
  return runSeries(plan.plan, seriesOf(batch, bySymbol, states, books));
}

const noTicks = { t: new Float64Array(0), p: new Float64Array(0) };

function seriesOf(
  { members, beside }: Batch,
  ticks: TicksBySymbol,
  states: ReadonlyMap<string, readonly MarketState[]>,
  books: ReadonlyMap<string, readonly Book[]>,
): Series[] {
  const venues = Map.groupBy([...members, ...beside], ({ canonicalId }) => canonicalId);
  return members.map(({ symbol, canonicalId, settlement }) => ({
    ...{ symbol, settlement, ...(ticks.get(symbol) ?? noTicks) },
    states: states.get(symbol) ?? [],
    books: books.get(symbol) ?? [],
    others:
      canonicalId === null
        ? []
        : venues
            .get(canonicalId)!
            .flatMap((other) => (other.symbol === symbol ? [] : [ticks.get(other.symbol) ?? noTicks])),
  }));
}
