import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { readSymbol } from '../../src/archive/journal/symbol-store.ts';
import { damagedLake, flip, repairNow } from './damaged.ts';
import { answer, append, day0, dayMs, hashes, now, publishedRows, publishNow } from './scratch.ts';

const { lake: published } = damagedLake();
const ticks0 = toDayPath('ticks', day0, 0);

describe('unrecoverable rows', () => {
  const datasets = ['markets', 'conflicts', 'quote_conflicts', 'trade_conflicts'] as const;
  test.each(datasets)('of %s are reported, and the rest is kept', async (dataset) => {
    const { root, archive, record } = published();
    const path = listManifestFiles(archive.readManifest()).find((file) => file.path.startsWith(`${dataset}/`))!.path;
    const before = publishedRows(root, dataset);
    const others = '{ticks,quotes,trades,coverage}/**/*';
    const kept = hashes(root, others);
    const group = record(path).groups[0]!;
    expect(record(path).groups.length).toBeGreaterThan(1);
    flip(join(root, path), group.start + 9);
    const repaired = await repairNow(archive);
    expect(publishedRows(root, dataset)).toEqual(before.slice(group.rows));
    expect(hashes(root, others)).toEqual(kept);
    expect(repaired.unrecoverable).toEqual([{ dataset, path, rows: group.rows, first: group.first, last: group.last }]);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  });

  test('of order books are whole snapshots, with the coverage of their responses', async () => {
    const { root, archive, record } = published();
    const path = toDayPath('orderbooks', day0, 0);
    const { groups } = record(path);
    expect(groups.length).toBeGreaterThan(2);
    const before = publishedRows(root, 'orderbooks') as [string, number, string, number, number, number][];
    flip(join(root, path), groups[1]!.start + 9);
    const [from, to] = [groups[0]!.rows, groups[0]!.rows + groups[1]!.rows];
    const keyOf = ([symbol, t]: readonly unknown[]): string => `${symbol} ${t}`;
    const touched = new Set(before.slice(from, to).map(keyOf));
    const repaired = await repairNow(archive);
    const left = publishedRows(root, 'orderbooks');
    expect(left).toEqual(before.filter((row) => !touched.has(keyOf(row))));
    expect(before.length - left.length).toBeGreaterThan(groups[1]!.rows);
    expect(repaired.unrecoverable).toEqual([
      {
        dataset: 'orderbooks',
        path,
        rows: before.length - left.length,
        first: groups[1]!.first,
        last: groups[1]!.last,
      },
    ]);
    const answered = publishedRows(root, 'coverage').filter((row) => row[0] === 'orderbooks');
    const snapshots = new Set(left.map(keyOf));
    expect(answered.map(([, symbol, at]) => `${symbol} ${(at as number) - 500}`).sort()).toEqual([...snapshots].sort());
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  });

  test('of coverage are those of order books; intact rows stay', async () => {
    const { root, archive, record } = published();
    const path = toDayPath('coverage', day0, 0);
    const [group] = record(path).groups;
    const before = publishedRows(root, 'coverage');
    expect(before.slice(0, group!.rows).every(([dataset]) => dataset === 'orderbooks')).toBe(true);
    flip(join(root, path), group!.start + 9);
    const { unrecoverable, lost } = await repairNow(archive);
    expect(publishedRows(root, 'coverage')).toEqual(before.slice(group!.rows));
    const keys = { first: group!.first, last: group!.last };
    expect([unrecoverable, lost]).toEqual([[{ dataset: 'coverage', path, rows: group!.rows, ...keys }], []]);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  });

  test('are reported by day', async () => {
    const { root, archive } = published();
    append(archive, answer('XXX', [[day0 + dayMs + 7, 0.5]], { windows: [] }));
    await publishNow(archive, now + 1);
    for (const path of [toDayPath('ticks', day0 + dayMs, 0), toDayPath('coverage', day0, 0)]) rmSync(join(root, path));
    const { unrecoverable } = await repairNow(archive);
    expect(unrecoverable.map(({ dataset }) => dataset)).toEqual(['coverage', 'ticks']);
  });

  test('of ticks are those outside coverage', async () => {
    const { root, archive } = published();
    append(archive, answer('XXX', [[day0 + 7, 0.5]], { windows: [] }));
    await publishNow(archive, now + 1);
    rmSync(join(root, ticks0));
    const { unrecoverable } = await repairNow(archive);
    expect(unrecoverable).toEqual([expect.objectContaining({ dataset: 'ticks', path: ticks0, rows: 1 })]);
    expect(readSymbol(archive.state.db, 'XXX')).toMatchObject({ ticks: 0, firstTick: null, lastTick: null });
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  });
});
