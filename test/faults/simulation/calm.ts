import { job as backfill } from '../../../jobs/backfill.ts';
import type { LostWindow } from '../../../src/archive/format/coverage.ts';
import type { Lake, Started } from './lake.ts';
import { beyond, endOf } from './spans.ts';
import { dayMs, type Hole, hourMs, toldHoles, toldPrices, toldTicks } from './world.ts';

// What must be so once the faults have stopped.

/** Nights without faults at the end of a story. */
export const calmNights = 5;

/**
 * After calm nights, which began at `nightsMs`, every live symbol is covered as far back as a poll looks, but for what
 * the service lacked whenever one of them asked for it.
 */
export function requireCovered({ world, audit, timeline, settings, skewMs }: Lake, nightsMs: readonly number[]): void {
  const covered = audit.coverage();
  const end = timeline.nowMs() - hourMs;
  const lookbackMs = settings.source.firstLookbackDays * dayMs;
  // What was younger than that when the calm nights began has been asked for.
  const from = nightsMs[0]! - lookbackMs;
  // No poll asks for a hole that is older than it looks back: one that is found again later stays one.
  const isFilled = (hole: Hole): boolean =>
    nightsMs.some((nowMs) => hole.until <= nowMs + skewMs && hole.to > nowMs - lookbackMs);
  for (const market of world.markets) {
    const { symbol, opensAt, closesAt, holes, tellsOpening } = market;
    if (closesAt < end || opensAt > end - dayMs || !tellsOpening) continue;
    const life = { from: Math.max(from, opensAt), to: end };
    const told = [...(covered.get(symbol) ?? []), ...holes.filter((hole) => !isFilled(hole))];
    const lacking = beyond([life], told);
    if (lacking.length > 0) {
      const reach = new Date(endOf(covered.get(symbol) ?? [], life.from)).toISOString();
      throw new Error(`calm: ${symbol} lacks ${JSON.stringify(lacking)}; it is covered up to ${reach}`);
    }
  }
}

/**
 * Once the service was asked for what is lost, nothing is that it has. One tick is lost where ticks and coverage of a day
 * were damaged together: which of the part's symbols had any then is known no more, and a quiet day is not proven.
 */
export function requireHealed({ world, timeline, skewMs }: Lake, lost: readonly LostWindow[]): void {
  for (const window of lost) {
    const market = world.markets.find(({ symbol }) => symbol === window.symbol)!;
    const told = toldTicks(market, window, timeline.nowMs() + skewMs).length;
    if (told >= window.ticks || window.ticks > 1)
      throw new Error(`calm: ${JSON.stringify(window)} is lost, and the service has ${told} ticks of it`);
  }
}

const daysAsked = 7;

/** Asks for the last days of every symbol once more. */
export function startCalmBackfill(lake: Lake): Started {
  const to = lake.timeline.nowMs();
  const window = { from: to - daysAsked * dayMs, to };
  const symbols = lake.world.markets.map(({ symbol }) => symbol);
  return lake.start('backfill', backfill.run, { window, symbols, force: true, allKnown: true, showPlan: null });
}

/**
 * After that backfill, asked for at `askedMs`, the archive has exactly what the world had to tell; a price that changed
 * while it ran may be either.
 */
export function requireTruth({ world, timeline, reader, oracle, skewMs }: Lake, askedMs: number): void {
  const window = { from: askedMs - daysAsked * dayMs, to: askedMs + Math.min(0, skewMs) };
  const moments = [askedMs + skewMs, timeline.nowMs() + skewMs] as const;
  const published = reader.ticks();
  for (const market of world.markets) {
    const { symbol } = market;
    const holes = toldHoles(market, window, moments[0]);
    for (const tick of toldTicks(market, window, moments[0])) {
      const { t } = tick;
      if (holes.some((hole) => hole.from <= t && t < hole.to)) continue;
      const p = published.get(symbol)?.get(t);
      if (p === undefined) throw new Error(`truth: ${symbol} at ${t} is missing`);
      // An import that was preferred wins over what is told now.
      if (
        oracle.seen
          .get(symbol)
          ?.get(t)
          ?.some(({ rank }) => rank === 2)
      )
        continue;
      const prices = moments.flatMap((atMs) => toldPrices(tick, atMs));
      if (!prices.includes(p)) throw new Error(`truth: ${symbol} at ${t} is ${p}, and ${prices} is told`);
    }
  }
}
