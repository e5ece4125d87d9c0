import { describe, expect, onTestFinished, test } from 'vitest';
import { job as ticks } from '../../../jobs/ticks.ts';
import { readSymbolCoverage } from '../../../src/archive/journal/coverage-store.ts';
import { appendTicks } from '../../../src/archive/journal/journal.ts';
import { ensureSymbols, readSymbol } from '../../../src/archive/journal/symbol-store.ts';
import { listGaps } from '../../../src/archive/read/gaps.ts';
import { readStatus } from '../../../src/archive/read/status.ts';
import { formatStatus } from '../../../src/cli/format-archive.ts';
import { planPoll } from '../../../src/collector/paging/plan.ts';
import { notePolledPlans } from '../../../src/collector/steps/polled-symbols.ts';
import { openConfiguredArchive, toCompletenessRules } from '../../../src/context/open-configured.ts';
import { answer, day0, dayMs, hourMs, opened } from '../../archive/scratch.ts';
import { fewFiles, firstNight, type Nights, startNights } from './nights.ts';

const rules = { overlapMs: hourMs, lookbackMs: 3 * dayMs, lingerMs: 7 * dayMs };

test('the next poll requests the earlier pages of an interrupted first poll', () => {
  const { state } = opened();
  const end = day0 + 3 * dayMs;
  ensureSymbols(state.db, ['AAA'], end);
  const planned = { symbol: 'AAA', windows: [{ from: day0, to: end }], isFirst: true };
  appendTicks(state, [answer('AAA', [[end - 1, 0.5]], { windows: [{ from: end - hourMs, to: end }] })]);
  notePolledPlans(state.db, [planned]);
  expect(readSymbol(state.db, 'AAA')!.polledFrom).toBe(day0);
  const next = () => planPoll(readSymbol(state.db, 'AAA')!, readSymbolCoverage(state.db, 'AAA'), end, rules);
  expect(next()).toMatchObject({ windows: [{ from: day0, to: end - hourMs }], isFirst: false, hasMargin: true });
});

test('a symbol of the command line is expected from where its poll begins, however long the planning takes', async () => {
  const nights = await startNights({ seed: 3, markets: 4, ticksPerDay: 50 }, fewFiles, { runs: true });
  const context = await nights.contextAt(firstNight);
  const symbols = nights.box().symbols().slice(0, 3);
  const summary = await ticks.run(context, { symbols });
  expect(summary).toMatchObject({ exit_code: 0, failures: [], symbols: { planned: 3, done: 3 } });
});

describe('a first night in which every tick request fails', () => {
  const options = { seed: 3, markets: 30, ticksPerDay: 20 };
  const failing = async () => {
    const nights = await startNights(options, ['upstream.retry_attempts_max=1', 'archive.parts=1']);
    await nights.contextAt(firstNight);
    const all = nights.box().symbols();
    nights.box().set({ faultSymbols: Object.fromEntries(all.map((symbol) => [symbol, 500])) });
    return { nights, summary: await nights.night(firstNight) };
  };
  const rulesOf = async (nights: Nights, nowMs: number) => {
    const context = await nights.contextAt(nowMs);
    return { context, archive: openConfiguredArchive(context, false), rules: toCompletenessRules(context.settings) };
  };

  test('covers nothing, exits with 4, and owes all windows of the first polls', async () => {
    const { nights, summary } = await failing();
    const { planned } = summary.symbols;
    expect(planned).toBeGreaterThan(20);
    expect(summary).toMatchObject({ exit_code: 4, symbols: { done: 0, failed: planned }, failures_count: planned });
    expect(summary).toMatchObject({ watermark: null });
    const { verdict, findings } = summary;
    expect(verdict).toMatchObject({
      state: 'warning',
      text: expect.stringMatching(new RegExp(`^${planned} symbols failed since .*: HTTP 500`)),
      command: expect.stringMatching(/^oddslake backfill --from /),
    });

    const { archive, rules: judged } = await rulesOf(nights, firstNight);
    onTestFinished(() => archive.close());
    const status = readStatus(archive, judged, firstNight);
    expect(status).toMatchObject({ watermark: null, reached: null, lag_ms: null, symbols: { live: planned } });
    expect(status.gaps).toMatchObject({ symbols: planned });
    expect(formatStatus({ ...status, verdict, findings })).toMatch(/collected +nothing yet, \d+ live symbols/);
    const { gaps } = listGaps(archive, { from: null, to: null, symbols: [] }, judged, firstNight);
    expect(new Set(gaps.map(({ symbol }) => symbol)).size).toBe(planned);
    for (const gap of gaps)
      expect(gap).toMatchObject({ reason: 'failed', since: firstNight, detail: expect.stringContaining('500') });
    const { watermark, days } = archive.readManifest();
    expect(watermark).toBe(null);
    const today = days['2025-06-01']!;
    expect(today).toMatchObject({ state: 'incomplete', covered: 0, expected: expect.any(Number) });
    expect(today.missing).toHaveLength(20);
  });

  test('is made up for by the next night without a gap', async () => {
    const { nights } = await failing();
    nights.box().set({ faultSymbols: {} });
    const next = await nights.night(firstNight + 5 * 60_000);
    expect(next, JSON.stringify(next.failures)).toMatchObject({ exit_code: 0, reached: firstNight + 5 * 60_000 });
    const { archive, rules: judged } = await rulesOf(nights, firstNight + 5 * 60_000);
    onTestFinished(() => archive.close());
    expect(listGaps(archive, { from: null, to: null, symbols: [] }, judged, firstNight + 5 * 60_000).gaps).toEqual([]);
    expect(archive.state.db.all('select * from owed')).toEqual([]);
  });
});
