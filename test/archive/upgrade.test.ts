import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { Field } from 'apache-arrow';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { type Disk, sha256, systemDisk } from '../../src/archive/disk/file-system.ts';
import { type DatasetName, datasetNames, datasets } from '../../src/archive/format/datasets.ts';
import { parsePartNumber } from '../../src/archive/format/layout.ts';
import { formatVersion, listFilesWithRows } from '../../src/archive/format/manifest.ts';
import type { MarketFacts } from '../../src/archive/format/market.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { evidenceSinceKey, getMeta } from '../../src/archive/journal/database.ts';
import { appendMarkets, countJournaledTicks } from '../../src/archive/journal/journal.ts';
import { readSymbol, recordMarkets } from '../../src/archive/journal/symbols.ts';
import { toArrowSchema } from '../../src/archive/parquet/arrow-data.ts';
import { decodeArrowTable, decodeRows } from '../../src/archive/parquet/rows.ts';
import { publish } from '../../src/archive/publish/publish.ts';
import { computePartNumber } from '../../src/base/symbol-name.ts';
import { estimateRecheckCost } from '../../src/collector/paging/plan.ts';
import { repairNow } from './damaged.ts';
import { turnedBack } from './older.ts';
import {
  answer,
  append,
  clockAt,
  day0,
  dayMs,
  hashes,
  hourMs,
  market,
  now,
  opened,
  publishedRows,
  publishedTicks,
  publishNow,
} from './scratch.ts';

/** A record of a market with an outcome and fields that format 4 has columns for. */
const settled = market('AAA', { outcome: 1, extra: '{"event":"E"}', outcomeSource: 'reported' });

/** An archive of an older format with two generations, opened by today's code, and the text of its manifest. */
async function older(format = 1): Promise<{ archive: Archive; text: string }> {
  const first = opened();
  recordMarkets(first.state.db, [settled], now, true);
  for (const observedAt of [day0, day0 + dayMs])
    appendMarkets(first.state, { runId: 'run', observedAt, markets: [settled, market('BBB')] }, []);
  append(first, answer('AAA', [[day0, 0.5]]), answer('BBB', [[day0 + dayMs, 0.5]]));
  await publishNow(first);
  append(first, answer('AAA', [[day0 + 1, 0.6]]));
  await publishNow(first);
  first.close();
  const { root } = first.layout;
  const text = turnedBack(root, format);
  return { archive: opened({ root, create: false }), text };
}

const upgrade = (archive: Archive) =>
  publish(archive, {
    runId: 'upgrade',
    clock: clockAt(now),
    waitMs: 10_000,
    namedSymbols: null,
    views: [],
    upgrades: true,
    candles: ['1h', '1d'],
    lifetimeRules: { lookbackMs: 0, lingerMs: 7 * dayMs, settleMs: hourMs },
  });

const both = ['ticks', 'conflicts'] as const;

/** Rows of a dataset by column name. */
const recordsOf = (root: string, name: 'symbols' | 'markets'): Record<string, unknown>[] =>
  publishedRows(root, name).map((row) =>
    Object.fromEntries(datasets[name].columns.map((column, i) => [column.name, row[i]])),
  );

/** The rows as an upgrade to format 4 changes them: every outcome was reported, and the other new columns are null. */
const withSource = (rows: readonly Record<string, unknown>[]) =>
  rows.map((row) => ({ ...row, outcome_source: row.outcome === null ? null : 'reported' }));

const describeField = ({ name, type, nullable }: Field): string => `${name} ${nullable ? '?' : ''}${type}`;

/** The columns of each published file, with types, as in its schema. */
const columnsByPath = (root: string, folders = '{ticks,symbols,markets,conflicts,coverage,candles_1h,candles_1d}') =>
  new Map(
    globSync(`${folders}/**/*.parquet`, { cwd: root })
      .sort()
      .map((path) => [path, decodeArrowTable(readFileSync(join(root, path))).schema.fields.map(describeField)]),
  );

/** What `columnsByPath` returns for files that have every column of the current format. */
const allColumns = (paths: Iterable<string>) =>
  new Map(
    [...paths].map((path) => [
      path,
      toArrowSchema(datasets[path.split('/')[0] as DatasetName].columns).fields.map(describeField),
    ]),
  );

const olderFormats = Array.from({ length: formatVersion - 1 }, (_, i) => i + 1);

test('an older archive is read as it is, and nothing is published onto it', async () => {
  const { archive, text } = await older();
  expect(archive.readManifest().format_version).toBe(1);
  for (const name of datasetNames) expect(archive.readManifest().datasets[name].files).toBeInstanceOf(Array);
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
  append(archive, answer('AAA', [[day0 + 2, 0.7]]));
  const before = hashes(archive.layout.root, '**/*');
  await expect(publishNow(archive)).rejects.toMatchObject({
    exitCode: 2,
    message: expect.stringMatching(/oddslake upgrade/),
  });
  expect(hashes(archive.layout.root, '**/*')).toEqual(before);
  expect(readFileSync(archive.layout.manifestPath, 'utf8')).toBe(text);
  expect(countJournaledTicks(archive.state.db)).toBe(1);
});

test('upgrade publishes one generation of the current format and leaves ticks and journal alone', async () => {
  const { archive, text } = await older();
  append(archive, answer('AAA', [[day0 + 2, 0.7]]));
  recordMarkets(archive.state.db, [market('CCC')], now + 1, true);
  const was = archive.readManifest();
  const before = hashes(archive.layout.root, `{${both}}/**/*`);
  const coverage = publishedRows(archive.layout.root, 'coverage');
  const [symbols, markets] = (['symbols', 'markets'] as const).map((name) => recordsOf(archive.layout.root, name));
  const { manifest } = await upgrade(archive);
  expect(manifest).toMatchObject({ format_version: formatVersion, generation: was.generation + 1 });
  // Only the reasons differ: what was proven is inferred now.
  const withoutReasons = (days: typeof was.days) =>
    Object.entries(days).map(([date, { reasons: _, reason: __, next_action: ___, ...day }]) => [date, day]);
  expect(withoutReasons(manifest.days)).toEqual(withoutReasons(was.days));
  expect(manifest.days['2026-06-01']!.reasons!.map(({ reason }) => reason)).toEqual(['never asked', 'inferred']);
  expect(Object.values(manifest.days).map(({ state }) => state)).toEqual(['incomplete', 'incomplete']);
  expect(getMeta(archive.state.db, evidenceSinceKey)).toBe(String(now));
  expect(manifest.previous_sha256).toBe(sha256(Buffer.from(text)));
  for (const name of both) expect(listFilesWithRows(manifest, name)).toEqual(was.datasets[name].files);
  expect(hashes(archive.layout.root, `{${both}}/**/*`)).toMatchObject(before);
  expect(Object.keys(JSON.parse(readFileSync(archive.layout.manifestPath, 'utf8')).datasets)).toEqual(datasetNames);
  expect(recordsOf(archive.layout.root, 'symbols')).toEqual(withSource(symbols!));
  expect(recordsOf(archive.layout.root, 'markets')).toEqual(withSource(markets!));
  expect(markets).toHaveLength(4);
  expect(withSource(markets!)).toContainEqual(
    expect.objectContaining({ symbol: 'AAA', outcome_source: 'reported', event: null, extra: settled.extra }),
  );
  // Nothing of an older format tells why it counts as covered.
  for (const { path } of manifest.datasets.coverage.files)
    for (const [, symbol] of decodeRows(datasets.coverage.columns, readFileSync(join(archive.layout.root, path))))
      expect(computePartNumber(symbol as string, manifest.parts)).toBe(parsePartNumber(path));
  const columns = columnsByPath(archive.layout.root);
  expect(columns).toEqual(allColumns(columns.keys()));
  expect(publishedRows(archive.layout.root, 'coverage').map(String).sort()).toEqual(coverage.map(String).sort());
  expect(coverage.map((row) => row.slice(7))).toEqual(coverage.map(() => ['inferred', null]));
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
  expect(countJournaledTicks(archive.state.db)).toBe(1);
  // From here on it is an archive like any other.
  expect((await publishNow(archive)).manifest.generation).toBe(was.generation + 2);
  expect(publishedTicks(archive.layout.root)).toHaveLength(4);
});

test('a current archive is left as it is, and of two upgrades at once one finds it current', async () => {
  const { archive } = await older();
  const { root } = archive.layout;
  const other = opened({ root, create: false });
  const [a, b] = await Promise.all([upgrade(archive), upgrade(other)]);
  expect([a.manifest.generation, b.manifest.generation]).toEqual([3, 3]);
  const before = hashes(root, '**/*');
  expect((await upgrade(archive)).files).toEqual([]);
  expect(hashes(root, '**/*')).toEqual(before);
});

test.each(olderFormats)(
  'after an upgrade from format %i every file of a dataset has the same columns',
  async (format) => {
    const { archive } = await older(format);
    const { root } = archive.layout;
    const was = archive.readManifest();
    expect(was.format_version).toBe(format);
    const states = Object.values(was.days).map(({ state }) => state);
    const { refused } = await upgrade(archive);
    expect(refused).toEqual([]);
    const columns = columnsByPath(root);
    expect(columns).toEqual(allColumns(columns.keys()));
    expect(Object.values(archive.readManifest().days).map(({ state }) => state)).toEqual(states);
    // Coverage of formats 1 and 2 has no evidence, that of format 3 has.
    expect(getMeta(archive.state.db, evidenceSinceKey)).toBe(format < 3 ? String(now) : undefined);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
    const before = hashes(root, '**/*');
    expect((await upgrade(archive)).files).toEqual([]);
    expect(hashes(root, '**/*')).toEqual(before);
    expect((await publishNow(archive)).manifest.format_version).toBe(formatVersion);
  },
);

test('a damaged file is refused and left as it is, and rewritten by another upgrade once it is restored', async () => {
  const { archive } = await older(2);
  const { root } = archive.layout;
  const [damaged, intact] = archive.readManifest().datasets.coverage.files.map(({ path }) => join(root, path));
  const bytes = readFileSync(damaged!);
  const flipped = Uint8Array.from(bytes);
  flipped[bytes.length >> 1]! ^= 1;
  writeFileSync(damaged!, flipped);
  const first = await upgrade(archive);
  expect(first.refused).toEqual([expect.stringMatching(/^coverage\/.* is damaged: its sha256 differs/)]);
  expect(first.manifest.format_version).toBe(formatVersion);
  expect(Buffer.compare(readFileSync(damaged!), flipped)).toBe(0);
  const day = dirname(relative(root, intact!));
  expect(columnsByPath(root, day)).toEqual(allColumns(columnsByPath(root, day).keys()));

  const before = hashes(root, '**/*');
  expect((await upgrade(archive)).refused).toEqual(first.refused);
  expect(hashes(root, '**/*')).toEqual(before);

  writeFileSync(damaged!, bytes);
  const { manifest, files, refused } = await upgrade(archive);
  expect(refused).toEqual([]);
  const date = dirname(relative(root, damaged!));
  expect(files.map(({ path }) => path)).toEqual(
    listFilesWithRows(manifest, 'coverage').flatMap(({ path }) => (path.startsWith(`${date}/`) ? [path] : [])),
  );
  expect(manifest.generation).toBe(first.manifest.generation + 1);
  expect(columnsByPath(root)).toEqual(allColumns(columnsByPath(root).keys()));
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
  expect((await upgrade(archive)).files).toEqual([]);
});

test('a damaged day of markets is refused, and the other days and the symbols are rewritten', async () => {
  const { archive } = await older(3);
  const { root } = archive.layout;
  const [first, second] = archive.readManifest().datasets.markets.files.map(({ path }) => path);
  const bytes = readFileSync(join(root, first!)).map((byte, i) => (i === 40 ? byte ^ 1 : byte));
  writeFileSync(join(root, first!), bytes);
  const { refused, manifest } = await upgrade(archive);
  expect(refused).toEqual([expect.stringMatching(/^markets\/.* is damaged/)]);
  expect(manifest.format_version).toBe(4);
  expect(Buffer.compare(readFileSync(join(root, first!)), bytes)).toBe(0);
  const day = dirname(second!);
  const rewritten = columnsByPath(root, `{symbols,${day}}`);
  expect([...rewritten.keys()]).toEqual([second, 'symbols/part-00.parquet']);
  expect(rewritten).toEqual(allColumns(rewritten.keys()));
  await repairNow(archive);
  expect(columnsByPath(root)).toEqual(allColumns(columnsByPath(root).keys()));
  expect((await upgrade(archive)).files).toEqual([]);
});

test('market polls that an older version journaled are published with the columns of today', async () => {
  const { archive } = await older(3);
  const { root } = archive.layout;
  const olderFacts = ({
    canonicalId,
    symbol,
    source,
    views,
    category,
    confidence,
    isActive,
    question,
  }: MarketFacts) => ({
    ...{ canonicalId, symbol, source, views, category, confidence, isActive, question },
    ...{ opensAt: null, closesAt: null, resolvedAt: null, outcome: 0.5, extra: null },
  });
  const markets = [olderFacts(market('CCC'))] as unknown as MarketFacts[];
  appendMarkets(archive.state, { runId: 'run', observedAt: day0 + 5, markets }, []);
  await upgrade(archive);
  await publishNow(archive);
  expect(recordsOf(root, 'markets')).toContainEqual(
    expect.objectContaining({ symbol: 'CCC', outcome: 0.5, outcome_source: 'reported', event: null, tick_size: null }),
  );
  expect(columnsByPath(root)).toEqual(allColumns(columnsByPath(root).keys()));
});

test('a state that is rebuilt from an archive of format 3 knows that its outcomes were reported', async () => {
  const { archive } = await older(3);
  const { root } = archive.layout;
  archive.close();
  rmSync(join(root, '.oddslake'), { recursive: true });
  const again = opened({ root, create: false });
  expect(readSymbol(again.state.db, 'AAA')).toMatchObject({ outcome: 1, outcomeSource: 'reported', event: null });
  expect(readSymbol(again.state.db, 'BBB')).toMatchObject({ outcome: null, outcomeSource: null });
});

test('an upgrade that was interrupted before its commit is repeated', async () => {
  const { archive } = await older(2);
  const { root } = archive.layout;
  const before = hashes(root, '{ticks,symbols,markets,coverage}/**/*');
  archive.close();
  const failing = opened({ root, create: false, disk: failingAfterWrites(1) });
  await expect(upgrade(failing)).rejects.toThrow(/no more writes/);
  expect(failing.readManifest().format_version).toBe(2);
  expect(hashes(root, '{ticks,symbols,markets,coverage}/**/*')).toEqual(before);
  failing.close();
  const again = opened({ root, create: false });
  expect((await upgrade(again)).refused).toEqual([]);
  expect(columnsByPath(root)).toEqual(allColumns(columnsByPath(root).keys()));
});

/** The system's disk, which fails after a number of files in staging. */
function failingAfterWrites(count: number): Disk {
  let written = 0;
  const failing =
    <T>(write: (path: string, bytes: Uint8Array | Iterable<Uint8Array>) => T): typeof write =>
    (path, bytes) => {
      if (path.includes('/staging/') && ++written > count) throw new Error('no more writes');
      return write(path, bytes);
    };
  return {
    ...systemDisk,
    write: failing(systemDisk.write),
    writeInBackground: failing(systemDisk.writeInBackground),
  };
}

test('the chain of manifests holds over the upgrade and after it', async () => {
  const { archive } = await older();
  await upgrade(archive);
  const upgraded = readFileSync(join(archive.layout.root, 'manifest.json'));
  append(archive, answer('AAA', [[day0 + 2, 0.7]]));
  expect((await publishNow(archive)).manifest.previous_sha256).toBe(sha256(upgraded));
});

test('what was complete is provisional after an upgrade, as nothing tells why its windows count as covered', async () => {
  const first = opened();
  recordMarkets(first.state.db, [market('AAA', { opensAt: day0 })], now, true);
  append(first, answer('AAA', [[day0, 0.5]], { windows: [{ from: day0, to: day0 + 2 * dayMs }] }));
  await publishNow(first);
  expect(Object.values(first.readManifest().days).map(({ state }) => state)).toEqual(['complete', 'complete']);
  first.close();
  turnedBack(first.layout.root);
  const archive = opened({ root: first.layout.root, create: false });
  const states = () => Object.values(archive.readManifest().days).map(({ state }) => state);
  expect(states()).toEqual(['provisional', 'provisional']);
  const { manifest } = await upgrade(archive);
  expect(states()).toEqual(['provisional', 'provisional']);
  expect(manifest).toMatchObject({ watermark: day0, reached: day0 + 2 * dayMs });
  expect(estimateRecheckCost(archive.state.db, 1000)).toEqual({
    windows: 1,
    symbols: 1,
    from: day0,
    to: day0 + 2 * dayMs,
    expected_requests: 3,
  });
  // An archive that began with this format has nothing to be wary of.
  expect(getMeta(opened().state.db, evidenceSinceKey)).toBeUndefined();
  const windows = [{ from: day0, to: day0 + 2 * dayMs }];
  append(archive, answer('AAA', [], { windows, observedAt: now + 1 }));
  await publishNow(archive);
  expect(states()).toEqual(['complete', 'complete']);
  expect(estimateRecheckCost(archive.state.db, 1000)).toMatchObject({ windows: 0, symbols: 0, expected_requests: 0 });
});

test.each(olderFormats)(
  'an upgrade from format %i adds a file without rows to each dataset without rows',
  async (format) => {
    const { archive } = await older(format);
    await upgrade(archive);
    const manifest = archive.readManifest();
    for (const name of ['orderbooks', 'quotes', 'trades', 'conflicts', 'quote_conflicts', 'trade_conflicts'] as const)
      expect(manifest.datasets[name].files).toMatchObject([
        { path: `${name}/date=2026-06-01/part-00.parquet`, rows: 0 },
      ]);
    const before = hashes(archive.layout.root, '**/*');
    expect((await upgrade(archive)).manifest.generation).toBe(manifest.generation);
    expect(hashes(archive.layout.root, '**/*')).toEqual(before);
  },
);

test('a file without rows gets the new columns too', async () => {
  const first = opened();
  append(first, answer('AAA', [[day0, 0.5]], { windows: [] }));
  await publishNow(first);
  first.close();
  const { root } = first.layout;
  turnedBack(root, 3, true);
  const markets = 'markets/date=2026-06-01/part-00.parquet';
  expect(columnsByPath(root, 'markets')).not.toEqual(allColumns([markets]));
  const archive = opened({ root, create: false });
  expect((await upgrade(archive)).refused).toEqual([]);
  for (const name of datasetNames)
    expect(columnsByPath(root, name)).toEqual(allColumns(columnsByPath(root, name).keys()));
  expect(archive.readManifest().datasets.markets.files).toMatchObject([
    { path: markets, rows: 0, t_min: null, generation: 2 },
  ]);
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
});

test('numbers the dropped prices of one tick and moment, as a publish does', async () => {
  const first = opened();
  append(
    first,
    answer('AAA', [
      [day0, 0.1],
      [day0, 0.3],
      [day0, 0.2],
      [day0 + 1, 0.4],
      [day0 + 1, 0.5],
    ]),
  );
  await publishNow(first, now, 'run', { candles: ['1h', '1d'] });
  const { root } = first.layout;
  const before = publishedRows(root, 'conflicts');
  expect(before.map((row) => [row[3], row[5]])).toEqual([
    [0.1, 0],
    [0.3, 1],
    [0.4, 0],
  ]);
  first.close();
  turnedBack(root, 3);
  const again = opened({ root, create: false });
  await upgrade(again);
  expect(publishedRows(root, 'conflicts')).toEqual(before);
});
