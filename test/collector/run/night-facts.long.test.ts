import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import { job as ticksJob } from '../../../jobs/ticks.ts';
import { readAllPublishedCoverage } from '../../../src/archive/journal/coverage-store.ts';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import { readAllSymbols } from '../../../src/archive/journal/symbol-store.ts';
import { isWithin } from '../../../src/base/window.ts';
import { createLeapingClock } from '../../client/virtual-clock.ts';
import { withState } from '../../harness/with-state.ts';
import { input, listed, rowsOf, ticksOf } from './night-facts.ts';
import { at, dayMs, fewFiles, hourMs, startNights } from './nights.ts';

test('counts ticks that appear after their window was covered as late', async () => {
  const nights = await startNights({ ...input, lateShare: 0.2, lateDelayMsMax: 2 * hourMs }, [
    ...fewFiles,
    'poll.overlap_minutes=180',
  ]);
  await nights.night(at(0));
  const seen = rowsOf(nights.output);
  const covered = withState(nights.output, readAllPublishedCoverage);
  const summary = await nights.night(at(1));
  const fresh = [...rowsOf(nights.output)].filter((key) => !seen.has(key));
  const late = fresh.filter((key) => {
    const [symbol, t] = key.split(' ') as [string, string];
    return covered.get(symbol)?.some((w) => isWithin(Number(t), w)) ?? false;
  });
  expect(late.length).toBeGreaterThan(0);
  expect(ticksOf(summary).late.count).toBe(late.length);
});

test('includes polls of other jobs since the last night', async () => {
  const nights = await startNights(input, fewFiles);
  await nights.night(at(0));
  const hourly = await ticksJob.run(await nights.contextAt(at(0) + 12 * hourMs), { symbols: [] });
  const summary = await nights.night(at(1));
  expect(ticksOf(summary).new.count).toBe(hourly.ticks.accepted + summary.ticks.accepted);
  expect(hourly.night).toBeUndefined();
});

test('compares markets with the lists of the previous night, despite polls in between', async () => {
  const nights = await startNights({ ...input, markets: 30, lifetimeDaysMax: 5 }, fewFiles);
  const first = await nights.night(at(0));
  expect(first.night!.markets.new.count).toBeGreaterThan(0);
  expect(first.night!.markets).toMatchObject({ delisted: { count: 0 }, resolved: { count: 0 } });
  const before = listed(nights.output);
  await ticksJob.run(await nights.contextAt(at(1) - hourMs), { symbols: [] });
  let changed = 0;
  for (let n = 1; n < 5; n++) {
    const { markets } = (await nights.night(at(n))).night!;
    for (const name of markets.new.names) expect(before.has(name)).toBe(false);
    for (const name of [...markets.delisted.names, ...markets.resolved.names]) expect(before.has(name)).toBe(true);
    for (const name of listed(nights.output)) before.add(name);
    changed += markets.new.count + markets.delisted.count + markets.resolved.count;
  }
  expect(changed).toBeGreaterThan(0);
});

test.for(['whole', 'not whole'])('a market is new in one night, the lists of which were %s', async (lists) => {
  const nights = await startNights({ ...input, lifetimeDaysMax: 5 }, fewFiles);
  await nights.night(at(0));
  const views = lists === 'not whole' ? ['source.views=["matched","odd"]'] : [];
  const context = await nights.contextAt(at(1), ...views);
  // The lists are later than the end of the poll.
  nights.box().set({ nowMs: at(1) + 5000 });
  const { markets } = (await nightly.run(context, { day: null })).night!;
  expect(markets.new.count).toBeGreaterThan(0);
  const { names } = (await nights.night(at(2))).night!.markets.new;
  expect(names.length).toBeGreaterThan(0);
  expect(names.filter((name) => markets.new.names.includes(name))).toEqual([]);
});

test('counts failed windows as gap minutes, and their symbols as not covered', async () => {
  const nights = await startNights(input, fewFiles);
  await nights.night(at(0));
  nights.box().set({ faultShare: 0.7, faults: ['500'] } as never);
  const summary = await nights.night(at(1), 'upstream.retry_attempts_max=1');
  nights.box().set({ faultShare: 0 } as never);
  expect(summary.exit_code).toBe(4);
  const { covered } = summary.night!;
  expect(covered.gap_minutes).toBeGreaterThanOrEqual(24 * 60);
  // A failure after the end of a lifetime is no gap.
  expect(covered.symbols).toBeGreaterThanOrEqual(summary.symbols.done);
  expect(covered.symbols).toBeLessThan(summary.symbols.planned);
  expect(summary.verdict.command).toMatch(/^oddslake backfill --from /);
});

test('a failed second fetch of a covered window is not a gap', async () => {
  const nights = await startNights(input, [...fewFiles, 'poll.overlap_minutes=240']);
  await nights.night(at(0));
  await ticksJob.run(await nights.contextAt(at(0) + 20 * hourMs), { symbols: [] });
  const [symbol] = withState(nights.output, (db) =>
    readAllSymbols(db).flatMap(({ symbol: name, closesAt }) => ((closesAt ?? 0) > at(2) ? [name] : [])),
  );
  nights.box().set({ faultSymbols: { [symbol!]: 404 } } as never);
  const { failures, night } = await nights.night(at(1));
  expect(failures).toHaveLength(1);
  expect(night!.covered.gap_minutes).toBe(4 * 60);
});

test('reports the request rate of a run with requests', async () => {
  const nights = await startNights(input, fewFiles);
  const context = await nights.contextAt(at(0), 'upstream.requests_per_second=50');
  // Waiting takes no time, so that a slow machine does not leave the rate unused.
  const clock = { ...createLeapingClock({ leapMsMax: 10_000 }), nowMs: context.clock.nowMs };
  const { rate, requests } = await nightly.run({ ...context, clock }, { day: null });
  expect(rate!.allowed_per_second).toBe(50);
  expect(rate!.used).toBeGreaterThan(0.5);
  expect(rate!.used).toBeLessThanOrEqual(1);
  expect(requests).toBeGreaterThan(5);
});

test('reports a night with the medians of previous nights, and consistent counts', async () => {
  const nights = await startNights({ ...input, lateShare: 0.05, lateDelayMsMax: 3 * hourMs }, [
    ...fewFiles,
    'poll.overlap_minutes=240',
  ]);
  const summaries: Summary[] = [];
  for (let n = 0; n < 9; n++) summaries.push(await nights.night(at(n)));
  for (const [n, summary] of summaries.entries()) {
    const { night, ticks } = summary;
    // The first night polled seven days, and is not compared with.
    expect(night!.nights).toBe(Math.min(Math.max(n - 1, 0), 7));
    expect(night!.ticks.new.count).toBe(ticks.accepted);
    expect(night!.ticks.late.count).toBeLessThanOrEqual(ticks.accepted);
    expect(night!.ticks.conflicts.count).toBe(ticks.conflicts);
    expect(night!.covered).toEqual({ symbols: expect.any(Number), gap_minutes: 0 });
    expect(summary.verdict).toMatchObject({ state: 'ok', command: null });
  }
  // Nothing was covered before the first night. Later, late ticks are in the overlap of the next night.
  expect(ticksOf(summaries[0]!).late).toEqual({ count: 0, median: null });
  for (const summary of summaries.slice(1)) expect(ticksOf(summary).late.count).toBeGreaterThan(0);
  const before = summaries.slice(1, 8).map((summary) => ticksOf(summary).new.count);
  expect(ticksOf(summaries[8]!).new.median).toBe(before.toSorted((a, b) => a - b)[3]);
});

test('a repeated night is not compared and not part of later medians', async () => {
  const nights = await startNights(input, fewFiles);
  for (let n = 0; n < 3; n++) await nights.night(at(n));
  const day = Math.floor(at(2) / dayMs) * dayMs - dayMs;
  const manifest = readFileSync(join(nights.output, 'manifest.json'), 'utf8');
  const again = await nightly.run(await nights.contextAt(at(2)), { day });
  expect(again.night).toMatchObject({ nights: 0, ticks: { new: { count: 0, median: null } } });
  const ticksFiles = (text: string) => JSON.parse(text).datasets.ticks;
  expect(ticksFiles(readFileSync(join(nights.output, 'manifest.json'), 'utf8'))).toEqual(ticksFiles(manifest));
  expect((await nights.night(at(3))).night!.nights).toBe(2);
});

test('counts symbols that are fetched after the service has thinned out their days', async () => {
  const nights = await startNights(input, fewFiles);
  await nights.night(at(0));
  const inTime = await nights.night(at(5));
  expect(inTime.night!.fetched_late).toEqual({ count: 0, names: [], days: 7 });
  const late = await nights.night(at(15));
  expect(late.night!.fetched_late.count).toBeGreaterThan(0);
  const never = await startNights(input, [...fewFiles, 'source.downsampled_after_days=null']);
  await never.night(at(0));
  expect((await never.night(at(15))).night!.fetched_late.count).toBe(0);
});
