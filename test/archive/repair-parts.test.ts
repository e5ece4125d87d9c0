import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { listManifestFiles, sumFileSizes } from '../../src/archive/format/manifest.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { readPublishedCoverage } from '../../src/archive/journal/coverage-store.ts';
import { readLostWindows } from '../../src/archive/journal/gap-records.ts';
import { readSymbol } from '../../src/archive/journal/symbol-store.ts';
import { repairNow } from './damaged.ts';
import { alien, mine, minutes, others, published, symbols } from './parted.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hashes,
  hourMs,
  now,
  opened,
  pathOfSymbol,
  publishedRows,
  publishNow,
} from './scratch.ts';

const at = (archive: Archive, path: string): string => join(archive.layout.root, path);
const ticks0 = toDayPath('ticks', day0, 0);
const everyFile = '*/**/*.parquet';
const counts = (archive: Archive, symbol: string) => {
  const { ticks, firstTick, lastTick } = readSymbol(archive.state.db, symbol)!;
  return [ticks, firstTick, lastTick];
};
const coverageOf = (archive: Archive, of: readonly string[]) =>
  publishedRows(archive.layout.root, 'coverage').filter((row) => of.includes(row[1] as string));

test('a missing part file affects only its own symbols of that day', async () => {
  const archive = await published();
  const before = hashes(archive.layout.root, everyFile);
  const covered = coverageOf(archive, others);
  const known = others.map((symbol) => readPublishedCoverage(archive.state.db, symbol));
  rmSync(at(archive, ticks0));
  const repaired = await repairNow(archive);
  expect(repaired.lost.map(({ symbol, ticks }) => [symbol, ticks])).toEqual([...mine].sort().map((s) => [s, minutes]));
  const [first, last] = [dayMs, dayMs + (minutes - 1) * 60_000];
  for (const symbol of mine) {
    const n = symbols.indexOf(symbol);
    expect(counts(archive, symbol)).toEqual([minutes, day0 + first + n, day0 + last + n]);
  }
  for (const symbol of others) expect(counts(archive, symbol)[0]).toBe(2 * minutes);
  expect(coverageOf(archive, others)).toEqual(covered);
  expect(others.map((symbol) => readPublishedCoverage(archive.state.db, symbol))).toEqual(known);
  const after = hashes(archive.layout.root, everyFile);
  const changed = Object.keys(before).filter((path) => after[path] !== before[path]);
  expect(changed).toEqual([
    toDayPath('candles_1d', day0, 0),
    toDayPath('candles_1h', day0, 0),
    toDayPath('coverage', day0, 0),
    'symbols/part-00.parquet',
    ticks0,
  ]);
  const written = [toDayPath('coverage', day0, 0), 'symbols/part-00.parquet'];
  expect(repaired.written.map(({ path }) => path).sort()).toEqual(written);
  const files = listManifestFiles(archive.readManifest());
  expect(repaired).toMatchObject({
    generation: 2,
    files: files.length,
    bytes: sumFileSizes(files).bytes,
    unrecoverable: [],
  });
});

test('counts lost ticks by the daily candles if coverage is damaged too', async () => {
  const archive = await published();
  const covered = coverageOf(archive, others);
  rmSync(at(archive, ticks0));
  rmSync(at(archive, toDayPath('coverage', day0, 0)));
  const { lost, unrecoverable } = await repairNow(archive);
  expect(lost.map(({ symbol, ticks }) => [symbol, ticks])).toEqual([...mine].sort().map((s) => [s, minutes]));
  expect(coverageOf(archive, others)).toEqual(covered);
  // Three stretches of coverage went with the ticks: they are lost, not forgotten.
  expect(unrecoverable.filter(({ dataset }) => dataset !== 'coverage')).toEqual([]);
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
});

test('restores damaged coverage from the state, byte for byte', async () => {
  const archive = await published();
  const before = hashes(archive.layout.root, everyFile);
  writeFileSync(at(archive, toDayPath('coverage', day0, 0)), 'PAR1');
  const { repaired, unrecoverable, lost } = await repairNow(archive);
  expect(hashes(archive.layout.root, everyFile)).toEqual(before);
  expect([unrecoverable, lost]).toEqual([[], []]);
  expect(repaired).toEqual([
    {
      path: toDayPath('coverage', day0, 0),
      kind: 'checksum mismatch',
      outcome: 'rebuilt',
      rows: 3,
      rows_lost: 0,
      moved_to: `.oddslake/damaged/1/${toDayPath('coverage', day0, 0)}`,
    },
  ]);
});

test('restores coverage that the state joined with later days without a later fetched_at', async () => {
  const archive = opened({ mends: true });
  const answeredAt = (day: number): number => day0 + (day + 2) * dayMs;
  for (let day = 0; day < 8; day++) {
    const from = day0 + day * dayMs;
    const windows = [{ from, to: from + dayMs }];
    append(archive, answer('JOINED', [[from + 1, 0.5]], { windows, observedAt: answeredAt(day) }));
    await publishNow(archive, answeredAt(day));
  }
  expect(readPublishedCoverage(archive.state.db, 'JOINED').length).toBeLessThan(8);
  for (const day of [0, 7]) rmSync(at(archive, pathOfSymbol(archive, 'coverage', 'JOINED', day0 + day * dayMs)));
  await repairNow(archive);
  const times = coverageOf(archive, ['JOINED']).map((row) => row[5] as number);
  expect(times.map((fetchedAt, day) => fetchedAt <= answeredAt(day))).toEqual(Array(8).fill(true));
  // A joined window has the earliest time.
  expect([times[0], times[7]]).toEqual([answeredAt(0), answeredAt(7)]);
  // A later response that covers only the end of the restored window leaves the rest with its time.
  const windows = [{ from: day0 + 23 * hourMs, to: day0 + 25 * hourMs }];
  append(archive, answer('JOINED', [], { windows, observedAt: answeredAt(8), origin: 'backfill' }));
  await publishNow(archive, answeredAt(8));
  const rows = coverageOf(archive, ['JOINED']).map((row) => [row[2], row[3], row[5]]);
  expect(rows.slice(0, 2)).toEqual([
    [day0, day0 + 23 * hourMs, answeredAt(0)],
    [day0 + 23 * hourMs, day0 + dayMs, answeredAt(8)],
  ]);
});

test('removes candles that are damaged with their ticks, and rebuilds others', async () => {
  const archive = await published();
  const [hours, other] = [toDayPath('candles_1h', day0, 0), toDayPath('candles_1h', day0, 1)];
  const before = hashes(archive.layout.root, everyFile);
  for (const path of [hours, other, ticks0]) rmSync(at(archive, path));
  const { repaired } = await repairNow(archive);
  expect(repaired.map(({ path, outcome, rows, rows_lost }) => [path, outcome, rows, rows_lost])).toEqual([
    [ticks0, 'removed', 3 * minutes, 3 * minutes],
    [hours, 'removed', 3, 3],
    [other, 'rebuilt', 3, 0],
  ]);
  expect(hashes(archive.layout.root, everyFile)[other]).toBe(before[other]);
  expect(existsSync(at(archive, toDayPath('candles_1d', day0, 0)))).toBe(false);
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
});

test('recounts all parts if tick counts do not add up', async () => {
  const archive = await published();
  archive.state.db.run('update symbols set ticks = ticks + 5 where symbol = ?', others[0]!);
  rmSync(at(archive, ticks0));
  await repairNow(archive);
  expect(counts(archive, others[0]!)[0]).toBe(2 * minutes);
  for (const symbol of mine) expect(counts(archive, symbol)[0]).toBe(minutes);
});

test('restores symbols that have ticks in a state without symbols', async () => {
  const archive = await published();
  const before = publishedRows(archive.layout.root, 'symbols').map(([symbol]) => symbol);
  archive.state.db.run('delete from symbols');
  rmSync(at(archive, 'symbols/part-00.parquet'));
  await repairNow(archive);
  expect(publishedRows(archive.layout.root, 'symbols').map(([symbol]) => symbol)).toEqual(before);
  for (const path of Object.keys(hashes(archive.layout.root, '{ticks,symbols}/**/*.parquet')))
    rmSync(at(archive, path));
  archive.state.db.run('delete from symbols');
  await repairNow(archive);
  expect(archive.readManifest().datasets.symbols.files).toMatchObject([{ path: 'symbols/part-00.parquet', rows: 0 }]);
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
});

test('ticks of a lost window that are lost again stay lost; others are unrecoverable', async () => {
  const archive = await published();
  rmSync(at(archive, ticks0));
  const { lost } = await repairNow(archive);
  const [symbol] = mine;
  const { from } = lost.find((one) => one.symbol === symbol)!;
  append(
    archive,
    answer(symbol!, [[from, 0.5]], { windows: [] }),
    answer(
      alien,
      [
        [day0 + 7, 0.5],
        [day0 + 8, 0.5],
      ],
      { windows: [] },
    ),
  );
  await publishNow(archive, now + 7);
  expect(readLostWindows(archive.state.db)).toMatchObject(archive.readManifest().lost!);
  const awaited = archive.readManifest().lost!.filter((one) => one.symbol === symbol);
  expect(awaited[0]!.ticks).toBeGreaterThan(1);
  rmSync(at(archive, ticks0));
  const again = await repairNow(archive);
  expect(again.lost).toEqual([]);
  // The three rows that went are fewer than the lost windows of the part await.
  expect(again.unrecoverable).toEqual([]);
  expect(again.repaired).toEqual([expect.objectContaining({ outcome: 'removed', rows: 3, rows_lost: 3 })]);
});

test('a repair reports progress by day, and stops on abort without changes', async () => {
  const archive = await published();
  for (const day of [day0 + dayMs, day0]) rmSync(at(archive, toDayPath('ticks', day, 0)));
  const before = hashes(archive.layout.root, '{*,*/**/*.parquet}');
  const stop = new AbortController();
  const files = listManifestFiles(archive.readManifest()).length;
  let progress: [number, number][] = [];
  const onProgress = (done: number, total: number): void => {
    progress.push([done, total]);
    if (progress.length === files + 1) stop.abort(new Error('stopped'));
  };
  await expect(repairNow(archive, { onProgress, signal: stop.signal })).rejects.toThrow('stopped');
  expect(progress.slice(files)).toEqual([[1, 2]]);
  expect(hashes(archive.layout.root, '{*,*/**/*.parquet}')).toEqual(before);
  progress = [];
  await repairNow(archive, { onProgress });
  expect(progress.slice(files)).toEqual([
    [1, 2],
    [2, 2],
  ]);
});

test('reports files that are damaged again right after the repair', async () => {
  const archive = await published();
  const rename = (from: string, to: string): void => {
    archive.disk.rename(from, to);
    if (to.endsWith(ticks0)) writeFileSync(to, 'PAR1');
  };
  const failing = { ...archive, disk: { ...archive.disk, rename } };
  writeFileSync(at(archive, ticks0), 'more', { flag: 'a' });
  await expect(repairNow(failing)).rejects.toMatchObject({
    exitCode: 6,
    message: expect.stringMatching(/^ticks\/.*part-00\.parquet is damaged again right after the repair/),
  });
});
