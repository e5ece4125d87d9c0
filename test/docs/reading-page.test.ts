import { expect, test } from 'vitest';
import { appendSeries } from '../../src/archive/journal/journal-series.ts';
import { openArchiveQuery } from '../../src/archive/query/pinned-query.ts';
import { appendQuotes, quote } from '../archive/quote-records.ts';
import { answer, append, opened, publishNow } from '../archive/scratch.ts';
import { trade, tradeAnswer } from '../archive/trades.ts';
import { inFolder } from '../archive/views-folder.ts';
import { findBlocks, readPage } from './blocks.ts';

/** The day that the examples name. */
const day = Date.UTC(2026, 10, 19);

/** The statements of the blocks of SQL. */
const statements = findBlocks(readPage('docs/READING.md'), 'sql').flatMap((code) =>
  code
    .replace(/--.*$/gm, '')
    .split(';')
    .map((sql) => sql.trim())
    .filter((sql) => sql !== ''),
);

test('every statement of docs/READING.md runs with views.sql and with oddslake sql', async () => {
  const archive = opened();
  append(archive, answer('KXBTC', [[day, 0.5]]));
  appendQuotes(archive, [quote('KXBTC', day + 1, 0.25, 0.5, 100)]);
  appendSeries(archive.state, [tradeAnswer('KXBTC', [trade(day + 2, '1')])]);
  await publishNow(archive, day + 86_400_000);
  expect(statements.length).toBeGreaterThan(10);
  const ofFolder = inFolder(archive.layout.root, statements);
  for (const [i, sql] of statements.entries()) {
    const { query, close } = await openArchiveQuery(archive, sql, () => 0.5);
    const own = await query.readRows(sql);
    await close();
    expect(ofFolder[i]![0] ?? {}, sql).not.toHaveProperty('error');
    expect(own.length, sql).toBe(ofFolder[i]!.length);
    if (/quotes|spreads|trades|order_flow/.test(sql)) expect(own, sql).toHaveLength(1);
  }
});

test('the as-of join of quotes with the ticks of two days opens only the files of these days', async () => {
  const archive = opened({ parts: 1 });
  const days = [-2, -1, 0, 1].map((number) => day + number * 86_400_000);
  append(
    archive,
    answer(
      'KXBTC',
      days.map((t) => [t, 0.5]),
    ),
  );
  appendQuotes(
    archive,
    days.map((t) => quote('KXBTC', t, 0.25, 0.5)),
  );
  await publishNow(archive, day + 3 * 86_400_000);
  const sql = statements.find((statement) => statement.includes('FROM ticks WHERE date BETWEEN'))!;
  const [plan] = inFolder(archive.layout.root, [`EXPLAIN ${sql}`])[0]!;
  const scans = String(plan!.explain_value).match(/Scanning Files: \d\/\d/g);
  expect(scans?.sort()).toEqual(['Scanning Files: 1/4', 'Scanning Files: 2/4']);
});
