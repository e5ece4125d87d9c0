import { expect, test } from 'vitest';
import { job as backfill } from '../../../jobs/backfill.ts';
import { findInferredOf, readSymbolCoverage } from '../../../src/archive/journal/coverage-store.ts';
import { union } from '../../../src/base/window.ts';
import type { BackfillPlan } from '../../../src/collector/job.ts';
import { openConfiguredArchive } from '../../../src/context/open-configured.ts';
import { dayMs, fewFiles, firstNight, startNights } from './nights.ts';

test('backfill --recheck inferred plans only the inferred windows of the range', async () => {
  const nights = await startNights({ seed: 9, markets: 3, ticksPerDay: 20, lifetimeDaysMax: 60 }, fewFiles);
  expect((await nights.night(firstNight)).exit_code).toBe(0);
  const window = { from: firstNight - 2 * dayMs, to: firstNight };
  const plan = async (recheckInferred: boolean): Promise<BackfillPlan> => {
    let shown: BackfillPlan | undefined;
    const showPlan = (shownPlan: BackfillPlan): void => {
      shown = shownPlan;
    };
    const how = { window, symbols: [], force: false, allKnown: true, recheckInferred, showPlan };
    await backfill.run(await nights.contextAt(firstNight), how);
    return shown!;
  };
  const [plain, recheck] = [await plan(false), await plan(true)];
  const archive = openConfiguredArchive(await nights.contextAt(firstNight), false);
  const { db } = archive.state;
  for (const { symbol, windows } of recheck.plans) {
    const missing = plain.plans.find((other) => other.symbol === symbol)?.windows ?? [];
    const inferred = findInferredOf(db, symbol).filter((w) => w.to > window.from);
    const cut = inferred.map((w) => ({ from: Math.max(w.from, window.from), to: Math.min(w.to, window.to) }));
    expect(readSymbolCoverage(db, symbol).length).toBeGreaterThan(0);
    expect(windows).toEqual(union([...missing, ...cut]));
  }
  expect(recheck.plans.length).toBeGreaterThan(0);
  expect(recheck.requests).toBeGreaterThan(recheck.windows);
  archive.close();
});
