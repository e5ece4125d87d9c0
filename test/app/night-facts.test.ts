import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { job as nightly } from '../../jobs/nightly.ts';
import { job as ticksJob } from '../../jobs/ticks.ts';
import type { Summary } from '../../src/app/summary.ts';
import { decodeTicks } from '../../src/archive/parquet/ticks-file.ts';
import { coveredEnds } from '../../src/state/coverage.ts';
import { type Database, openDatabase } from '../../src/state/database.ts';
import { allSymbols } from '../../src/state/symbols.ts';
import { dayMs, fewFiles, firstNight, hourMs, startNights } from './nights.ts';

const input = { seed: 5, markets: 12, ticksPerDay: 150, lifeDaysMax: 30 };
const at = (n: number): number => firstNight + n * dayMs;
const ticksOf = ({ night }: Summary) => night!.ticks;

test('a night is told beside the median of those before it, by counts that add up', async () => {
  const nights = await startNights({ ...input, lateShare: 0.05, lateDelayMsMax: 3 * hourMs }, [
    ...fewFiles,
    'poll.overlap_minutes=240',
  ]);
  const summaries: Summary[] = [];
  for (let n = 0; n < 9; n++) summaries.push(await nights.night(at(n)));
  for (const [n, summary] of summaries.entries()) {
    const { night, ticks } = summary;
    expect(night!.nights).toBe(Math.min(n, 7));
    expect(night!.ticks.new.count).toBe(ticks.accepted);
    expect(night!.ticks.late.count).toBeLessThanOrEqual(ticks.accepted);
    expect(night!.ticks.conflicts.count).toBe(ticks.conflicts);
    expect(night!.covered).toEqual({ symbols: expect.any(Number), gap_minutes: 0 });
    expect(summary.next_action).toBeNull();
  }
  // Nothing was covered before the first night; after it, what became visible late is in the overlap of the next.
  expect(ticksOf(summaries[0]!).late).toEqual({ count: 0, median: null });
  for (const summary of summaries.slice(1)) expect(ticksOf(summary).late.count).toBeGreaterThan(0);
  const before = summaries.slice(1, 8).map((summary) => ticksOf(summary).new.count);
  expect(ticksOf(summaries[8]!).new.median).toBe(before.toSorted((a, b) => a - b)[3]);
});

test('late ticks are those older than the end of what had been covered, counted by hand', async () => {
  const nights = await startNights({ ...input, lateShare: 0.2, lateDelayMsMax: 2 * hourMs }, [
    ...fewFiles,
    'poll.overlap_minutes=180',
  ]);
  await nights.night(at(0));
  const seen = rowsOf(nights.output);
  const ends = inState(nights.output, coveredEnds);
  const summary = await nights.night(at(1));
  const fresh = [...rowsOf(nights.output)].filter((key) => !seen.has(key));
  const late = fresh.filter((key) => {
    const [symbol, t] = key.split(' ') as [string, string];
    return Number(t) < (ends.get(symbol) ?? Number.NEGATIVE_INFINITY);
  });
  expect(late.length).toBeGreaterThan(0);
  expect(ticksOf(summary).late.count).toBe(late.length);
});

test('what another job polled since the last night counts for the night', async () => {
  const nights = await startNights(input, fewFiles);
  await nights.night(at(0));
  const hourly = await ticksJob.run(await nights.contextAt(at(0) + 12 * hourMs), { symbols: [] });
  const summary = await nights.night(at(1));
  expect(ticksOf(summary).new.count).toBe(hourly.ticks.accepted + summary.ticks.accepted);
  expect(hourly.night).toBeUndefined();
});

test('a night that is repeated is compared with nothing, and is no part of later medians', async () => {
  const nights = await startNights(input, fewFiles);
  for (let n = 0; n < 3; n++) await nights.night(at(n));
  const day = Math.floor(at(2) / dayMs) * dayMs - dayMs;
  const manifest = readFileSync(join(nights.output, 'manifest.json'), 'utf8');
  const again = await nightly.run(await nights.contextAt(at(2)), { day });
  expect(again.night).toMatchObject({ nights: 0, ticks: { new: { count: 0, median: null } } });
  const ticksFiles = (text: string) => JSON.parse(text).datasets.ticks;
  expect(ticksFiles(readFileSync(join(nights.output, 'manifest.json'), 'utf8'))).toEqual(ticksFiles(manifest));
  expect((await nights.night(at(3))).night!.nights).toBe(3);
});

test('markets are new, gone and resolved against the lists of the night before, whoever polled in between', async () => {
  const nights = await startNights({ ...input, markets: 30, lifeDaysMax: 5 }, fewFiles);
  const first = await nights.night(at(0));
  expect(first.night!.markets.new.count).toBeGreaterThan(0);
  expect(first.night!.markets).toMatchObject({ gone: { count: 0 }, resolved: { count: 0 } });
  const before = listed(nights.output);
  await ticksJob.run(await nights.contextAt(at(1) - hourMs), { symbols: [] });
  let changed = 0;
  for (let n = 1; n < 5; n++) {
    const { markets } = (await nights.night(at(n))).night!;
    for (const name of markets.new.names) expect(before.has(name)).toBe(false);
    for (const name of [...markets.gone.names, ...markets.resolved.names]) expect(before.has(name)).toBe(true);
    for (const name of listed(nights.output)) before.add(name);
    changed += markets.new.count + markets.gone.count + markets.resolved.count;
  }
  expect(changed).toBeGreaterThan(0);
});

test.for(['whole', 'not whole', 'of an older oddslake'])(
  'a market is new in one night, the lists of which were %s',
  async (lists) => {
    const nights = await startNights({ ...input, lifeDaysMax: 5 }, fewFiles);
    await nights.night(at(0));
    const views = lists === 'not whole' ? ['source.views=["matched","odd"]'] : [];
    const context = await nights.contextAt(at(1), ...views);
    // Lists are of a moment after that up to which a night polls.
    nights.box().set({ nowMs: at(1) + 5000 });
    const { markets } = (await nightly.run(context, { day: null })).night!;
    expect(markets.new.count).toBeGreaterThan(0);
    if (lists === 'of an older oddslake') {
      inState(nights.output, makeOlder);
      inState(nights.output, (db) => db.run('update runs set finished_at = started_at + 9000'));
    }
    const { names } = (await nights.night(at(2))).night!.markets.new;
    expect(names.length).toBeGreaterThan(0);
    expect(names.filter((name) => markets.new.names.includes(name))).toEqual([]);
  },
);

test('what could not be fetched is minutes of gap, and its symbols are not covered', async () => {
  const nights = await startNights(input, fewFiles);
  await nights.night(at(0));
  nights.box().set({ faultShare: 0.7, faults: ['500'] } as never);
  const summary = await nights.night(at(1), 'upstream.retry_attempts_max=1');
  nights.box().set({ faultShare: 0 } as never);
  expect(summary.exit_code).toBe(4);
  const { covered } = summary.night!;
  expect(covered.gap_minutes).toBeGreaterThanOrEqual(24 * 60);
  // What failed after the end of a life is no gap of it.
  expect(covered.symbols).toBeGreaterThanOrEqual(summary.symbols.done);
  expect(covered.symbols).toBeLessThan(summary.symbols.planned);
  expect(summary.next_action).toMatch(/: oddslake backfill --from .* --output /);
});

test('what was covered before and is only asked for again is no gap where that fails', async () => {
  const nights = await startNights(input, [...fewFiles, 'poll.overlap_minutes=240']);
  await nights.night(at(0));
  await ticksJob.run(await nights.contextAt(at(0) + 20 * hourMs), { symbols: [] });
  const [symbol] = inState(nights.output, (db) =>
    allSymbols(db).flatMap(({ symbol: name, closesAt }) => ((closesAt ?? 0) > at(2) ? [name] : [])),
  );
  nights.box().set({ faultSymbols: { [symbol!]: 404 } } as never);
  const { failures, night } = await nights.night(at(1));
  expect(failures).toHaveLength(1);
  expect(night!.covered.gap_minutes).toBe(4 * 60);
});

test('symbols are asked for too late where the night comes after the service has thinned their days', async () => {
  const nights = await startNights(input, fewFiles);
  await nights.night(at(0));
  const inTime = await nights.night(at(5));
  expect(inTime.night!.too_late).toEqual({ count: 0, names: [] });
  const late = await nights.night(at(15));
  expect(late.night!.too_late.count).toBeGreaterThan(0);
  const never = await startNights(input, [...fewFiles, 'source.thins_after_days=null']);
  await never.night(at(0));
  expect((await never.night(at(15))).night!.too_late.count).toBe(0);
});

test('a state of an older oddslake has no medians of what it did not count, until it knows', async () => {
  const nights = await startNights(input, fewFiles);
  for (let n = 0; n < 3; n++) await nights.night(at(n));
  inState(nights.output, makeOlder);
  const summary = await nights.night(at(3));
  expect(summary.night).toMatchObject({ nights: 3, ticks: { late: { median: null }, conflicts: { median: null } } });
  expect(ticksOf(summary).new.median).not.toBeNull();
  expect(summary.night!.markets.new.count).toBeLessThan(10);
  expect(ticksOf(await nights.night(at(4))).late.median).not.toBeNull();
});

test('the rate is told of a run that asked the upstream', async () => {
  const nights = await startNights(input, fewFiles);
  const { rate, requests } = await nights.night(at(0), 'upstream.requests_per_second=50');
  expect(rate!.allowed_per_second).toBe(50);
  expect(rate!.used).toBeGreaterThan(0.5);
  expect(rate!.used).toBeLessThanOrEqual(1);
  expect(requests).toBeGreaterThan(5);
});

/** Symbol and time of every published tick. */
function rowsOf(output: string): Set<string> {
  const rows = new Set<string>();
  for (const path of globSync('ticks/date=*/*.parquet', { cwd: output })) {
    const { symbols, offsets, t } = decodeTicks(readFileSync(join(output, path)));
    for (const [i, symbol] of symbols.entries())
      for (const time of t.subarray(offsets[i]!, offsets[i + 1]!)) rows.add(`${symbol} ${time}`);
  }
  return rows;
}

/** As schema 4 had it. */
function makeOlder(db: Database): void {
  for (const [table, column] of [
    ['nights', 'late'],
    ['nights', 'conflicts'],
    ['nights', 'listed_at'],
    ['runs', 'late'],
    ['symbols', 'resolution_seen'],
  ] as const)
    db.script(`alter table ${table} drop column ${column}`);
  db.run("update meta set value = '4' where key = 'schema_version'");
}

function inState<T>(output: string, look: (db: Database) => T): T {
  const db = openDatabase(join(output, '.oddslake', 'state.sqlite'), 1000);
  try {
    return look(db);
  } finally {
    db.close();
  }
}

/** Symbols that the lists have named. */
const listed = (output: string): Set<string> =>
  new Set(inState(output, (db) => allSymbols(db).flatMap((facts) => (facts.listed ? [facts.symbol] : []))));
