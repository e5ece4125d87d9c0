import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { precedenceRanks } from '../../src/archive/format/precedence.ts';
import { readText } from '../../src/archive/format/text-columns.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { readJournalLoad } from '../../src/archive/journal/journal-books.ts';
import type { SeriesRecord } from '../../src/archive/journal/journal-series.ts';
import { readRowGroups } from '../../src/archive/journal/published-files.ts';
import { compareUtf8 } from '../../src/base/symbol-name.ts';
import { share } from '../harness/share.ts';
import { repairNow } from './damaged.ts';
import { appendQuotes as appendSeriesRecords } from './quotes.ts';
import {
  day0,
  dayMs,
  hashes,
  hourMs,
  now,
  opened,
  publishedRows,
  publishNow,
  rowHashes,
  scratchFolder,
} from './scratch.ts';
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

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`trades: SEED=${seed}`);

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
const anyRest = fc.record({
  aggressor: fc.constantFrom(null, 'buy', 'sell'),
  block: fc.constantFrom(null, true, false),
  hash: fc.constantFrom(null, '0xab', ''),
  priceText: fc.constantFrom(null, '0.5000000000000000001'),
});

/**
 * Trades around a midnight, several in one millisecond. An identifier has one content, but for one in four: those have a
 * millisecond for themselves, because the precedence is that of the millisecond.
 */
const anyTrades = fc
  .record({
    symbol: fc.constantFrom(...symbols),
    rows: fc.array(fc.tuple(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 3 }), anyRest), {
      minLength: 1,
      maxLength: 12,
    }),
    seen: fc.integer({ min: 0, max: 3 }),
    rank: fc.constantFrom(...Object.values(precedenceRanks)),
  })
  .map(({ symbol, rows, seen, rank }) => {
    const trades = rows.map(([number, drawn, rest]): Trade => {
      const day = number % 2 === 0 ? day0 : day0 + dayMs;
      if (number % 4 === 3) return trade(day + 1000 + 10 * number, `x${number}`, drawn / 4, 1 + drawn, rest);
      // Times that do not adjoin: which windows are joined depends on what is published together.
      return trade(day + 10 * (number % 3), `${number}`, (number % 5) / 5, 1 + number);
    });
    const windows = trades.map(({ t }) => ({ from: t, to: t + 1 }));
    return tradeAnswer(symbol, trades, { observedAt: now + seen, rank, windows });
  });

const anyBatches = fc.array(fc.tuple(anyTrades, fc.integer({ min: 0, max: 3 }), fc.nat()), {
  minLength: 1,
  maxLength: 8,
});

describe('publishing any trades', () => {
  test('gives the same bytes for any batching and order, each identifier once, and counts that add up', async () => {
    const published = async (batches: readonly (readonly SeriesRecord[])[]): Promise<object> => {
      const root = scratchFolder();
      const archive = opened({ root, parts: 2, groupRows: 5 });
      for (const batch of batches) {
        appendSeriesRecords(archive, ...batch);
        await publishNow(archive, now, 'run', { candles: [] });
      }
      const rows = publishedTrades(root);
      const { fetched, accepted, duplicates, conflicts } = countTrades(archive);
      expect(accepted).toBe(rows.length);
      expect(accepted + duplicates + conflicts).toBe(fetched);
      expect(new Set(rows.map((row) => JSON.stringify([row[0], row[2]]))).size).toBe(rows.length);
      for (const [i, row] of rows.entries()) {
        const before = rows[i - 1];
        const isRepeat = before?.[0] === row[0] && before?.[1] === row[1];
        expect(row[8]).toBe(isRepeat ? (before![8] as number) + 1 : 0);
      }
      for (const [, symbol, from, to, count] of tradeCoverage(root))
        expect(count).toBe(rows.filter(([of, t]) => of === symbol && from! <= t! && t! < to!).length);
      expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
      archive.close();
      return rowHashes(root, '{trades,coverage}/**/*.parquet');
    };
    await fc.assert(
      fc.asyncProperty(anyBatches, async (drawn) => {
        const atOnce = await published([drawn.map(([record]) => record)]);
        const shuffled = drawn.toSorted(([, , a], [, , b]) => a - b);
        const grouped = [...Map.groupBy(shuffled, ([, batch]) => batch).values()];
        expect(await published(grouped.map((group) => group.map(([record]) => record)))).toEqual(atOnce);
      }),
      { seed, numRuns: Math.ceil(share * 20) },
    );
  });

  test('gives the rows of a plain model', async () => {
    await fc.assert(
      fc.asyncProperty(anyBatches, async (drawn) => {
        const root = scratchFolder();
        const archive = opened({ root, parts: 3 });
        for (const batch of [0, 1, 2, 3]) {
          appendSeriesRecords(archive, ...drawn.filter(([, of]) => of === batch).map(([record]) => record));
          await publishNow(archive, now, 'run', { candles: [] });
        }
        const best = new Map<string, { order: unknown[]; row: unknown[] }>();
        for (const [{ symbol, rank, observedAt, rows }] of drawn) {
          rows.t.forEach((t, i) => {
            const [price, size, block] = rows.values.map((column) => column[i]!);
            const [id, aggressor, hash, priceText, sizeText] = rows.texts.map((column) => readText(column, i));
            const isBlock = Number.isNaN(block) ? null : block === 1;
            const order = [rank, observedAt, t, price, size, isBlock === null ? -1 : Number(isBlock)];
            const texts = [aggressor, hash, priceText, sizeText].map((text) => (text === null ? '' : `+${text}`));
            const all = [...order, ...texts];
            const key = `${symbol} ${id}`;
            const known = best.get(key);
            const at = all.findIndex((value, k) => value !== known?.order[k]);
            if (known !== undefined && (at < 0 || (all[at] as number) < (known.order[at] as number))) return;
            best.set(key, {
              order: all,
              row: [symbol, t, id, price, size, aggressor, isBlock, hash, priceText, sizeText],
            });
          });
        }
        const byKey = (a: readonly unknown[], b: readonly unknown[]): number =>
          compareUtf8(JSON.stringify(a), JSON.stringify(b));
        const expected = [...best.values()].map(({ row }) => row).sort(byKey);
        expect(
          publishedTrades(root)
            .map((row) => row.toSpliced(8, 1))
            .sort(byKey),
        ).toEqual(expected);
        archive.close();
      }),
      { seed, numRuns: Math.ceil(share * 20) },
    );
  });
});

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
