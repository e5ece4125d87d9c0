import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { datasetNames, datasets } from '../../src/archive/format/datasets.ts';
import { formatVersion } from '../../src/archive/format/manifest.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { evidenceSinceKey, getMeta } from '../../src/archive/journal/database.ts';
import { countJournaledTicks } from '../../src/archive/journal/journal.ts';
import { recordMarkets } from '../../src/archive/journal/symbols.ts';
import type { Archive } from '../../src/archive/open-archive.ts';
import { decodeArrowTable } from '../../src/archive/parquet/rows.ts';
import { publish } from '../../src/archive/publish/publish.ts';
import { estimateRecheckCost } from '../../src/collector/paging/plan.ts';
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

/** An archive of format 1 with two generations, opened by today's code, and the text of its manifest. */
async function older(): Promise<{ archive: Archive; text: string }> {
  const first = opened();
  recordMarkets(first.state.db, [market('AAA')], now, true);
  append(first, answer('AAA', [[day0, 0.5]]), answer('BBB', [[day0 + dayMs, 0.5]]));
  await publishNow(first);
  append(first, answer('AAA', [[day0 + 1, 0.6]]));
  await publishNow(first);
  first.close();
  const { root } = first.layout;
  const text = turnedBack(root);
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

const both = ['ticks', 'symbols', 'markets', 'conflicts'] as const;

/** The columns of each published file of coverage. */
const coverageNames = (root: string): string[][] =>
  globSync(join(root, 'coverage/*/*.parquet'))
    .sort()
    .map((path) => decodeArrowTable(readFileSync(path)).schema.fields.map(({ name }) => name));

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
  const { manifest } = await upgrade(archive);
  expect(manifest).toMatchObject({ format_version: formatVersion, generation: was.generation + 1, days: was.days });
  expect(Object.values(manifest.days).map(({ state }) => state)).toEqual(['incomplete', 'incomplete']);
  expect(getMeta(archive.state.db, evidenceSinceKey)).toBe(String(now));
  expect(manifest.previous_sha256).toBe(sha256(Buffer.from(text)));
  for (const name of both) expect(manifest.datasets[name]).toEqual(was.datasets[name]);
  expect(hashes(archive.layout.root, `{${both}}/**/*`)).toEqual(before);
  expect(Object.keys(JSON.parse(readFileSync(archive.layout.manifestPath, 'utf8')).datasets)).toEqual(datasetNames);
  // Nothing of an older format tells why it counts as covered.
  expect(manifest.datasets.coverage.files.map(({ path }) => path)).toEqual(
    was.datasets.coverage.files.map(({ path }) => path),
  );
  const columns = coverageNames(archive.layout.root);
  expect(columns).toEqual(
    manifest.datasets.coverage.files.map(() => datasets.coverage.columns.map(({ name }) => name)),
  );
  expect(publishedRows(archive.layout.root, 'coverage')).toEqual(coverage);
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
