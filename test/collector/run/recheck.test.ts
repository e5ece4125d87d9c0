import { expect, test } from 'vitest';
import { job as backfill } from '../../../jobs/backfill.ts';
import { isProven } from '../../../src/archive/format/coverage.ts';
import { readCurrentCoverageOf, readSymbolCoverage } from '../../../src/archive/journal/coverage-store.ts';
import { readAllSymbols } from '../../../src/archive/journal/symbol-store.ts';
import { floorToDay, intersect, subtract, union, type Window } from '../../../src/base/window.ts';
import type { BackfillPlan } from '../../../src/collector/steps/estimate-step.ts';
import { openConfiguredArchive } from '../../../src/context/open-configured.ts';
import { dayMs, fewFiles, firstNight, startNights } from './nights.ts';

test('backfill --recheck inferred plans only the inferred windows of the range, as far as they can be proven by now', async () => {
  const nights = await startNights({ seed: 9, markets: 3, ticksPerDay: 20, lifetimeDaysMax: 60 }, fewFiles);
  expect((await nights.night(firstNight)).exit_code).toBe(0);
  const window = { from: firstNight - 2 * dayMs, to: firstNight };
  const plan = async (recheckInferred: boolean): Promise<BackfillPlan> => {
    let shown: BackfillPlan | undefined;
    const showPlan = (shownPlan: BackfillPlan): void => {
      shown = shownPlan;
    };
    const how = { window, symbols: [], force: false, allKnown: true, recheckInferred, showPlan };
    await backfill.run(await nights.contextAt(firstNight + dayMs), how);
    return shown!;
  };
  const [plain, recheck] = [await plan(false), await plan(true)];
  const archive = openConfiguredArchive(await nights.contextAt(firstNight), false);
  const { db } = archive.state;
  for (const { symbol, windows } of recheck.plans) {
    const missing = plain.plans.find((other) => other.symbol === symbol)?.windows ?? [];
    const covered = readCurrentCoverageOf(db, [symbol]).get(symbol)!;
    const inferred = subtract(union(covered), union(covered.filter(isProven))).filter((w) => w.to > window.from);
    const provable = intersect(inferred, [{ from: window.from, to: floorToDay(firstNight) }]);
    expect(readSymbolCoverage(db, symbol).length).toBeGreaterThan(0);
    expect(windows).toEqual(union([...missing, ...provable]));
  }
  expect(recheck.plans.length).toBeGreaterThan(0);
  expect(recheck.requests).toBeGreaterThan(recheck.windows);
  archive.close();
});

test('what a night soon after midnight could not prove, --recheck inferred proves on that day', async () => {
  // Ten minutes after midnight, no response proves the day before.
  const nights = await startNights({ seed: 9, markets: 6, ticksPerDay: 100 }, [...fewFiles, 'poll.settle_hours=1'], {
    runs: true,
  });
  const midnight = Date.UTC(2025, 5, 1);
  const nowMs = midnight + 2 * 3_600_000;
  const yesterday = { from: midnight - dayMs, to: midnight };
  /** The windows of yesterday that are not proven. */
  const readUnproven = async (): Promise<Window[]> => {
    const archive = openConfiguredArchive(await nights.contextAt(nowMs), false);
    const { db } = archive.state;
    const unproven = readAllSymbols(db).flatMap(({ symbol }) => {
      const covered = readCurrentCoverageOf(db, [symbol]).get(symbol)!;
      return subtract(intersect(covered, [yesterday]), covered.filter(isProven));
    });
    archive.close();
    return unproven;
  };
  await nights.night(midnight + 10 * 60_000);
  const before = await readUnproven();
  expect(before.filter(({ to }) => to === midnight)).toHaveLength(12);
  const window = { from: midnight - 2 * dayMs, to: midnight };
  const how = { window, symbols: [], force: false, allKnown: true, recheckInferred: true, showPlan: null };
  expect((await backfill.run(await nights.contextAt(nowMs), how)).exit_code).toBe(0);
  expect(await readUnproven()).toEqual([]);
});
