import { describe, expect, test } from 'vitest';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { precedenceRanks } from '../../src/archive/format/precedence.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { readJournalLoad } from '../../src/archive/journal/journal-books.ts';
import { appendQuotes as appendSeriesRecords } from './quotes.ts';
import { day0, dayMs, hashes, hourMs, now, opened, publishNow, scratchFolder } from './scratch.ts';
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
    expect(publishedTrades(root).map((row) => row.slice(0, 11))).toEqual([
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
      null,
      null,
    ];
    expect(kept).toEqual(toRow(second, 0));
    expect(tradeConflicts(root)).toEqual([['A', day0, now - 3, 0, ...toRow(first, 0).slice(2, -2).toSpliced(6, 1)]]);
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
