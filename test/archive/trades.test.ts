import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { precedenceRanks } from '../../src/archive/format/precedence.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { readJournalLoad } from '../../src/archive/journal/journal-books.ts';
import { readRowGroups } from '../../src/archive/journal/published-files.ts';
import { repairNow } from './damaged.ts';
import { appendQuotes as appendSeriesRecords } from './quotes.ts';
import { day0, dayMs, hashes, hourMs, now, opened, publishedRows, publishNow, scratchFolder } from './scratch.ts';
import {
  countTrades,
  decodedTrades,
  publishedTrades,
  type Trade,
  trade,
  tradeAnswer,
  tradeConflicts,
  tradeCoverage,
} from './trades.ts';

const tradeFiles = '{trades,trade_conflicts,coverage}/**/*.parquet';
const listIds = (root: string): unknown[] => publishedTrades(root).map((row) => row[2]);

describe('publishing trades', () => {
  test('writes each to the file of its day and symbol, and counts those of one millisecond', async () => {
    const root = scratchFolder();
    const archive = opened({ root, parts: 1 });
    const windows = [{ from: day0, to: day0 + hourMs }];
    appendSeriesRecords(
      archive,
      tradeAnswer('B', [trade(day0, '1', 0.25, 3, { aggressor: 'sell', block: false })]),
      tradeAnswer(
        'A',
        [
          trade(day0 + 5, '10', 0.5, 2, { block: true, hash: '0xab' }),
          trade(day0 + 5, '9', 0.5, 2, { aggressor: 'buy' }),
          trade(day0 + dayMs, 'next', 0.1, 1, { priceText: '0.1000000000000000001', sizeText: '1.00000000000000001' }),
          trade(day0 + 5, 'ä', 0.5, 2),
          trade(day0 + 4, '11'),
        ],
        { windows },
      ),
    );
    const { manifest } = await publishNow(archive);
    expect(publishedTrades(root)).toEqual([
      ['A', day0 + 4, '11', 0.5, 1, null, null, null, 0, null, null],
      // Shorter identifiers first, in bytes.
      ['A', day0 + 5, '9', 0.5, 2, 'buy', null, null, 0, null, null],
      ['A', day0 + 5, '10', 0.5, 2, null, true, '0xab', 1, null, null],
      ['A', day0 + 5, 'ä', 0.5, 2, null, null, null, 2, null, null],
      ['B', day0, '1', 0.25, 3, 'sell', false, null, 0, null, null],
      ['A', day0 + dayMs, 'next', 0.1, 1, null, null, null, 0, '0.1000000000000000001', '1.00000000000000001'],
    ]);
    expect(decodedTrades(root)).toEqual(publishedTrades(root).map((row) => row.slice(0, 3)));
    expect(manifest.datasets.trades.files.map(({ path, rows, symbols }) => [path, rows, symbols])).toEqual([
      [toDayPath('trades', day0, 0), 5, 2],
      [toDayPath('trades', day0 + dayMs, 0), 1, 1],
    ]);
    expect(tradeCoverage(root).map((row) => row.slice(1, 5))).toEqual([['A', day0, day0 + hourMs, 4]]);
    expect(countTrades(archive)).toMatchObject({ fetched: 6, accepted: 6, duplicates: 0, conflicts: 0 });
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
    expect(readJournalLoad(archive.state.db)).toBe(0);
  });

  test('keeps equal trades with different identifiers, and a trade that is seen again once', async () => {
    const root = scratchFolder();
    const archive = opened({ root, parts: 1 });
    appendSeriesRecords(archive, tradeAnswer('A', [trade(day0, 'a'), trade(day0, 'b'), trade(day0, 'a')]));
    await publishNow(archive);
    const before = hashes(root, tradeFiles);
    appendSeriesRecords(archive, tradeAnswer('A', [trade(day0, 'b'), trade(day0, 'a')], { observedAt: now + 1 }));
    const { files } = await publishNow(archive);
    expect(files).toEqual([]);
    expect(hashes(root, tradeFiles)).toEqual(before);
    expect(listIds(root)).toEqual(['a', 'b']);
    expect(countTrades(archive)).toMatchObject({ fetched: 5, accepted: 2, duplicates: 3, conflicts: 0 });
  });

  test.each<[string, Partial<Trade>]>([
    ['price', { price: 0.6 }],
    ['size', { size: 2 }],
    ['aggressor', { aggressor: 'buy' }],
    ['block', { block: false }],
    ['hash', { hash: '0x1' }],
    ['time', { t: day0 + 1 }],
    ['text of the price', { priceText: '0.50000000000000001' }],
  ])('keeps of two contents of one identifier the one observed later: another %s', async (_, rest) => {
    const root = scratchFolder();
    const archive = opened({ root, parts: 1 });
    const first = trade(day0, 'a');
    const second = { ...first, ...rest };
    appendSeriesRecords(archive, tradeAnswer('A', [first], { observedAt: now - 5 }));
    await publishNow(archive);
    appendSeriesRecords(archive, tradeAnswer('A', [second], { observedAt: now - 3 }));
    await publishNow(archive);
    const [kept, ...others] = publishedTrades(root);
    expect(others).toEqual([]);
    const toRow = (one: Trade, seq: number): unknown[] => [
      'A',
      one.t,
      one.id,
      one.price,
      one.size,
      one.aggressor,
      one.block,
      one.hash,
      seq,
      one.priceText,
      one.sizeText,
    ];
    expect(kept).toEqual(toRow(second, 0));
    expect(tradeConflicts(root)).toEqual([['A', day0, now - 3, 0, ...toRow(first, 0).slice(2).toSpliced(6, 1)]]);
    expect(countTrades(archive)).toMatchObject({ fetched: 2, accepted: 1, conflicts: 1 });
    // The older one again changes nothing, and a preferred one wins.
    appendSeriesRecords(archive, tradeAnswer('A', [first], { observedAt: now - 4 }));
    await publishNow(archive);
    expect(publishedTrades(root)).toEqual([kept]);
    appendSeriesRecords(archive, tradeAnswer('A', [first], { observedAt: now - 9, rank: precedenceRanks.preferred }));
    await publishNow(archive);
    expect(publishedTrades(root)).toEqual([toRow(first, 0)]);
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
  });
});

const symbols = ['AAA', 'BBB', '🚀 x'];
test('a repair keeps the intact row groups, and withdraws the coverage of the lost trades', async () => {
  const root = scratchFolder();
  const archive = opened({ root, parts: 1, groupRows: 8 });
  const list = (symbol: string): Trade[] =>
    // Four trades in each millisecond: row groups end within one.
    Array.from({ length: 21 }, (_, i) => trade(day0 + Math.floor(i / 4) * 1000, `${symbol}${i}`, i / 21));
  for (const symbol of symbols) {
    const windows = [
      { from: day0, to: day0 + 2500 },
      { from: day0 + 3000, to: day0 + hourMs },
    ];
    appendSeriesRecords(archive, tradeAnswer(symbol, list(symbol), { windows }));
  }
  await publishNow(archive);
  const whole = publishedTrades(root);
  const path = join(root, toDayPath('trades', day0, 0));
  const bytes = readFileSync(path);
  const { sha256 } = archive.readManifest().datasets.trades.files[0]!;
  const { groups } = readRowGroups(archive.state.db, toDayPath('trades', day0, 0), sha256)!;
  for (const group of [groups[0]!, groups[3]!, groups.at(-1)!]) {
    const at = (group.start + group.end) >> 1;
    writeFileSync(path, bytes.with(at, bytes[at]! ^ 16));
    expect((await verifyArchive(archive, null)).findings.length).toBeGreaterThan(0);
    await repairNow(archive);
    const rows = publishedTrades(root);
    expect(rows.length).toBeLessThan(whole.length);
    expect(rows.length).toBeGreaterThan(0);
    const intact = new Set(rows.map((row) => row[2]));
    for (const row of rows) expect(whole.map((one) => one[2])).toContain(row[2]);
    const lost = whole.filter((row) => !intact.has(row[2]));
    for (const [, symbol, from, to, count] of tradeCoverage(root)) {
      expect(lost.filter(([of, t]) => of === symbol && from! <= t! && t! < to!)).toEqual([]);
      expect(count).toBe(rows.filter(([of, t]) => of === symbol && from! <= t! && t! < to!).length);
    }
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
    // The same trades bring the file back.
    for (const symbol of symbols) appendSeriesRecords(archive, tradeAnswer(symbol, list(symbol)));
    await publishNow(archive);
    expect(publishedRows(root, 'trades')).toEqual(whole);
    expect(readFileSync(path).equals(bytes)).toBe(true);
  }
});
