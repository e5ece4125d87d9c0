import { expect, test } from 'vitest';
import { job as backfill } from '../../../jobs/backfill.ts';
import { job as markets } from '../../../jobs/markets.ts';
import { job as nightly } from '../../../jobs/nightly.ts';
import { formatDay } from '../../../src/base/time.ts';
import { publishedRows } from '../../archive/scratch.ts';
import { manifestOf } from '../../e2e/lake.ts';
import { withState } from '../../harness/with-state.ts';
import { at, dayMs, fewFiles, hourMs, startNights } from './nights.ts';
import { scriptedLake } from './one-process.ts';
import type { MarketsBody } from './scripted-service.ts';

const input = { seed: 5, markets: 20, ticksPerDay: 60, lifetimeDaysMax: 60 };

const active = (output: string): number => publishedRows(output, 'symbols').filter((row) => row[5] === true).length;

const completeDays = (output: string): string[] => {
  const { days } = manifestOf(output);
  return Object.entries(days).flatMap(([date, { state }]) => (state === 'incomplete' ? [] : [date]));
};

type Listing = { day: number; view: string; markets: number; is_complete: number; reason: string | null };

const listings = (output: string) =>
  withState(output, (db) =>
    db
      .all<Listing>('select day, view, markets, is_complete, reason from listings order by day, view')
      .map((row) => ({ ...row, day: formatDay(row.day) })),
  );

test('a day is complete only if each list was complete within it', async () => {
  const nights = await startNights(input, fewFiles);
  for (const n of [0, 1]) await nights.night(at(n));
  const before = completeDays(nights.output);
  expect(before).toContain(formatDay(at(0)));
  nights.box().set({ marketsCap: 3 });
  expect(await nights.night(at(2))).toMatchObject({ exit_code: 4 });
  nights.box().set({ marketsCap: 1000 });
  await nights.night(at(3));
  await nights.night(at(4));
  expect(completeDays(nights.output)).toEqual([...before, ...[1, 3].map((n) => formatDay(at(n)))]);
  const cut = listings(nights.output).filter(({ day }) => day === formatDay(at(2)));
  expect(cut.map(({ view, is_complete }) => [view, is_complete])).toEqual([
    ['*', 0],
    ['matched', 0],
    ['resolving', 1],
  ]);
});

test('a later list of the same day replaces a truncated one', async () => {
  const nights = await startNights(input, fewFiles);
  await nights.night(at(0));
  nights.box().set({ marketsCap: 3 });
  await nights.night(at(1));
  nights.box().set({ marketsCap: 1000 });
  expect(await markets.run(await nights.contextAt(at(1) + hourMs), undefined)).toMatchObject({ exit_code: 0 });
  await nights.night(at(2));
  expect(completeDays(nights.output).slice(-2)).toEqual([0, 1].map((n) => formatDay(at(n))));
});

test('suddenly empty lists make no market inactive and no day complete', async () => {
  const { output, box, contextAt } = await scriptedLake(
    at(0),
    ['A-1', 'A-2', 'A-3'],
    [...fewFiles, 'source.views=matched'],
  );
  await nightly.run(await contextAt(at(0)), { day: null });
  // As during an outage, or with a restricted key.
  box.script = { markets: (honest) => ({ ...honest, markets: [], count: 0, total: 0 }) };
  const reason =
    'markets: the lists name 0, the median of the last 1 day is 3: no market is marked inactive because of it';
  const expected = { exit_code: 4, failures: [{ symbol: null, reason }] };
  expect(await nightly.run(await contextAt(at(1)), { day: null })).toMatchObject(expected);
  expect(active(output)).toBe(3);
  expect(await markets.run(await contextAt(at(2)), undefined)).toMatchObject({ exit_code: 4 });
  box.script = {};
  expect(await nightly.run(await contextAt(at(3)), { day: null })).toMatchObject({ exit_code: 0 });
  expect(await nightly.run(await contextAt(at(4)), { day: null })).toMatchObject({ exit_code: 0 });
  const complete = completeDays(output);
  expect([0, 1, 2, 3].map((n) => complete.includes(formatDay(at(n))))).toEqual([true, false, false, true]);
});

test('suddenly short lists make no market inactive until they stay short', async () => {
  const nights = await startNights(input, fewFiles);
  for (let n = 0; n < 4; n++) expect(await nights.night(at(n))).toMatchObject({ exit_code: 0 });
  const before = active(nights.output);
  await nights.replace({ ...input, markets: 3 });
  const shortAt = async (n: number) => {
    await nights.night(at(n));
    return listings(nights.output).filter(({ day, view }) => day === formatDay(at(n)) && view === '*')[0]!.reason;
  };
  expect(await shortAt(4)).toBe('short');
  // Up to three of them may have ended regularly.
  expect(active(nights.output)).toBeGreaterThanOrEqual(before - 3);
  let n = 5;
  while ((await shortAt(n)) !== null && n < 12) n++;
  expect(n).toBe(8);
});

test('a symbol listed late with an early opening makes days incomplete until a backfill', async () => {
  const { output, box, contextAt } = await scriptedLake(
    at(0),
    ['A-1', 'A-2'],
    [...fewFiles, 'source.views=matched', 'source.first_lookback_days=1'],
  );
  box.script = { markets: (honest) => only(honest, ['A-1']) };
  for (const n of [0, 1, 2]) await nightly.run(await contextAt(at(n)), { day: null });
  expect(completeDays(output).slice(-2)).toEqual([0, 1].map((n) => formatDay(at(n))));
  box.script = {
    markets: (honest) => ({
      ...honest,
      markets: honest.markets.map((market) => ({ ...market, ...(market.symbol === 'A-2' && { opens_at: at(0) }) })),
    }),
  };
  // Its owed windows cannot be fetched at first.
  box.script = { ...box.script, ticks: (honest, { symbol }) => (symbol === 'A-2' ? 'nothing' : honest) };
  await nightly.run(await contextAt(at(3)), { day: null });
  expect(completeDays(output)).not.toContain(formatDay(at(0)));
  box.script = { ...box.script, ticks: (honest) => honest };
  const window = { from: at(0) - dayMs, to: at(3) };
  const how = { symbols: [], force: false, allKnown: false, showPlan: null };
  await backfill.run(await contextAt(at(3) + hourMs), { window, ...how });
  expect(completeDays(output).slice(-3)).toEqual([0, 1, 2].map((n) => formatDay(at(n))));
});

const only = (honest: MarketsBody, symbols: readonly string[]): MarketsBody => {
  const markets = honest.markets.filter(({ symbol }) => symbols.includes(symbol));
  return { ...honest, markets, count: markets.length, total: markets.length };
};
