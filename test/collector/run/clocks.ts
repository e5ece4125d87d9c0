import { expect } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import { job as publish } from '../../../jobs/publish.ts';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import { covers, dayMs, floorToDay, union } from '../../../src/base/window.ts';
import { addsUp, coverageOf, manifestOf, ticksOf } from '../../e2e/lake.ts';
import { withState } from '../../harness/with-state.ts';
import { archiveFolder, contextOf } from './one-process.ts';
import { type ScriptedService, startScripted } from './scripted-service.ts';

// Nights of a collector whose clock differs from the clock of the service, and the invariants after each of them.

export const hourMs = 3_600_000;
export const yearMs = 365 * dayMs;
export const symbols = ['A-1', 'A-2', 'A-3'];

/** A service and a collector whose clock differs by `offMs`. `end` removes them. */
export async function world(nowMs: number) {
  const box = await startScripted(nowMs, symbols);
  const { output, remove } = archiveFolder();
  const end = async (): Promise<void> => {
    await box.stop();
    remove();
  };
  const hand = { offMs: 0 };
  const start = nowMs - dayMs;
  const set = ['source.first_lookback_days=1'];
  const night = async (day: number | null = null): Promise<Summary> => {
    const summary = await nightly.run(await contextOf(output, box.url, () => box.nowMs + hand.offMs, set), { day });
    expect(addsUp(summary)).toBe(true);
    return summary;
  };
  /** Publishes the coverage that nights without news have left in the journal. */
  const publishRest = async (): Promise<void> => {
    const summary = await publish.run(await contextOf(output, box.url, () => box.nowMs + hand.offMs, set), undefined);
    expect(summary.exit_code).toBe(0);
  };
  return { box, output, hand, night, publishRest, start, end };
}

/**
 * Checks that only true ticks are published, and that coverage is neither in the future nor incomplete.
 * @param aheadMsMax undetectable difference between the two clocks
 */
export function expectHonest(lake: { output: string; box: ScriptedService; start: number }, aheadMsMax = 0): void {
  const { output, box, start } = lake;
  for (const symbol of symbols) {
    const truth = box.truth(symbol, start, box.nowMs);
    const times = new Set(truth.map(({ t }) => t));
    const held = ticksOf(output).get(symbol) ?? [];
    expect(held.filter(({ t }) => !times.has(t))).toEqual([]);
    for (const { from, to, ticks, fetchedAt } of coverageOf(output).filter((row) => row.symbol === symbol)) {
      expect(to).toBeLessThanOrEqual(box.nowMs + aheadMsMax);
      expect(floorToDay(to - 1)).toBe(floorToDay(from));
      // A window that ends when it was requested, by a clock that is ahead, lacks the ticks that came in between.
      const sure = to < fetchedAt ? to : to - aheadMsMax;
      expect(held.filter(({ t }) => from <= t && t < sure)).toEqual(truth.filter(({ t }) => from <= t && t < sure));
      expect(ticks).toBe(held.filter(({ t }) => from <= t && t < to).length);
    }
  }
  expect(manifestOf(output).watermark ?? 0).toBeLessThanOrEqual(box.nowMs);
}

/** Checks that all ticks are published and covered. */
export function expectWhole(what: { output: string; box: ScriptedService; start: number }): void {
  const { output, box, start } = what;
  for (const symbol of symbols) {
    expect(ticksOf(output).get(symbol)).toEqual(box.truth(symbol, start, box.nowMs));
    const covered = union(coverageOf(output).filter((row) => row.symbol === symbol));
    expect(covers(covered, { from: start, to: box.nowMs })).toBe(true);
  }
}

/** IDs of all recorded runs. */
export const runIds = (output: string): string[] =>
  withState(output, (db) => db.all<{ run_id: string }>('select run_id from runs').map((row) => row.run_id));
