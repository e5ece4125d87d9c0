import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { job as orderbook } from '../../../jobs/orderbook.ts';
import { datasets } from '../../../src/archive/format/datasets.ts';
import { decodeRows } from '../../../src/archive/parquet/rows.ts';
import { coverageOf, findWrongWindows, manifestOf, ticksOf } from '../../e2e/lake.ts';
import { at, dayMs, fewFiles, firstNight, hourMs, type Nights, startNights } from './nights.ts';

// Responses with status 200 that carry an error, or nothing else than empty lists.

const size = { seed: 7, markets: 12, ticksPerDay: 60 };
const once = [...fewFiles, 'upstream.retry_attempts_max=1', 'source.first_lookback_days=3'];

/** A symbol that is polled, with ticks of the last hours. */
const findBusy = ({ box }: Nights): string =>
  box()
    .symbols()
    .find((symbol) => box().readTruth(symbol, { from: firstNight - 6 * hourMs, to: firstNight }).t.length > 9)!;

/** Ticks of known symbols in days that the manifest calls complete, that the service has and the archive does not. */
function countLost({ output, box }: Nights): number {
  const published = ticksOf(output);
  const known = globSync('symbols/**/*.parquet', { cwd: output })
    .flatMap((path) => decodeRows(datasets.symbols.columns, readFileSync(join(output, path))))
    .map(([symbol]) => symbol as string);
  const complete = Object.entries(manifestOf(output).days).filter(([, { state }]) => /^complete/.test(state));
  return complete
    .flatMap(([date]) => {
      const from = Date.parse(date);
      return known.map((symbol) => {
        const kept = new Set(published.get(symbol)?.map(({ t }) => t));
        return [...box().readTruth(symbol, { from, to: from + dayMs }).t].filter((t) => !kept.has(t)).length;
      });
    })
    .reduce((sum, count) => sum + count, 0);
}

test('a symbol whose responses always carry an error has failed windows, with the text of the error', async () => {
  const nights = await startNights(size, once);
  await nights.contextAt(firstNight);
  const failing = findBusy(nights);
  nights.box().set({ faultSymbols: { [failing]: 200 } });
  for (const n of [0, 1, 2]) {
    const summary = await nights.night(at(n));
    expect(summary, JSON.stringify(summary.findings)).toMatchObject({ exit_code: 4, symbols: { failed: 1 } });
    const reason = 'HTTP 200 with an error ("the backend timed out")';
    expect(summary.failures).toEqual([expect.objectContaining({ symbol: failing, reason })]);
    expect(summary.verdict.text).toContain('the backend timed out');
    expect(coverageOf(nights.output).filter(({ symbol }) => symbol === failing)).toEqual([]);
  }
  nights.box().set({ faultSymbols: {} });
  expect(await nights.night(at(3))).toMatchObject({ exit_code: 0, failures: [] });
  expect(ticksOf(nights.output).get(failing)).toBeDefined();
  expect(countLost(nights)).toBe(0);
});

test.each([{ fault: 'error-200' }, { fault: 'bare-200' }] as const)(
  'nothing is lost where 15 % of the responses are $fault',
  async ({ fault }) => {
    // One request at a time, so that the seed decides which ones fail.
    const nights = await startNights(size, [...once, 'upstream.concurrency=1']);
    expect(await nights.night(at(0))).toMatchObject({ exit_code: 0 });
    for (const n of [1, 2, 3, 4]) {
      nights.box().set({ faultShare: 0.15, faults: [fault] });
      expect((await nights.night(at(n))).exit_code).toBe(4);
      expect(findWrongWindows(nights.output, nights.box())).toEqual([]);
      expect(countLost(nights)).toBe(0);
    }
    nights.box().set({ faultShare: 0 });
    expect(await nights.night(at(5))).toMatchObject({ exit_code: 0, failures: [] });
    expect(findWrongWindows(nights.output, nights.box())).toEqual([]);
    expect(countLost(nights)).toBe(0);
  },
);

test('one such response in seven is only retried', async () => {
  const nights = await startNights(size, fewFiles);
  nights.box().set({ faultShare: 0.15, faults: ['error-200', 'bare-200'] });
  for (const n of [0, 1]) {
    const summary = await nights.night(at(n));
    expect(summary, JSON.stringify(summary.failures)).toMatchObject({ exit_code: 0, failures: [] });
    expect(summary.retries).toBeGreaterThan(0);
  }
  expect(findWrongWindows(nights.output, nights.box())).toEqual([]);
});

test('a service that only sends errors covers nothing, and the run says the text', async () => {
  const nights = await startNights(size, once);
  expect(await nights.night(at(0))).toMatchObject({ exit_code: 0 });
  const before = coverageOf(nights.output);
  nights.box().set({ faultShare: 1, faults: ['error-200'] });
  const summary = await nights.night(at(1));
  expect(summary.exit_code).toBe(4);
  expect(JSON.stringify(summary.failures)).toContain('the backend timed out');
  expect(coverageOf(nights.output)).toEqual(before);
  nights.box().set({ faultShare: 0 });
  expect(await nights.night(at(2))).toMatchObject({ exit_code: 0, failures: [] });
  expect(countLost(nights)).toBe(0);
});

test('an order book with an error is a failure, not an empty book', async () => {
  const nights = await startNights(size, once);
  const poll = async (n: number) => orderbook.run(await nights.contextAt(at(n)), { symbols: [] });
  expect(await poll(0)).toMatchObject({ exit_code: 0 });
  const failing = findBusy(nights);
  nights.box().set({ faultSymbols: { [failing]: 200 } });
  const summary = await poll(1);
  expect(summary).toMatchObject({ exit_code: 4 });
  expect(summary.failures).toEqual([
    expect.objectContaining({ symbol: failing, reason: expect.stringContaining('"the backend timed out"') }),
  ]);
});
