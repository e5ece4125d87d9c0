import { expect, test } from 'vitest';
import { symbolDetailColumns } from '../../src/archive/format/market-details.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { openArchiveQuery } from '../../src/archive/query/pinned-query.ts';
import { fullDetails } from '../archive/format/facts.ts';
import { turnedBack } from '../archive/older.ts';
import { answer, append, day0, dayMs, hourMs, market, opened, publishNow } from '../archive/scratch.ts';
import { serving } from './serving.ts';

/** An archive of format 1, whose coverage has no column `evidence` and no column `grain_ms`. */
async function older(format = 1) {
  const first = opened();
  for (const observedAt of [day0, day0 + dayMs]) {
    const markets = [market('AAA', { outcome: 1, ...fullDetails }), market('BBB')];
    appendMarkets(first.state, { runId: 'run', observedAt, markets }, []);
  }
  for (const symbol of ['AAA', 'BBB'])
    append(first, answer(symbol, [[day0 + hourMs, 0.5]], { windows: [{ from: day0, to: day0 + dayMs }] }));
  await publishNow(first);
  const { root } = first.layout;
  first.close();
  turnedBack(root, format);
  return opened({ root, create: false });
}

interface Page {
  readonly coverage: readonly Readonly<Record<string, unknown>>[];
}

test('coverage of an archive of format 1 is inferred, in pages, files and SQL', async () => {
  const archive = await older();
  expect(archive.readManifest().format_version).toBe(1);
  const { json, ask } = await serving(archive);
  const row = { dataset: 'ticks', t_from: day0, t_to: day0 + dayMs, ticks: 1, evidence: 'inferred', grain_ms: null };
  for (const [query, symbols] of [
    ['', ['AAA', 'BBB']],
    ['?symbol=BBB', ['BBB']],
    ['?symbol=AAA&symbol=BBB', ['AAA', 'BBB']],
  ] as const) {
    const { status, body } = await json<Page>(`/api/v1/historical/coverage${query}`);
    expect(status, query).toBe(200);
    expect(body.coverage, query).toMatchObject(symbols.map((symbol) => ({ ...row, symbol })));
  }
  const csv = await (await ask('/api/v1/historical/coverage?format=csv')).text();
  expect(csv.match(/,inferred,\n/g)).toHaveLength(2);
  const { query, close } = await openArchiveQuery(archive, 'FROM coverage', Math.random);
  try {
    expect(await query.readRows('SELECT DISTINCT evidence, grain_ms FROM coverage')).toEqual([
      { evidence: 'inferred', grain_ms: null },
    ]);
  } finally {
    await close();
  }
});

test.each([1, 3])('markets of an archive of format %i have no details, in pages, files and SQL', async (format) => {
  const archive = await older(format);
  const { json, ask } = await serving(archive);
  const nothing = Object.fromEntries(symbolDetailColumns.map(([, column]) => [column, null]));
  // Pages of a search are read by DuckDB, others from memory.
  for (const query of ['', '?q=AAA']) {
    const { status, body } = await json<{ markets: unknown[] }>(`/api/v1/historical/markets${query}`);
    expect(status, query).toBe(200);
    expect(body.markets[0], query).toMatchObject({ symbol: 'AAA', outcome: 1, ...nothing });
  }
  const csv = await (await ask('/api/v1/historical/markets?format=csv')).text();
  expect(csv.split('\n')[0]).toContain('extra,outcome_source,event,');
  const { query, close } = await openArchiveQuery(archive, 'FROM markets', Math.random);
  try {
    expect(await query.readRows("SELECT DISTINCT event, exclusive, rules FROM markets WHERE symbol = 'AAA'")).toEqual([
      { event: null, exclusive: null, rules: null },
    ]);
  } finally {
    await close();
  }
});

test('an archive of format 1 has no quotes and trades, and none in a view', async () => {
  const archive = await older();
  const { json } = await serving(archive);
  for (const dataset of ['quotes', 'trades'])
    for (const query of ['', '?symbol=AAA'])
      expect((await json(`/api/v1/historical/${dataset}${query}`)).body).toMatchObject({
        [dataset]: [],
        next_cursor: null,
      });
  const ofQuotes = ['quotes', 'spreads', 'quotes_with_ticks', 'quote_conflicts'];
  const ofTrades = ['trades', 'trades_with_quotes', 'order_flow', 'trade_conflicts'];
  for (const view of [...ofQuotes, ...ofTrades]) {
    const { query, close } = await openArchiveQuery(archive, `FROM ${view}`, Math.random);
    expect(await query.readRows(`FROM ${view}`), view).toEqual([]);
    await close();
  }
});
