import type { Archive } from '../../archive/open-archive.ts';
import type { Random } from '../../core/clock.ts';
import type { Window } from '../../core/window.ts';
import type { BacktestAsked } from '../../research/backtest-request.ts';
import { bind, gridPoints, type Point } from '../../research/bind-parameters.ts';
import { allLooks, type Looks } from '../../research/data-dependencies.ts';
import { samplesOf } from '../../research/equity-samples.ts';
import { type BacktestResult, gridResult, resultOf, splitOf } from '../../research/result.ts';
import type { Strategy } from '../../research/strategy.ts';
import type { Fault } from '../../research/validator.ts';
import { openGround } from './backtest-data.ts';
import { type Batch, lookFromOf, planBatches } from './batches.ts';
import { type Lacking, livesIn } from './coverage-gaps.ts';
import { TooManyAsked, weightOf } from './estimate-cost.ts';
import { UnfitBacktest } from './invalid-backtest.ts';
import { readMarkets } from './markets.ts';
import type { BatchPlan } from './run-batch.ts';
import { readUniverse, spanOf } from './select-symbols.ts';
import { openPlayers, type Players } from './worker-pool.ts';

/** What goes on beside a run. */
export interface Watching {
  readonly random: Random;
  readonly signal: AbortSignal;
  /** Threads that play, at least 1. */
  readonly threads: number;
  /** Ticks that are played at most, weighed as `weightOf` does; any number where it is not given. */
  readonly ticksMax?: number;
  /** Told now and then how many batches of how many are done. */
  progress(done: number, total: number): void;
}

/** The strategy that is asked for, as it was found by its name. */
export interface Found {
  readonly strategy: Strategy;
  /** Of a user's strategy; else null. */
  readonly version: number | null;
}

/**
 * Runs a backtest on one generation of the archive. A grid is run with all of its points on what they are chosen by and on
 * what is held out; then the best of them is told one by one, on what was held out.
 * @throws UnfitBacktest where what is asked cannot be run; TooManyAsked; UsageError for a symbol that nobody knows; DamageError for
 *   damaged files; the signal's reason once it is aborted
 */
export async function runBacktest(
  archive: Archive,
  asked: BacktestAsked,
  found: Found,
  { random, signal, threads, progress, ticksMax = Number.POSITIVE_INFINITY }: Watching,
): Promise<BacktestResult> {
  const points = gridPoints(asked.grid);
  const strategies = boundAt(points, asked, found);
  const looks = allLooks(strategies);
  const ground = await openGround(
    archive,
    { ...reach(asked, looks), states: looks.states || looks.venues },
    random,
    signal,
  );
  let players: Players | undefined;
  try {
    const universe = await readUniverse(ground.query, asked, signal);
    const span = spanOf(universe.members, asked, ground.publishedAt);
    if (span === null)
      throw new UnfitBacktest([{ name: 'from', reason: 'leaves no tick of any symbol that is asked for' }]);
    // Before all files are hashed: a large run would be told of it late.
    const weight = weightOf(universe, span, strategies);
    if (weight > ticksMax) throw new TooManyAsked(`${weight} ticks`);
    const split = Object.keys(asked.grid).length === 0 ? null : splitFor(span, asked);
    const told = split === null ? span : split[1];
    requireRoom(points.length, split ?? [told]);
    const markets = looks.venues ? await readMarkets(ground.query, span.to, signal) : null;
    const batchesOn = (window: Window): Batch[] =>
      planBatches(universe, { from: lookFromOn(window, span), to: window.to }, ground.parts, markets);
    const [all, last] = [batchesOn(span), batchesOn(told)];
    const batches = last.length + (split === null ? 0 : all.length);
    let done = 0;
    const threadsUsed = Math.min(threads, Math.max(all.length, last.length));
    players = await openPlayers(ground, threadsUsed, signal, () => progress(++done, batches));
    await ground.requireIntact(signal);
    const lacking = players.lacking(livesIn(universe.members, told), told);
    // Where it is played that fails first, nobody asks for it any more.
    lacking.catch(() => {});
    if (looks.states && batches > gatherBeyond) await ground.gatherStates(span.to, signal);

    let [grid, chosen]: [BacktestResult['grid'], Strategy | undefined] = [null, strategies[0]];
    if (split !== null) {
      const plan = { strategies, spans: split, detailed: false };
      grid = gridResult(asked, points, split, await players.play(all, planOn(span, span, plan)));
      chosen = strategies[grid.best ?? 0];
    }
    // What was held out is looked back on from as far as the grid was: its values are those that are told here.
    const plan = { strategies: [chosen!], spans: [told], detailed: true };
    const run = await players.play(last, planOn(told, span, plan));
    const coverage = coverageOf(await lacking);
    const framed = { asked, strategy: chosen!, strategy_version: found.version, grid, coverage, archive: ground.used };
    return resultOf(framed, told, run);
  } finally {
    try {
      await players?.close();
    } finally {
      await ground.close();
    }
  }

  function planOn(window: Window, span: Window, plan: BatchPlan['plan']): BatchPlan {
    const { parts, hasBooks } = ground;
    const { states } = looks;
    const statesFrom = lookFromOf(span.from, looks);
    const lookFrom = lookFromOn(window, span);
    return { plan, parts, span: window, lookFrom, statesFrom, states, books: hasBooks };
  }

  /** What was held out is looked back on from as far as all of the run is. */
  function lookFromOn(window: Window, span: Window): number {
    return looks.backMs === 0 ? window.from : lookFromOf(span.from, looks);
  }
}

const coverageOf = ({ asked, lacking }: Lacking): BacktestResult['coverage'] => ({
  asked_ms: asked,
  lacking_ms: lacking,
  lacking_share: asked === 0 ? null : lacking / asked,
});

/**
 * The strategy at every point of a grid.
 * @throws UnfitBacktest
 */
export const boundAt = (points: readonly Point[], asked: BacktestAsked, found: Found): Strategy[] =>
  points.map((point) => bound(asked, found, point));

/** With more batches than these, what was known of markets is put in order once, rather than all of it read for each. */
const gatherBeyond = 4;

/** Points times samples of one run: each of them takes 16 bytes, several times. */
const cellsMax = 2_000_000;

/** @throws UnfitBacktest where the curves of all points take too much memory */
function requireRoom(points: number, spans: readonly Window[]): void {
  const samples = spans.reduce((sum, span) => sum + samplesOf(span).t.length, 0);
  if (points * samples <= cellsMax) return;
  const reason = `has ${points} points, too many for a span with ${samples} samples: take at most ${Math.floor(cellsMax / samples)}, or a shorter span`;
  throw new UnfitBacktest([{ name: 'grid', reason }]);
}

function bound(asked: BacktestAsked, { strategy }: Found, point: Point): Strategy {
  const both = Object.keys(point).find((name) => Object.hasOwn(asked.parameters, name));
  if (both !== undefined) throw new UnfitBacktest([{ name: `parameters.${both}`, reason: 'is in the grid, too' }]);
  const read = bind(strategy, { ...asked.parameters, ...point });
  if ('faults' in read) throw new UnfitBacktest(read.faults.map((fault) => ofPoint(fault, point)));
  return read.strategy;
}

/** A parameter is named where its value was given. */
function ofPoint({ name, reason }: Fault, point: Point): Fault {
  const [, parameter = ''] = /^parameters\.(.*)$/s.exec(name) ?? [];
  return { name: Object.hasOwn(point, parameter) ? `grid.${parameter}` : name, reason };
}

function splitFor(span: Window, asked: BacktestAsked): readonly [Window, Window] {
  const split = splitOf(span, asked.held_out);
  if (split === undefined)
    throw new UnfitBacktest([{ name: 'held_out', reason: 'leaves nothing to choose by, or to judge on' }]);
  return split;
}

/** What may be read of the archive. */
const reach = ({ from, to, symbols }: BacktestAsked, looks: Looks) => ({
  from: from === null ? null : lookFromOf(from, looks),
  to,
  // Their other venues are known only once the symbols are read.
  symbols: looks.venues ? [] : (symbols ?? []),
});
