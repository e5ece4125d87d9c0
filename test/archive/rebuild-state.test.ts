import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { datasets } from '../../src/archive/format/datasets.ts';
import { formatManifest, type Manifest } from '../../src/archive/format/manifest.ts';
import { detailColumns, type MarketDetails, unknownDetails } from '../../src/archive/format/market-details.ts';
import { precedenceRanks } from '../../src/archive/format/precedence.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { readAllPublishedCoverage, readPublishedCoverage } from '../../src/archive/journal/coverage-store.ts';
import { appendMarkets, appendTicks } from '../../src/archive/journal/journal.ts';
import { openDayPrecedence } from '../../src/archive/journal/precedence-store.ts';
import {
  readAllSymbols,
  readSymbol,
  recordMarkets,
  recordRecognition,
  recordServedFrom,
} from '../../src/archive/journal/symbol-store.ts';
import { decodeRows, encodeRows } from '../../src/archive/parquet/rows.ts';
import { floorToDay } from '../../src/base/window.ts';
import { fullDetails } from './format/facts.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hourMs,
  market,
  now,
  opened,
  publishedRows,
  publishedTicks,
  publishNow,
} from './scratch.ts';

/** Closes the archive, removes its state and opens it again. */
function rebuilt(archive: Archive): Archive {
  archive.close();
  const { root } = archive.layout;
  rmSync(join(root, '.oddslake'), { recursive: true });
  return opened({ root, create: false });
}

/** One poll of complete market lists, as the markets step records it. */
function poll(archive: Archive, atMs: number, ...markets: ReturnType<typeof market>[]): void {
  appendMarkets(archive.state, { runId: 'run', observedAt: atMs, markets }, []);
  recordMarkets(archive.state.db, markets, atMs, true);
}

test('restores when symbols were last active from the daily market lists', async () => {
  const archive = opened();
  poll(archive, day0, market('LIVE'), market('ENDED'), market('GONE'), market('NEVER', { isActive: false }));
  poll(archive, day0 + hourMs, market('LIVE'), market('ENDED'), market('GONE'));
  poll(archive, day0 + dayMs, market('LIVE'), market('ENDED', { isActive: false }));
  poll(archive, day0 + 2 * dayMs, market('LIVE'), market('ENDED', { isActive: false }));
  append(archive, answer('LIVE', [[day0, 0.5]]));
  await publishNow(archive);
  const activity = (of: Archive) =>
    readAllSymbols(of.state.db).map(({ symbol, isActive, lastActive, inactiveSince, listed }) => {
      return { symbol, isActive, lastActive, inactiveSince, listed };
    });
  const before = activity(archive);
  expect(before[0]).toMatchObject({ symbol: 'ENDED', lastActive: day0 + hourMs, inactiveSince: day0 + dayMs });
  const after = activity(rebuilt(archive));
  // For a symbol that is no longer listed, only the last poll that listed it is published.
  expect(before[1]).toMatchObject({ symbol: 'GONE', inactiveSince: day0 + dayMs });
  expect(after).toEqual(before.with(1, { ...before[1]!, inactiveSince: day0 + hourMs }));
});

test('keeps the details of symbols, which are published from the journal with the markets of their day', async () => {
  const archive = opened();
  const { rules: _, ...ofSymbol } = fullDetails;
  const later = { ...fullDetails, exclusive: false, strikeLow: -1, outcomeSource: 'reported' as const };
  poll(archive, day0, market('A', { outcome: 0.5, ...fullDetails }), market('PLAIN'));
  poll(archive, day0 + hourMs, market('A', { outcome: 0.5, ...later }), market('PLAIN'));
  append(archive, answer('A', [[day0, 0.5]]));
  await publishNow(archive);
  const { root } = archive.layout;
  const rowsOf = (name: 'symbols' | 'markets') =>
    publishedRows(root, name).map((row) =>
      Object.fromEntries(datasets[name].columns.map((column, i) => [column.name, row[i]])),
    );
  const cells = (details: Partial<MarketDetails>) =>
    Object.fromEntries(
      detailColumns.flatMap(([field, column]) => (field in details ? [[column, details[field]]] : [])),
    );
  // The details of a row are those of its last poll, and do not begin a new one.
  expect(rowsOf('markets')).toEqual([
    expect.objectContaining({ symbol: 'A', last_seen: day0 + hourMs, ...cells(later) }),
    expect.objectContaining({ symbol: 'PLAIN', ...cells(unknownDetails) }),
  ]);
  const { rules: __, ...symbolCells } = cells(later);
  expect(rowsOf('symbols')[0]).toMatchObject({ symbol: 'A', ...symbolCells });
  expect(rowsOf('symbols')[0]).not.toHaveProperty('rules');
  const before = readAllSymbols(archive.state.db);
  expect(before[0]).toMatchObject({ ...ofSymbol, exclusive: false, strikeLow: -1, outcomeSource: 'reported' });
  const again = rebuilt(archive);
  const withoutStart = (symbols: typeof before) => symbols.map(({ servedFrom: ___, ...facts }) => facts);
  expect(withoutStart(readAllSymbols(again.state.db))).toEqual(withoutStart(before));
  await publishNow(again);
  expect(rowsOf('symbols')[0]).toMatchObject(symbolCells);
});

test('a suspended symbol is tried again, without effect on others', async () => {
  const archive = opened();
  const activity = { answered: ['GOOD'], unknown: ['BAD'], failed: ['BAD'] };
  poll(archive, day0, market('GOOD'), market('BAD'));
  recordRecognition(archive.state.db, activity, 1, now);
  append(archive, answer('GOOD', [[day0, 0.5]]));
  await publishNow(archive);
  expect(readSymbol(archive.state.db, 'BAD')!.suspendedAt).toBe(now);
  const again = rebuilt(archive);
  expect(readSymbol(again.state.db, 'BAD')).toMatchObject({ suspendedAt: null, unknownSince: null, listed: true });
  expect(recordRecognition(again.state.db, activity, 1, now)).toEqual(['BAD']);
});

/** Publishes `pairs` of an import and of a poll, loses the state, and merges `late` with the same keys. */
async function contested(late: { rank: number; origin: 'poll' | 'import'; observedAt: number }): Promise<string[]> {
  const archive = opened();
  const times = { observedAt: now };
  append(
    archive,
    answer('IMPORTED', [[day0, 0.5]], { ...times, origin: 'import', rank: precedenceRanks.import }),
    answer('POLLED', [[day0, 0.5]], times),
  );
  await publishNow(archive);
  const again = rebuilt(archive);
  append(again, answer('IMPORTED', [[day0, 0.6]], late), answer('POLLED', [[day0, 0.6]], late));
  await publishNow(again);
  return publishedTicks(again.layout.root);
}

test('keeps precedence: polled ticks over imported ones, and later responses over earlier ones', async () => {
  const of = (imported: number, polled: number) => [`IMPORTED ${day0} ${imported}`, `POLLED ${day0} ${polled}`].sort();
  const sorted = async (late: Parameters<typeof contested>[0]) => (await contested(late)).sort();
  expect(await sorted({ rank: precedenceRanks.poll, origin: 'poll', observedAt: now - 1 })).toEqual(of(0.6, 0.5));
  expect(await sorted({ rank: precedenceRanks.poll, origin: 'poll', observedAt: now + 1 })).toEqual(of(0.6, 0.6));
  expect(await sorted({ rank: precedenceRanks.import, origin: 'import', observedAt: now + 1 })).toEqual(of(0.6, 0.5));
  expect(await sorted({ rank: precedenceRanks.preferred, origin: 'import', observedAt: now - 1 })).toEqual(
    of(0.6, 0.6),
  );
});

test('restores imported windows by day, whatever the span of the import', async () => {
  const archive = opened();
  const window = { from: day0 + hourMs, to: day0 + 40 * dayMs };
  append(
    archive,
    answer('AAA', [[day0 + dayMs, 0.5]], { windows: [window], origin: 'import', rank: precedenceRanks.import }),
  );
  await publishNow(archive);
  const { db } = rebuilt(archive).state;
  const days = Array.from({ length: 42 }, (_, i) => day0 + (i - 1) * dayMs);
  const rows = days.flatMap((day) => openDayPrecedence(db, day).getWindows('AAA'));
  expect(rows).toHaveLength(40);
  expect([rows[0]!.from, rows.at(-1)!.to]).toEqual([window.from, window.to]);
  for (const { from, to, rank } of rows) {
    expect(to).toBeLessThanOrEqual(floorToDay(from) + dayMs);
    expect(rank).toBe(precedenceRanks.import);
  }
});

test('an import after the rebuild does not replace polled ticks', async () => {
  const archive = opened();
  append(archive, answer('AAA', [[day0, 0.5]], { observedAt: now }));
  await publishNow(archive);
  const again = rebuilt(archive);
  const window = { from: day0, to: day0 + hourMs };
  append(
    again,
    answer('AAA', [], { windows: [window], origin: 'import', rank: precedenceRanks.import, observedAt: now + 5 }),
  );
  await publishNow(again);
  append(again, answer('AAA', [[day0, 0.7]], { origin: 'import', rank: precedenceRanks.import, observedAt: now + 9 }));
  await publishNow(again);
  expect(publishedTicks(again.layout.root)).toEqual([`AAA ${day0} 0.5`]);
});

test('restores a lifetime that starts where the upstream does, and its gaps', async () => {
  const archive = opened();
  const at = (from: number, to: number) => ({ windows: [{ from, to }], observedAt: now });
  const early = { opensAt: day0 - 9 * dayMs };
  poll(archive, day0, market('HOLED'), market('LATE', early), market('WHOLE'));
  append(archive, answer('WHOLE', [], at(day0, day0 + 2 * dayMs)));
  append(archive, answer('LATE', [], at(day0 - dayMs, day0 + 2 * dayMs)));
  appendTicks(archive.state, [answer('HOLED', [], at(day0, day0 + hourMs))]);
  appendTicks(archive.state, [answer('HOLED', [], at(day0 + 2 * hourMs, day0 + 3 * dayMs))]);
  recordServedFrom(archive.state.db, 'LATE', day0 - dayMs);
  await publishNow(archive);
  const { watermark } = archive.readManifest();
  expect(watermark).toBe(day0 + hourMs);
  const again = rebuilt(archive);
  expect(readSymbol(again.state.db, 'LATE')).toMatchObject({ servedFrom: day0 - dayMs, ...early });
  append(again, answer('WHOLE', [[day0, 0.5]]));
  await publishNow(again);
  expect(again.readManifest().watermark).toBe(watermark);
});

test('a gap before an import is still owed for a symbol that the watermark did not wait for', async () => {
  const archive = opened();
  const window = (from: number, to: number) => ({ windows: [{ from: day0 + from * hourMs, to: day0 + to * hourMs }] });
  poll(archive, day0, market('OTHER'), market('SUSPENDED'));
  append(archive, answer('OTHER', [], window(0, 4)));
  append(archive, answer('SUSPENDED', [], window(0, 1)));
  recordRecognition(archive.state.db, { answered: ['OTHER'], unknown: ['SUSPENDED'], failed: [] }, 1, now);
  const imported = { origin: 'import', rank: precedenceRanks.import } as const;
  append(archive, answer('SUSPENDED', [], { ...window(2, 6), ...imported }));
  await publishNow(archive);
  expect(archive.readManifest().watermark).toBe(day0 + 4 * hourMs);
  expect(readSymbol(rebuilt(archive).state.db, 'SUSPENDED')!.polledFrom).toBe(day0);
});

test('a damaged coverage file does not make a later poll the first', async () => {
  const archive = opened();
  poll(archive, day0, market('AAA'));
  append(archive, answer('AAA', [], { windows: [{ from: day0, to: day0 + 3 * dayMs }] }));
  await publishNow(archive);
  const file = archive.readManifest().datasets.coverage.files[1]!;
  writeFileSync(join(archive.layout.root, file.path), 'not what it was');
  expect(readSymbol(rebuilt(archive).state.db, 'AAA')!.polledFrom).toBe(day0);
});

/** Rewrites the coverage file of a day with more rows, as if it had been published with them. */
function addCoverageRows(archive: Archive, rows: Parameters<typeof encodeRows>[1]): void {
  const { layout } = archive;
  const manifest = JSON.parse(readFileSync(layout.manifestPath, 'utf8')) as Manifest;
  const [file] = manifest.datasets.coverage.files;
  const at = join(layout.root, file!.path);
  const bytes = encodeRows(datasets.coverage.columns, [
    ...rows,
    ...decodeRows(datasets.coverage.columns, readFileSync(at)),
  ]);
  writeFileSync(at, bytes);
  Object.assign(file!, { sha256: sha256(bytes), bytes: bytes.length, rows: rows.length + file!.rows });
  writeFileSync(layout.manifestPath, formatManifest(manifest));
}

test('coverage of order books does not count for ticks', async () => {
  const archive = opened();
  append(archive, answer('AAA', [[day0, 0.5]]));
  await publishNow(archive);
  const covered = readPublishedCoverage(archive.state.db, 'AAA');
  addCoverageRows(archive, [
    ['orderbooks', 'AAA', day0 + hourMs, day0 + hourMs + 1, 0, now, 'poll', 'inferred', null],
    ['orderbooks', 'BBB', day0 + hourMs, day0 + hourMs + 1, 0, now, 'poll', 'inferred', null],
  ]);
  const again = rebuilt(archive);
  expect([...readAllPublishedCoverage(again.state.db)]).toEqual([['AAA', covered]]);
  expect(readSymbol(again.state.db, 'BBB')).toBeUndefined();
});

test('restores symbols from coverage if the symbols file is damaged', async () => {
  const archive = opened();
  poll(archive, now, market('AAA'));
  append(archive, answer('AAA', [[day0, 0.5]]), answer('BBB', [[day0 + 5, 0.5]], { origin: 'backfill' }));
  await publishNow(archive);
  writeFileSync(join(archive.layout.root, 'symbols/part-00.parquet'), 'PAR1');
  const again = rebuilt(archive);
  expect(
    readAllSymbols(again.state.db).map(({ symbol, polledFrom, firstSeen }) => [symbol, polledFrom, firstSeen]),
  ).toEqual([
    ['AAA', day0, day0],
    ['BBB', null, day0 + 5],
  ]);
  expect((await verifyArchive(again, null)).findings).toEqual([
    { path: 'symbols/part-00.parquet', kind: 'checksum mismatch' },
  ]);
});

test('joins and separates windows of many days as before', async () => {
  const archive = opened();
  for (let day = 0; day < 50; day++) {
    const [from, to] = [day0 + day * dayMs, day0 + (day + 1) * dayMs];
    append(archive, answer('AAA', [[from, 0.5]], { windows: [{ from, to }], observedAt: to + 2 * hourMs }));
    await publishNow(archive, to + 2 * hourMs);
  }
  const before = readPublishedCoverage(archive.state.db, 'AAA');
  expect(before.length).toBeLessThan(6);
  expect(readPublishedCoverage(rebuilt(archive).state.db, 'AAA')).toEqual(before);
});

test('restores what is proven and what is inferred', async () => {
  const archive = opened();
  poll(archive, now, market('AAA', { opensAt: day0 }));
  for (let hour = 0; hour < 60; hour += 6) {
    const window = { from: day0 + Math.max(0, hour - 2) * hourMs, to: day0 + (hour + 6) * hourMs };
    const covered = [
      { ...window, fetchedAt: window.to, evidence: hour < 24 ? ('confirmed' as const) : ('inferred' as const) },
    ];
    append(archive, answer('AAA', [[window.to - 1, 0.5]], { covered, observedAt: window.to }));
    await publishNow(archive, window.to + hourMs);
  }
  const states = (of: Archive) => Object.values(of.readManifest().days).map(({ state }) => state);
  const before = states(archive);
  expect(before).toEqual(['complete', 'provisional', 'incomplete']);
  const again = rebuilt(archive);
  append(again, answer('BBB', [[day0, 0.5]], { origin: 'backfill' }));
  await publishNow(again, day0 + 80 * hourMs);
  expect(states(again)).toEqual(before);
});
