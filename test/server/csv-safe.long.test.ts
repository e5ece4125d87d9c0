import { expect, test } from 'vitest';
import { appendBooks } from '../../src/archive/journal/journal-books.ts';
import { appendSeries } from '../../src/archive/journal/journal-series.ts';
import { appendQuotes, quote } from '../archive/quote-records.ts';
import { answer, append, day0, hourMs, market, publishNow } from '../archive/scratch.ts';
import { trade, tradeAnswer } from '../archive/trades.ts';
import { poll, snapshots } from './historical-archive.ts';
import { madeOnce } from './made-once.ts';
import { serving } from './serving.ts';

/** Symbols that a spreadsheet takes for formulas, and one that it does not. */
const symbols = ['=HYPERLINK("http://a.example","b")', '-1+2', '@SUM(A1)', '+1', 'A'];

const formulas = madeOnce(async (archive) => {
  poll(
    archive,
    day0 + hourMs,
    symbols.map((symbol) => market(symbol, { question: `=1+1 of ${symbol}`, category: '@cat', source: '-source' })),
  );
  append(archive, ...symbols.map((symbol) => answer(symbol, [[day0 + hourMs, -0.25]])));
  appendBooks(
    archive.state,
    symbols.map((symbol) => ({
      runId: 'run',
      symbol,
      observedAt: day0 + hourMs,
      snapshots: snapshots(0, 1),
      rejected: [],
      understood: true,
    })),
  );
  appendQuotes(
    archive,
    symbols.map((symbol) => quote(symbol, day0 + hourMs, -0.25, null)),
  );
  appendSeries(
    archive.state,
    symbols.map((symbol) => tradeAnswer(symbol, [trade(day0 + hourMs, '=1+1', -0.25)])),
  );
  await publishNow(archive);
});

const base = '/api/v1/historical';
const routes = [
  'markets?',
  'ticks?',
  'candles?interval=1h&',
  'candles?interval=5m&',
  'coverage?',
  'orderbooks?',
  'quotes?',
  'trades?',
];

/** The fields of CSV (RFC 4180). */
const fieldsOf = (csv: string): string[] =>
  [...csv.matchAll(/(?:"((?:[^"]|"")*)"|([^,\n]*))(?:,|\n)/g)].map(([, quoted, bare]) =>
    quoted === undefined ? bare! : quoted.replaceAll('""', '"'),
  );
const isFormula = (field: string): boolean => /^[=+\-@\t\r\n]/.test(field) && !/^-\d+(\.\d+)?$/.test(field);

test('CSV of every historical route has no formula with csv_safe, and differs by apostrophes only', async () => {
  const { ask } = await serving(await formulas());
  const text = async (query: string) => {
    const response = await ask(`${base}/${query}`);
    expect(response.status, query).toBe(200);
    return await response.text();
  };
  for (const route of routes) {
    const plain = fieldsOf(await text(`${route}format=csv`));
    expect(plain.filter(isFormula).length, route).toBeGreaterThanOrEqual(4);
    expect(fieldsOf(await text(`${route}format=csv&csv_safe=false`)), route).toEqual(plain);
    const safe = fieldsOf(await text(`${route}format=csv&csv_safe=true`));
    expect(safe, route).toEqual(plain.map((field) => (isFormula(field) ? `'${field}` : field)));
  }
  const time = new Date(day0 + hourMs).toISOString();
  expect(await text('ticks?format=csv&csv_safe=true')).toContain(
    `"'=HYPERLINK(""http://a.example"",""b"")",${time},-0.25\n`,
  );
});

test('csv_safe with another format gives 400; Accept selects CSV, too', async () => {
  const { ask, json } = await serving(await formulas());
  for (const route of routes) {
    for (const format of ['json', 'ndjson', 'arrow', 'parquet']) {
      const { status, body } = await json(`${base}/${route}format=${format}&csv_safe=true`);
      expect([status, body.code, body.errors], `${route} ${format}`).toEqual([
        400,
        'invalid_parameter',
        [{ name: 'csv_safe', reason: 'requires format csv' }],
      ]);
    }
    expect((await json(`${base}/${route}csv_safe=true`)).status).toBe(400);
    expect((await json(`${base}/${route}csv_safe=1&format=csv`)).status).toBe(400);
    expect((await json(`${base}/${route}csv_safe=false`)).status).toBe(200);
  }
  const response = await ask(`${base}/ticks?csv_safe=true`, { headers: { accept: 'text/csv' } });
  expect([response.status, (await response.text()).split('\n')[1]]).toEqual([200, expect.stringMatching(/^'\+1,/)]);
});
