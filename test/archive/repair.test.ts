import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { dayPath } from '../../src/archive/layout.ts';
import { allFiles, type PublishedFile } from '../../src/archive/manifest.ts';
import type { Repaired } from '../../src/archive/repair/repair-report.ts';
import { verify } from '../../src/archive/verify/verify.ts';
import { union } from '../../src/core/window.ts';
import { listGaps } from '../../src/reading/gaps.ts';
import { segmentsOf } from '../../src/state/coverage.ts';
import { lostWindows } from '../../src/state/lost.ts';
import { type FileRecord, rowGroupsOf } from '../../src/state/row-groups.ts';
import { oneSymbol } from '../../src/state/symbols.ts';
import { filledArchive, repairNow, symbols } from './damaged.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hashes,
  now,
  opened,
  publishedRows,
  publishedTicks,
  publishNow,
  scratchFolder,
} from './scratch.ts';

// Many repairs: a machine that is busy with other things takes its time.
vi.setConfig({ testTimeout: 60_000 });

let template: string;
beforeAll(async () => {
  template = await filledArchive();
  return () => rmSync(template, { recursive: true, force: true });
});

/** A copy of the archive of two days, five symbols, one part and many row groups. */
function lake(): {
  root: string;
  archive: Archive;
  record: (path: string) => FileRecord;
  file: (path: string) => PublishedFile;
} {
  const root = scratchFolder();
  cpSync(template, root, { recursive: true });
  const archive = opened({ root, groupRows: 100, mends: true });
  const file = (path: string): PublishedFile => allFiles(archive.manifest()).find((one) => one.path === path)!;
  return { root, archive, file, record: (path) => rowGroupsOf(archive.state.db, path, file(path).sha256)! };
}

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at]! ^= 4;
  writeFileSync(path, bytes);
}

const ticks0 = dayPath('ticks', day0, 0);
const published = '{ticks,candles_1h,candles_1d,orderbooks,coverage,conflicts,markets,symbols}/**/*.parquet';
const roots = '{manifest.json,SHA256SUMS,README.md,views.sql}';

/** Nothing is lost, the generation stays, and every byte is as it was. */
async function expectWhole(root: string, archive: Archive, repaired: Repaired): Promise<void> {
  expect(repaired).toMatchObject({ generation: 1, lost: [], gone: [] });
  expect(hashes(root, published)).toEqual(hashes(template, published));
  expect(hashes(root, roots)).toEqual(hashes(template, roots));
  expect((await verify(archive, null)).findings).toEqual([]);
}

describe('what is put back to the byte', () => {
  const spoilings: [string, (root: string, record: FileRecord) => void][] = [
    ['a flipped bit in the magic', (root) => flip(join(root, ticks0), 1)],
    ['a flipped bit in the footer', (root, { groups }) => flip(join(root, ticks0), groups.at(-1)!.end + 40)],
    ['a flipped bit in the last byte', (root) => flip(join(root, ticks0), readFileSync(join(root, ticks0)).length - 1)],
    ['a cut footer', (root, { groups }) => truncateSync(join(root, ticks0), groups.at(-1)!.end)],
    ['bytes at the end', (root) => writeFileSync(join(root, ticks0), 'more', { flag: 'a' })],
    [
      'bytes at the beginning',
      (root) => writeFileSync(join(root, ticks0), Buffer.concat([Buffer.from('x'), readFileSync(join(root, ticks0))])),
    ],
    ['a part under another name', (root) => renameSync(join(root, ticks0), join(root, 'ticks/x.parquet'))],
    ['a file without reader', (root) => swap(root, ticks0, dayPath('ticks', day0 + dayMs, 0))],
    ['a file too many', (root) => writeFileSync(join(root, 'ticks/date=2026-06-01/copy.parquet'), 'PAR1')],
    ['a folder too many', (root) => mkdirSync(join(root, 'ticks/date=2026-06-01/sub'))],
    ['a damaged manifest', (root) => truncateSync(join(root, 'manifest.json'), 99)],
    ['no manifest', (root) => rmSync(join(root, 'manifest.json'))],
    ['no SHA256SUMS', (root) => rmSync(join(root, 'SHA256SUMS'))],
    ['another README.md', (root) => writeFileSync(join(root, 'README.md'), 'mine')],
    ['a flipped bit in views.sql', (root) => flip(join(root, 'views.sql'), 300)],
    [
      'all of that in one file and the manifest',
      (root) => {
        flip(join(root, ticks0), 1);
        flip(join(root, 'manifest.json'), 200);
        rmSync(join(root, 'views.sql'));
      },
    ],
  ];

  test.each(spoilings)('%s', async (_, spoil) => {
    const { root, archive, record } = lake();
    spoil(root, record(ticks0));
    const before = globSync(`${published.replace('.parquet', '')}`, { cwd: root }).length;
    expect(before).toBeGreaterThan(5);
    const repaired = await repairNow(archive);
    expect(repaired.mended.length).toBeGreaterThan(0);
    for (const { setAside, what } of repaired.mended) {
      if (what === 'missing') expect(setAside).toBeNull();
      else expect(existsSync(join(root, setAside!)), `${setAside}`).toBe(true);
    }
    await expectWhole(root, archive, repaired);
    expect(globSync('ticks/**/*', { cwd: root }).length).toBe(globSync('ticks/**/*', { cwd: template }).length);
    expect((await repairNow(archive)).mended).toEqual([]);
  });

  test('a file that an earlier repair set aside, once its bytes are there again', async () => {
    const { root, archive } = lake();
    const aside = join(root, '.oddslake/damaged/7/found.parquet');
    mkdirSync(join(aside, '..'), { recursive: true });
    renameSync(join(root, ticks0), aside);
    await expectWhole(root, archive, await repairNow(archive));
  });

  test('candles and symbols, which are made anew', async () => {
    const { root, archive } = lake();
    for (const path of [dayPath('candles_1h', day0, 0), dayPath('candles_1d', day0, 0), 'symbols/part-00.parquet'])
      writeFileSync(join(root, path), 'PAR1');
    const repaired = await repairNow(archive);
    expect(repaired).toMatchObject({ generation: 2, lost: [], gone: [] });
    expect(repaired.mended.map(({ outcome }) => outcome)).toEqual(['made anew', 'made anew', 'made anew']);
    expect(hashes(root, published)).toEqual(hashes(template, published));
  });

  test('coverage of ticks, which the state knows', async () => {
    const { root, archive } = lake();
    rmSync(join(root, dayPath('coverage', day0, 0)));
    const before = publishedRows(template, 'coverage');
    const repaired = await repairNow(archive);
    const isOfBooks = (row: readonly unknown[]): boolean =>
      row[0] === 'orderbooks' && (row[2] as number) < day0 + dayMs;
    expect(publishedRows(root, 'coverage')).toEqual(before.filter((row) => !isOfBooks(row)));
    expect(repaired).toMatchObject({ generation: 2, lost: [] });
    const books = before.filter(isOfBooks).length;
    expect(repaired.gone).toEqual([expect.objectContaining({ dataset: 'coverage', rows: books })]);
    expect(books).toBeGreaterThan(0);
    expect(hashes(root, 'candles*/**/*.parquet')).toEqual(hashes(template, 'candles*/**/*.parquet'));
  });
});

const swap = (root: string, a: string, b: string): void => {
  renameSync(join(root, a), join(root, 'swapped'));
  renameSync(join(root, b), join(root, a));
  renameSync(join(root, 'swapped'), join(root, b));
};

describe('a flipped bit in a row group of ticks', () => {
  test('costs that row group and nothing else, and its coverage', async () => {
    expect(lake().record(ticks0).groups.length).toBe(8);
    for (const i of [0, 2, 7]) {
      const { root, archive, record } = lake();
      const { start, end, rows, first, last } = record(ticks0).groups[i]!;
      const before = publishedTicks(root);
      flip(join(root, ticks0), (start + end) >> 1);
      const repaired = await repairNow(archive);
      const left = publishedTicks(root);
      const at = left.findIndex((line, k) => line !== before[k]);
      const from = at < 0 ? left.length : at;
      expect([...before.slice(0, from), ...before.slice(from + rows)], `group ${i}`).toEqual(left);
      expect(before[from]).toMatch(`${first[0]} ${first[1]} `);
      expect(before[from + rows - 1]).toMatch(`${last[0]} ${last[1]} `);
      expect(repaired.lost.reduce((sum, w) => sum + w.ticks, 0)).toBe(rows);
      expect(lostWindows(archive.state.db)).toMatchObject(repaired.lost);
      expect(archive.manifest().lost).toEqual(repaired.lost);
      expectCounted(root, archive);
      for (const { symbol, from, to } of repaired.lost) {
        const covered = union(segmentsOf(archive.state.db, symbol));
        expect(covered.some((w) => w.from < to && from < w.to)).toBe(false);
      }
      expect(repaired.mended).toEqual([
        expect.objectContaining({ path: ticks0, outcome: 'kept in part', rows: 750, rowsLost: rows }),
      ]);
      expect((await verify(archive, null)).findings).toEqual([]);
      archive.close();
    }
  });

  test('leaves an archive that goes on: what is fetched again makes the bytes that were there', async () => {
    const { root, archive, record } = lake();
    flip(join(root, ticks0), record(ticks0).groups[2]!.start);
    const { lost } = await repairNow(archive);
    const lines = publishedTicks(template).map((line) => line.split(' '));
    for (const { symbol, from, to } of lost) {
      const pairs = lines.filter(([s, t]) => s === symbol && from <= Number(t) && Number(t) < to);
      append(
        archive,
        answer(
          symbol,
          pairs.map(([, t, p]) => [Number(t), Number(p)] as const),
          { windows: [{ from, to }] },
        ),
      );
    }
    await publishNow(archive, now + 9);
    const kept = '{ticks,candles_1h,candles_1d,coverage,symbols}/**/*.parquet';
    expect(hashes(root, kept)).toEqual(hashes(template, kept));
    expect(lostWindows(archive.state.db)).toEqual([]);
    expect((await verify(archive, null)).findings).toEqual([]);
  });
});

/** The state's counts, those of coverage, and its mirror agree with what is published. */
function expectCounted(root: string, archive: Archive): void {
  const { db } = archive.state;
  const lines = publishedTicks(root).map((line) => line.split(' '));
  const rows = publishedRows(root, 'coverage');
  for (const symbol of symbols) {
    const times = lines.filter(([s]) => s === symbol).map(([, t]) => Number(t));
    expect(oneSymbol(db, symbol)).toMatchObject({ ticks: times.length, firstTick: times[0], lastTick: times.at(-1) });
    const covered = rows.filter((row) => row[0] === 'ticks' && row[1] === symbol);
    for (const [, , from, to, ticks] of covered as [string, string, number, number, number][])
      expect(times.filter((t) => from <= t && t < to).length).toBe(ticks);
    expect(union(covered.map(([, , from, to]) => ({ from: from as number, to: to as number })))).toEqual(
      union(segmentsOf(db, symbol)),
    );
  }
}

describe('a file of which nothing is left', () => {
  test.each(['missing', 'empty', 'unknown'])(
    'is removed when it is %s: its coverage is taken back, its candles go',
    async (how) => {
      const { root, archive } = lake();
      if (how === 'missing') rmSync(join(root, ticks0));
      else writeFileSync(join(root, ticks0), '');
      if (how === 'unknown') archive.state.db.run('delete from row_groups');
      const repaired = await repairNow(archive);
      expect(repaired.lost.reduce((sum, w) => sum + w.ticks, 0)).toBe(750);
      expect(repaired.mended).toEqual([expect.objectContaining({ outcome: 'removed', rows: 750, rowsLost: 750 })]);
      for (const dataset of ['ticks', 'candles_1h', 'candles_1d'] as const)
        expect(existsSync(join(root, dayPath(dataset, day0, 0)))).toBe(false);
      expectCounted(root, archive);
      expect((await verify(archive, null)).findings).toEqual([]);
    },
  );

  test('goes with its folder where that is gone, too', async () => {
    const { root, archive } = lake();
    rmSync(join(root, 'ticks/date=2026-06-01'), { recursive: true });
    await repairNow(archive);
    expect((await verify(archive, null)).findings).toEqual([]);
    expect(archive.manifest().days['2026-06-01']).toMatchObject({ complete: false, covered: 0, missing: symbols });
    // The first tick of each is gone, too: that they lived then is told by what is lost.
    const { gaps } = listGaps(archive, { from: null, to: null, symbols: [] }, now);
    expect(gaps.filter(({ reason }) => reason === 'lost').map(({ symbol }) => symbol)).toEqual(symbols);
  });

  test('or not enough of it to read gives way to what the folder in its place is set aside for', async () => {
    const { root, archive } = lake();
    rmSync(join(root, ticks0));
    mkdirSync(join(root, ticks0));
    const repaired = await repairNow(archive);
    expect(repaired.mended).toEqual([expect.objectContaining({ outcome: 'removed', what: 'differs' })]);
    expect((await verify(archive, null)).findings).toEqual([]);
  });
});

describe('what cannot be asked for again', () => {
  test.each(['markets', 'conflicts'] as const)('of %s is named, and the rest is kept', async (dataset) => {
    const { root, archive, record } = lake();
    const path = allFiles(archive.manifest()).find((file) => file.path.startsWith(`${dataset}/`))!.path;
    const before = publishedRows(root, dataset);
    const group = record(path).groups[0]!;
    expect(record(path).groups.length).toBeGreaterThan(1);
    flip(join(root, path), group.start + 9);
    const repaired = await repairNow(archive);
    expect(publishedRows(root, dataset)).toEqual(before.slice(group.rows));
    expect(repaired.gone).toEqual([{ dataset, path, rows: group.rows, first: group.first, last: group.last }]);
    expect((await verify(archive, null)).findings).toEqual([]);
  });

  test('of order books is whole snapshots, with the coverage of the answers that brought them', async () => {
    const { root, archive, record } = lake();
    const path = dayPath('orderbooks', day0, 0);
    const { groups } = record(path);
    expect(groups.length).toBeGreaterThan(2);
    flip(join(root, path), groups[1]!.start + 9);
    const before = publishedRows(root, 'orderbooks') as [string, number, string, number, number, number][];
    const [from, to] = [groups[0]!.rows, groups[0]!.rows + groups[1]!.rows];
    const keyOf = ([symbol, t]: readonly unknown[]): string => `${symbol} ${t}`;
    const touched = new Set(before.slice(from, to).map(keyOf));
    const repaired = await repairNow(archive);
    const left = publishedRows(root, 'orderbooks');
    expect(left).toEqual(before.filter((row) => !touched.has(keyOf(row))));
    expect(before.length - left.length).toBeGreaterThan(groups[1]!.rows);
    expect(repaired.gone).toEqual([
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
    expect((await verify(archive, null)).findings).toEqual([]);
  });

  test('are rows of ticks that no answer covers', async () => {
    const { root, archive } = lake();
    append(archive, answer('XXX', [[day0 + 7, 0.5]], { windows: [] }));
    await publishNow(archive, now + 1);
    rmSync(join(root, ticks0));
    const { gone } = await repairNow(archive);
    expect(gone).toEqual([expect.objectContaining({ dataset: 'ticks', path: ticks0, rows: 1 })]);
    expect(oneSymbol(archive.state.db, 'XXX')).toMatchObject({ ticks: 0, firstTick: null, lastTick: null });
    expect((await verify(archive, null)).findings).toEqual([]);
  });
});
