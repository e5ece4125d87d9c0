import { afterAll, beforeAll, expect, test } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import { datasets } from '../../../src/archive/format/datasets.ts';
import { publishedRows } from '../../archive/scratch.ts';
import { ticksOf } from '../../e2e/lake.ts';
import { marketsMisbehaviours } from './misbehaviour-markets.ts';
import { fewFiles } from './nights.ts';
import { archiveFolder, contextOf, quarantined } from './one-process.ts';
import { type ScriptedService, startScripted } from './scripted-service.ts';

const hourMs = 3_600_000;
const firstNight = Date.UTC(2025, 5, 3, 3, 17);
const symbols = ['A-1', 'A-2', 'A-3'];
const { output, remove } = archiveFolder();
let box: ScriptedService;

/** Consecutive hours. */
async function night() {
  box.nowMs += hourMs;
  const set = ['source.first_lookback_days=0.1', ...fewFiles];
  return nightly.run(await contextOf(output, box.url, () => box.nowMs, [...set, 'source.views=matched']), {
    day: null,
  });
}

const active = () =>
  publishedRows(output, 'symbols')
    .map((row) => (symbols.includes(String(row[0])) ? row[5] : undefined))
    .filter((x) => x !== undefined);

beforeAll(async () => {
  box = await startScripted(firstNight, symbols);
  expect(await night()).toMatchObject({ exit_code: 0, warnings: [] });
});
afterAll(async () => {
  await box.stop();
  remove();
});

test.each(marketsMisbehaviours)('a list of markets with $does', async (row) => {
  const asideBefore = quarantined(output).length;
  box.script = { markets: row.markets };
  const bad = await night();
  const summaryText = JSON.stringify(bad, null, 1);
  expect(bad, summaryText).toMatchObject({ exit_code: row.fails === undefined ? 0 : 4, error: null });
  expect(bad.symbols, summaryText).toMatchObject({ planned: 3, done: 3, failed: 0 });
  expect(bad.failures).toEqual(
    row.fails === undefined ? [] : [{ symbol: null, from: null, to: null, reason: expect.stringMatching(row.fails) }],
  );
  expect(bad.warnings).toEqual(row.warns === undefined ? [] : [expect.stringMatching(row.warns)]);
  const aside = quarantined(output).slice(asideBefore);
  expect([...new Set(aside.map(({ reason }) => reason))]).toEqual(row.setAside ?? []);
  expect(active()).toEqual(symbols.map(() => (row.isActive === undefined ? true : row.isActive)));
  if (row.extra !== undefined) {
    const newest = publishedRows(output, 'markets')
      .filter((m) => m[1] === 'A-1')
      .toSorted((a, b) => Number(a[12]) - Number(b[12]))
      .at(-1)!;
    const extra = datasets.markets.columns.findIndex(({ name }) => name === 'extra');
    expect(JSON.parse(String(newest[extra]))).toMatchObject(row.extra);
  }
  box.script = {};
  expect(await night()).toMatchObject({ exit_code: 0, warnings: [], failures: [], symbols: { planned: 3, done: 3 } });
  expect(active()).toEqual([true, true, true]);
  for (const symbol of symbols) {
    const ticks = ticksOf(output).get(symbol)!;
    expect(ticks).toEqual(box.truth(symbol, ticks[0]!.t, box.nowMs));
  }
});
