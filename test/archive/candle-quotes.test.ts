import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { findManifestFile } from '../../src/archive/format/manifest.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import type { TickRecord } from '../../src/archive/journal/journal.ts';
import { readJournalLoad } from '../../src/archive/journal/journal-books.ts';
import type { SeriesRecord } from '../../src/archive/journal/journal-series.ts';
import { openArchiveQuery } from '../../src/archive/query/pinned-query.ts';
import { checkAsyncProperty } from '../harness/properties.ts';
import { share } from '../harness/share.ts';
import { findWrongCandles } from './candle-files.ts';
import { flip, repairNow } from './damaged.ts';
import { appendQuotes, publishedQuotes, type Quote, quote, quoteAnswer } from './quotes.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hashes,
  hourMs,
  now,
  opened,
  type Pairs,
  publishedRows,
  publishNow,
  rowHashes,
  scratchFolder,
} from './scratch.ts';

// Candles are computed from ticks, coverage and quotes, whichever of them a publish changes.

const missing = Number.NaN;
const candlePaths = 'candles_1{h,d}/**/*.parquet';
const candles = (root: string) => rowHashes(root, candlePaths);

/** Two symbols of different parts, of four. */
const [one, other] = ['AAA', 'DDD'];
const partOf = (symbol: string): number => (symbol === one ? 0 : 1);

const ticks: Pairs = [
  [day0 + 5, 0.5],
  [day0 + 3 * hourMs, 0.6],
  [day0 + dayMs - 1, 0.7],
  [day0 + dayMs, 0.8],
];
const quotes: readonly Quote[] = [
  quote(day0 + 2 * hourMs, 0.1, 0.2),
  quote(day0 + 4 * hourMs - 1, 0.3, missing),
  quote(day0 + 4 * hourMs, 0.4, 0.5),
  quote(day0 + dayMs + hourMs, 0.9, 0.95),
];

/** The candles of a dataset as `[t, bid, ask, volume, trades, vwap]`. */
const sidesOf = (root: string, dataset: 'candles_1h' | 'candles_1d') =>
  publishedRows(root, dataset).map(([, t, ...rest]) => [t, ...rest.slice(6)]);

const nothing = [null, null, null];
const expectedHours = [
  [day0, null, null, ...nothing],
  [day0 + 3 * hourMs, 0.3, null, ...nothing],
  [day0 + 23 * hourMs, 0.4, 0.5, ...nothing],
  [day0 + dayMs, null, null, ...nothing],
];
const expectedDays = [
  [day0, 0.4, 0.5, ...nothing],
  [day0 + dayMs, 0.9, 0.95, ...nothing],
];

type Step = 'ticks' | 'quotes' | 'publish';

async function filled(root: string, steps: readonly Step[]): Promise<Archive> {
  const archive = opened({ root });
  // The other symbol has a part of its own.
  append(archive, answer(other, [], { windows: [{ from: day0, to: day0 + 1 }] }));
  for (const step of steps) {
    if (step === 'ticks') append(archive, answer(one, ticks));
    else if (step === 'quotes') appendQuotes(archive, quoteAnswer(one, quotes));
    else await publishNow(archive);
  }
  return archive;
}

describe('bid and ask of published candles', () => {
  test.each<[string, Step[]]>([
    ['ticks and then quotes', ['ticks', 'publish', 'quotes', 'publish']],
    ['quotes and then ticks', ['quotes', 'publish', 'ticks', 'publish']],
    ['both at once', ['quotes', 'ticks', 'publish']],
    ['both again', ['quotes', 'ticks', 'publish', 'ticks', 'quotes', 'publish']],
  ])('are those of the last quote of the day before the end of the interval, from %s', async (_, steps) => {
    const root = scratchFolder();
    const archive = await filled(root, steps);
    expect(sidesOf(root, 'candles_1h')).toEqual(expectedHours);
    expect(sidesOf(root, 'candles_1d')).toEqual(expectedDays);
    expect(findWrongCandles(archive)).toEqual([]);
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
    const atOnce = scratchFolder();
    await filled(atOnce, ['ticks', 'quotes', 'publish']);
    expect(candles(root)).toEqual(candles(atOnce));
  });

  test('change with the quotes of their part and day, and no other file does', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(archive, answer(one, ticks), answer(other, ticks));
    appendQuotes(archive, quoteAnswer(one, quotes), quoteAnswer(other, quotes));
    await publishNow(archive);
    const late = quoteAnswer(one, [quote(day0 + dayMs - hourMs, 0.01, 0.02)]);
    appendQuotes(archive, late);
    const { files } = await publishNow(archive);
    const changed = files.map(({ path }) => path).filter((path) => !path.startsWith('symbols/'));
    const part = partOf(one);
    expect(changed.sort()).toEqual(
      (['candles_1d', 'candles_1h', 'quotes'] as const).map((dataset) => toDayPath(dataset, day0, part)),
    );
    expect(findWrongCandles(archive)).toEqual([]);
    // Equal quotes change nothing.
    appendQuotes(archive, { ...late, observedAt: now + 5 });
    expect((await publishNow(archive)).files).toEqual([]);
    // Quotes of a day without ticks have no candles.
    appendQuotes(archive, quoteAnswer(one, [quote(day0 + 5 * dayMs, 0.5)]));
    const added = (await publishNow(archive)).files.map(({ path }) => path);
    expect(added.filter((path) => path.startsWith('candles'))).toEqual([]);
    expect(existsSync(join(root, toDayPath('candles_1h', day0 + 5 * dayMs, part)))).toBe(false);
  });

  test('are in candles that are computed later than both', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(archive, answer(one, ticks));
    appendQuotes(archive, quoteAnswer(one, quotes));
    await publishNow(archive, now, 'run', { candles: [] });
    expect(candles(root)).toEqual({});
    await publishNow(archive);
    expect(sidesOf(root, 'candles_1h')).toEqual(expectedHours);
    expect(findWrongCandles(archive)).toEqual([]);
  });

  test('are read of the quotes of the part alone, and of nothing without quotes', async () => {
    const reads: string[] = [];
    const disk = {
      ...systemDisk,
      read: (path: string) => {
        reads.push(path);
        return systemDisk.read(path);
      },
    };
    const root = scratchFolder();
    const archive = opened({ root, disk });
    append(archive, answer(one, ticks.slice(0, 2)), answer(other, [], { windows: [{ from: day0, to: day0 + 1 }] }));
    await publishNow(archive);
    appendQuotes(archive, quoteAnswer(other, quotes));
    await publishNow(archive);
    reads.length = 0;
    append(archive, answer(one, [[day0 + 9, 0.1]]));
    await publishNow(archive);
    expect(reads.filter((path) => path.includes('/quotes/'))).toEqual([]);
    append(archive, answer(other, [[day0 + 9, 0.1]]));
    await publishNow(archive);
    expect(reads.filter((path) => path.includes('/quotes/'))).toEqual([
      join(root, toDayPath('quotes', day0, partOf(other))),
    ]);
  });

  test('equal those that SQL finds', async () => {
    const root = scratchFolder();
    const archive = opened({ root, parts: 2 });
    const names = ['AAA', 'BBB', 'Ünï 🚀'];
    for (const [s, symbol] of names.entries()) {
      const times = Array.from({ length: 60 }, (_, i) => day0 + i * 47 * 60_000 + s);
      append(
        archive,
        answer(
          symbol,
          times.filter((_, i) => i % 3 !== s).map((t, i) => [t, (i % 9) / 10] as const),
        ),
      );
      const rows = times
        .filter((_, i) => i % 4 > s)
        .map((t, i) => quote(t + 60_000, i % 5 === 0 ? missing : i / 100, i / 50));
      appendQuotes(archive, quoteAnswer(symbol, rows));
    }
    await publishNow(archive);
    const statements = [
      ['candles_1h', 'INTERVAL 1 HOUR'],
      ['candles_1d', 'INTERVAL 1 DAY'],
    ].map(
      ([dataset, interval]) => `SELECT c.symbol, c.t, c.bid, c.ask, q.bid AS expected_bid, q.ask AS expected_ask
        FROM ${dataset} AS c ASOF LEFT JOIN quotes AS q ON q.symbol = c.symbol AND c.t + ${interval} > q.t
        WHERE c.bid IS DISTINCT FROM CASE WHEN q.date = c.date THEN q.bid END
           OR c.ask IS DISTINCT FROM CASE WHEN q.date = c.date THEN q.ask END`,
    );
    // The macro computes the same from ticks and quotes, also from the middle of a day on.
    const differing = (a: string, b: string): string =>
      `(FROM ${a} EXCEPT FROM ${b}) UNION ALL (FROM ${b} EXCEPT FROM ${a})`;
    const [since, until] = ['2026-06-01 10:00:00Z', '2026-06-02 03:00:00Z'];
    const macros = [
      differing("candles('1h')", 'candles_1h'),
      differing("candles('1d')", 'candles_1d'),
      differing(
        `candles('1h', since := '${since}', until := '${until}')`,
        `(FROM candles_1h WHERE t >= '${since}' AND t < '${until}')`,
      ),
    ];
    const sql = await openArchiveQuery(archive, [...statements, ...macros].join(), Math.random);
    try {
      for (const statement of [...statements, ...macros]) expect(await sql.query.readRows(statement)).toEqual([]);
      // A week has no quote in force at its end, which is days after the last one.
      const weeks = "SELECT count(*)::DOUBLE AS n, count(coalesce(bid, ask))::DOUBLE AS sides FROM candles('1w')";
      expect(await sql.query.readRows(weeks)).toEqual([{ n: names.length, sides: 0 }]);
      const counts =
        'SELECT count(*)::DOUBLE AS n, count(bid)::DOUBLE AS bids, count(ask)::DOUBLE AS asks FROM candles_1h';
      const [{ n, bids, asks }] = (await sql.query.readRows(counts)) as [{ n: number; bids: number; asks: number }];
      expect([bids > n / 2, bids < asks, asks < n]).toEqual([true, true, true]);
    } finally {
      await sql.close();
    }
  });
});

const symbols = ['AAA', 'DDD', '🚀 x'];
const moment = fc.integer({ min: -26, max: 26 }).map((half) => day0 + dayMs + (half * hourMs) / 2);
const anyTicks = fc
  .record({
    symbol: fc.constantFrom(...symbols),
    times: fc.uniqueArray(moment, { minLength: 1, maxLength: 6 }),
    price: fc.constantFrom(0.1, 0.5),
    seen: fc.nat({ max: 3 }),
  })
  .map(({ symbol, times, price, seen }) =>
    answer(
      symbol,
      times.toSorted((a, b) => a - b).map((t) => [t, price] as const),
      { observedAt: now + seen, windows: times.map((t) => ({ from: t, to: t + hourMs / 4 })) },
    ),
  );
const anyQuotes = fc
  .record({
    symbol: fc.constantFrom(...symbols),
    rows: fc.array(fc.tuple(moment, fc.constantFrom(missing, 0, 0.2, 0.5), fc.constantFrom(missing, 0.3, 0.5)), {
      minLength: 1,
      maxLength: 6,
    }),
    seen: fc.nat({ max: 3 }),
  })
  .map(({ symbol, rows, seen }) =>
    quoteAnswer(
      symbol,
      rows.map(([t, bid, ask]) => quote(t, bid, ask)),
      { observedAt: now + seen },
    ),
  );
type AnyRecord = { readonly ticks: TickRecord } | { readonly quotes: SeriesRecord };
const anyRecord: fc.Arbitrary<AnyRecord> = fc.oneof(
  anyTicks.map((record) => ({ ticks: record })),
  anyQuotes.map((record) => ({ quotes: record })),
);

test('candles equal those of the published ticks, coverage and quotes after every publish, in any order', async () => {
  const published = async (batches: readonly (readonly AnyRecord[])[]): Promise<object> => {
    const root = scratchFolder();
    // The bytes are the same where the ranges are.
    const archive = opened({ root, parts: 1, groupRows: 8 });
    for (const batch of batches) {
      for (const record of batch) {
        if ('ticks' in record) append(archive, record.ticks);
        else appendQuotes(archive, record.quotes);
      }
      await publishNow(archive);
      expect(findWrongCandles(archive)).toEqual([]);
    }
    archive.close();
    return candles(root);
  };
  const cases = fc.array(fc.tuple(anyRecord, fc.nat()), { minLength: 1, maxLength: 6 });
  await checkAsyncProperty([cases], share * 20, async (drawn) => {
    const atOnce = await published([drawn.map(([record]) => record)]);
    const shuffled = drawn.toSorted(([, a], [, b]) => a - b).map(([record]) => [record]);
    expect(await published(shuffled)).toEqual(atOnce);
  });
});

describe('candles and damage', () => {
  const part = partOf(one);

  test('a damaged file of candles is rebuilt from ticks and quotes, byte for byte', async () => {
    const root = scratchFolder();
    const archive = await filled(root, ['ticks', 'publish', 'quotes', 'publish']);
    const before = candles(root);
    for (const path of [toDayPath('candles_1h', day0, part), toDayPath('candles_1d', day0, part)]) {
      rmSync(join(root, path));
      const { repaired } = await repairNow(archive);
      expect(repaired).toMatchObject([{ path, outcome: 'rebuilt' }]);
      expect(candles(root)).toEqual(before);
    }
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
  });

  test('a repair of ticks keeps the quotes of the remaining candles', async () => {
    const root = scratchFolder();
    const archive = opened({ root, groupRows: 2 });
    append(archive, answer(one, ticks));
    appendQuotes(archive, quoteAnswer(one, quotes));
    await publishNow(archive);
    // The third tick of the day is in the second row group.
    flip(join(root, toDayPath('ticks', day0, part)), 20);
    await repairNow(archive);
    expect(sidesOf(root, 'candles_1h')).toEqual(expectedHours.slice(2));
    expect(findWrongCandles(archive)).toEqual([]);
  });

  test('quotes wait while the ticks of their part are damaged, since the candles could not follow', async () => {
    const root = scratchFolder();
    const archive = await filled(root, ['ticks', 'publish']);
    const path = toDayPath('ticks', day0, part);
    const bytes = flip(join(root, path), 20);
    appendQuotes(archive, quoteAnswer(one, quotes), quoteAnswer(other, quotes));
    for (const record of [[], [answer(one, [[day0 + 50, 0.1]])]]) {
      append(archive, ...record);
      const { refused } = await publishNow(archive);
      expect(refused).toEqual([expect.stringContaining(`${path} is damaged`)]);
      // Those of the other part, and of the other day.
      expect(
        publishedQuotes(root)
          .map(([symbol]) => symbol)
          .sort(),
      ).toEqual([one, other, other, other, other]);
    }
    expect(readJournalLoad(archive.state.db)).toBeGreaterThan(0);
    writeFileSync(join(root, path), bytes);
    expect((await publishNow(archive)).refused).toEqual([]);
    expect(sidesOf(root, 'candles_1h')).toEqual(expectedHours);
    expect(findWrongCandles(archive)).toEqual([]);
  });

  test('quotes of damaged ticks are published if the archive has no candles', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(archive, answer(one, ticks));
    await publishNow(archive, now, 'run', { candles: [] });
    flip(join(root, toDayPath('ticks', day0, part)), 20);
    appendQuotes(archive, quoteAnswer(one, quotes));
    append(archive, answer(one, [[day0 + 50, 0.1]]));
    const { refused } = await publishNow(archive, now, 'run', { candles: [] });
    expect(refused).toEqual([expect.stringContaining('ticks/')]);
    expect(publishedQuotes(root)).toHaveLength(quotes.length);
  });

  test('ticks that become damaged between the quotes and the candles fail the publish, and the next one completes it', async () => {
    const root = scratchFolder();
    (await filled(root, ['ticks', 'publish'])).close();
    const path = join(root, toDayPath('ticks', day0, part));
    let reads = 0;
    // The first read is for the quotes, the second for the new ticks.
    const read = (at: string): Uint8Array => {
      const bytes = systemDisk.read(at);
      return at === path && ++reads > 1 ? bytes.with(20, bytes[20]! ^ 1) : bytes;
    };
    const failing = opened({ root, disk: { ...systemDisk, read } });
    appendQuotes(failing, quoteAnswer(one, quotes));
    append(failing, answer(one, [[day0 + 50, 0.1]]));
    const before = hashes(root, '*/**/*.parquet');
    await expect(publishNow(failing)).rejects.toMatchObject({ exitCode: 6 });
    expect(reads).toBe(2);
    expect(hashes(root, '*/**/*.parquet')).toEqual(before);
    failing.close();
    const archive = opened({ root });
    expect((await publishNow(archive)).refused).toEqual([]);
    expect(sidesOf(root, 'candles_1h')).toEqual(expectedHours);
    expect(findWrongCandles(archive)).toEqual([]);
  });

  test('ticks wait while the quotes of their part are damaged', async () => {
    const root = scratchFolder();
    const archive = await filled(root, ['quotes', 'ticks', 'publish']);
    const path = toDayPath('quotes', day0, part);
    const bytes = flip(join(root, path), 20);
    append(archive, answer(one, [[day0 + 50, 0.1]]), answer(other, [[day0, 0.1]]));
    const before = hashes(root, `ticks/**/part-0${part}.parquet`);
    const { refused, manifest } = await publishNow(archive);
    expect(refused).toEqual([expect.stringContaining(`${path} is damaged`)]);
    expect(hashes(root, `ticks/**/part-0${part}.parquet`)).toEqual(before);
    expect(findManifestFile(manifest, 'ticks', toDayPath('ticks', day0, partOf(other)))).toBeDefined();
    writeFileSync(join(root, path), bytes);
    expect((await publishNow(archive)).refused).toEqual([]);
    expect(readJournalLoad(archive.state.db)).toBe(0);
    expect(findWrongCandles(archive)).toEqual([]);
  });
});
