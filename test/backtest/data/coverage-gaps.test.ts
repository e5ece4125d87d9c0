import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { precedenceRanks } from '../../../src/archive/format/precedence.ts';
import { openBacktestData } from '../../../src/backtest/data/backtest-data.ts';
import { clipLifetimes, computeCoverageTotals } from '../../../src/backtest/data/coverage-gaps.ts';
import { DamageError } from '../../../src/base/errors.ts';
import { subtract, type Window } from '../../../src/base/window.ts';
import { answer, append, opened, publishedRows, publishNow, scratchFolder } from '../../archive/scratch.ts';
import { day0, dayMs, hourMs } from './test-archive.ts';

const totalMs = (windows: readonly Window[]): number => windows.reduce((sum, { from, to }) => sum + to - from, 0);
const never = new AbortController().signal;
const symbols = Array.from({ length: 7 }, (_, i) => `S${i}`);

/** Polls of some hours with gaps, and imports that overlap their ends and midnights. */
async function covered() {
  const archive = opened();
  for (const [i, symbol] of symbols.entries()) {
    const windows = [1, 4, 11, 26, 47].map((hour) => ({
      from: day0 + (hour + i) * hourMs,
      to: day0 + (hour + 2 + i) * hourMs,
    }));
    append(archive, answer(symbol, [[day0 + (i + 1) * hourMs, 0.5]], { windows }));
    const over = windows.map(({ from, to }) => ({ from: from + hourMs, to: to + (i % 3) * hourMs }));
    append(archive, answer(symbol, [], { windows: over.slice(i % 2), origin: 'import', rank: precedenceRanks.import }));
  }
  await publishNow(archive);
  return archive;
}

test('computes uncovered time for overlapping windows and any number of symbols', async () => {
  const archive = await covered();
  const data = await openBacktestData(
    archive,
    { from: null, to: null, hasStates: false, symbols: [] },
    Math.random,
    never,
  );
  onTestFinished(() => data.close());
  const rows = publishedRows(archive.layout.root, 'coverage');
  const windowsOf = (symbol: string) =>
    rows.filter((row) => row[1] === symbol).map((row) => ({ from: row[2] as number, to: row[3] as number }));
  expect(windowsOf('S1').length).toBeGreaterThan(6);
  const many = Array.from({ length: 1500 }, (_, i) => `nobody ${i}`);
  for (const span of [
    { from: day0, to: day0 + 3 * dayMs },
    { from: day0 + 5 * hourMs + 1, to: day0 + 27 * hourMs + 7 },
    { from: day0 - 9 * dayMs, to: day0 - 8 * dayMs },
  ]) {
    for (const names of [symbols, [...many, ...symbols]]) {
      const members = names.map((symbol, i) => ({
        symbol,
        lifetimeFrom: day0 + i * 1000,
        lifetimeTo: day0 + 2 * dayMs - i,
      }));
      const lifetimes = clipLifetimes(members, span);
      const gaps = lifetimes.map((lifetime) => subtract([lifetime], windowsOf(lifetime.symbol)));
      const expected = { lifetimeMs: totalMs(lifetimes), uncoveredMs: totalMs(gaps.flat()) };
      expect(await computeCoverageTotals(data.findCoverage(span), lifetimes, never)).toEqual(expected);
    }
  }
});

test('names a file of coverage that cannot be decoded', async () => {
  const path = join(scratchFolder(), 'bad.parquet');
  writeFileSync(path, 'PAR1 and then nothing that one could read PAR1');
  const lifetimes = [{ symbol: 'S1', from: day0, to: day0 + dayMs }];
  const error = await computeCoverageTotals([path], lifetimes, never).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(DamageError);
  expect((error as Error).message).toContain(`${path} cannot be decoded`);
});
