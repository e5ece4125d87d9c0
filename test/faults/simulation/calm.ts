import { job as backfill } from '../../../jobs/backfill.ts';
import type { LostWindow } from '../../../src/archive/format/coverage.ts';
import type { Window } from '../../../src/base/window.ts';
import type { Lake, Started } from './lake.ts';
import { computeContiguousEnd, subtractWindows } from './spans.ts';
import { dayMs, hourMs, listVisibleGaps, listVisiblePrices, listVisibleTicks, type ServiceGap } from './world.ts';

// Invariants after the faults have stopped.

/** Nights without faults at the end of a story. */
export const calmNights = 5;

/**
 * After calm nights, which began at `nightsMs`, every live symbol is covered as far back as a poll reaches, except for
 * what the service lacked at every request, and for moments of ticks that are reported as gaps: where the service repeats
 * ticks, a page of four elements at one tick can look full beside a page of six (the paging is more careful than it needs to
 * be there, and says so).
 */
export function requireCovered({ world, audit, timeline, settings, skewMs }: Lake, nightsMs: readonly number[]): void {
  const covered = audit.coverage();
  const crowded = audit.crowded();
  const end = timeline.nowMs() - hourMs;
  const lookbackMs = settings.source.firstLookbackDays * dayMs;
  // Anything younger than that when the calm nights began was requested.
  const from = nightsMs[0]! - lookbackMs;
  // No poll requests a gap that is older than its lookback: if the data reappears later, the gap stays.
  const isFilled = (gap: ServiceGap): boolean =>
    nightsMs.some((nowMs) => gap.until <= nowMs + skewMs && gap.to > nowMs - lookbackMs);
  for (const market of world.markets) {
    const { symbol, opensAt, closesAt, holes, tellsOpening } = market;
    if (closesAt < end || opensAt > end - dayMs || !tellsOpening) continue;
    const lifetime = { from: Math.max(from, opensAt), to: end };
    const hasTick = (window: Window): boolean => listVisibleTicks(market, window, timeline.nowMs() + skewMs).length > 0;
    const crowdedMoments = (crowded.get(symbol) ?? []).filter(hasTick);
    // A rare case: more of them would be another fault.
    if (crowdedMoments.length > 1) throw new Error(`calm: ${symbol} has ${crowdedMoments.length} crowded moments`);
    const expected = [...(covered.get(symbol) ?? []), ...holes.filter((gap) => !isFilled(gap)), ...crowdedMoments];
    const lacking = subtractWindows([lifetime], expected);
    if (lacking.length > 0) {
      const reach = new Date(computeContiguousEnd(covered.get(symbol) ?? [], lifetime.from)).toISOString();
      throw new Error(`calm: ${symbol} lacks ${JSON.stringify(lacking)}; it is covered up to ${reach}`);
    }
  }
}

/**
 * After the service was requested all lost windows, nothing that it has stays lost. A tick is lost if ticks and
 * coverage of a day were damaged together: it is unknown then which symbols of the part file had ticks, and a day
 * without ticks is not proven.
 */
export function requireRestored({ world, timeline, skewMs }: Lake, lost: readonly LostWindow[]): void {
  for (const window of lost) {
    const market = world.markets.find(({ symbol }) => symbol === window.symbol)!;
    const expected = listVisibleTicks(market, window, timeline.nowMs() + skewMs).length;
    if (expected >= window.ticks || window.ticks > 1)
      throw new Error(`calm: ${JSON.stringify(window)} is lost, and the service has ${expected} ticks in it`);
  }
}

const backfillDays = 7;

/** Backfills the last days of every symbol again. */
export function startCalmBackfill(lake: Lake): Started {
  const to = lake.timeline.nowMs();
  const window = { from: to - backfillDays * dayMs, to };
  const symbols = lake.world.markets.map(({ symbol }) => symbol);
  return lake.start('backfill', backfill.run, { window, symbols, force: true, allKnown: true, showPlan: null });
}

/**
 * After that backfill, started at `askedMs`, the archive equals the world's data; a price that changed during it may be
 * either.
 */
export function requireEqual({ world, timeline, reader, oracle, skewMs }: Lake, requestedMs: number): void {
  const window = { from: requestedMs - backfillDays * dayMs, to: requestedMs + Math.min(0, skewMs) };
  const moments = [requestedMs + skewMs, timeline.nowMs() + skewMs] as const;
  const published = reader.ticks();
  for (const market of world.markets) {
    const { symbol } = market;
    const holes = listVisibleGaps(market, window, moments[0]);
    for (const tick of listVisibleTicks(market, window, moments[0])) {
      const { t } = tick;
      if (holes.some((gap) => gap.from <= t && t < gap.to)) continue;
      const p = published.get(symbol)?.get(t);
      if (p === undefined) throw new Error(`truth: ${symbol} at ${t} is missing`);
      // A preferred import wins over the current data.
      if (
        oracle.seen
          .get(symbol)
          ?.get(t)
          ?.some(({ rank }) => rank === 2)
      )
        continue;
      const prices = moments.flatMap((atMs) => listVisiblePrices(tick, atMs));
      if (!prices.includes(p)) throw new Error(`truth: ${symbol} at ${t} is ${p}, and the service has ${prices}`);
    }
  }
}
