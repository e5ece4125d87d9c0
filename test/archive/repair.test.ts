import {
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
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import type { RepairReport } from '../../src/archive/integrity/repair.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import type { FileRecord } from '../../src/archive/parquet/row-group-index.ts';
import { damagedLake, flip, repairNow } from './damaged.ts';
import { day0, dayMs, hashes, publishedRows } from './scratch.ts';

const { lake, template } = damagedLake();
const ticks0 = toDayPath('ticks', day0, 0);
const published =
  '{ticks,candles_1h,candles_1d,orderbooks,quotes,quote_conflicts,trades,trade_conflicts,coverage,conflicts,markets,symbols}/**/*.parquet';
const roots = '{manifest.json,SHA256SUMS,README.md,views.sql}';

/** Expects no losses, the same generation and the same bytes. */
async function expectWhole(root: string, archive: Archive, repaired: RepairReport): Promise<void> {
  expect(repaired).toMatchObject({ generation: 1, lost: [], unrecoverable: [] });
  expect(hashes(root, published)).toEqual(hashes(template(), published));
  expect(hashes(root, roots)).toEqual(hashes(template(), roots));
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
}

describe('restores byte for byte', () => {
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
    ['a file without reader', (root) => swap(root, ticks0, toDayPath('ticks', day0 + dayMs, 0))],
    ['a file too many', (root) => writeFileSync(join(root, 'ticks/date=2026-06-01/copy.parquet'), 'PAR1')],
    ['a folder too many', (root) => mkdirSync(join(root, 'ticks/date=2026-06-01/sub'))],
    ['a damaged manifest', (root) => truncateSync(join(root, 'manifest.json'), 99)],
    ['no manifest', (root) => rmSync(join(root, 'manifest.json'))],
    [
      'a folder in the place of the manifest',
      (root) => {
        rmSync(join(root, 'manifest.json'));
        mkdirSync(join(root, 'manifest.json'));
      },
    ],
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

  test.each(spoilings)('%s', async (_, damage) => {
    const { root, archive, record } = lake();
    damage(root, record(ticks0));
    const before = globSync(`${published.replace('.parquet', '')}`, { cwd: root }).length;
    expect(before).toBeGreaterThan(5);
    const repaired = await repairNow(archive);
    expect(repaired.repaired.length).toBeGreaterThan(0);
    for (const { moved_to, kind } of repaired.repaired) {
      if (kind === 'missing') expect(moved_to).toBeNull();
      else expect(existsSync(join(root, moved_to!)), `${moved_to}`).toBe(true);
    }
    await expectWhole(root, archive, repaired);
    expect(globSync('ticks/**/*', { cwd: root }).length).toBe(globSync('ticks/**/*', { cwd: template() }).length);
    expect((await repairNow(archive)).repaired).toEqual([]);
  });

  test('a file that an earlier repair quarantined', async () => {
    const { root, archive } = lake();
    const quarantined = join(root, '.oddslake/damaged/7/found.parquet');
    mkdirSync(join(quarantined, '..'), { recursive: true });
    renameSync(join(root, ticks0), quarantined);
    await expectWhole(root, archive, await repairNow(archive));
  });

  test('candles and symbols, by rebuilding them', async () => {
    const { root, archive } = lake();
    for (const path of [toDayPath('candles_1h', day0, 0), toDayPath('candles_1d', day0, 0), 'symbols/part-00.parquet'])
      writeFileSync(join(root, path), 'PAR1');
    const repaired = await repairNow(archive);
    expect(repaired).toMatchObject({ generation: 2, lost: [], unrecoverable: [] });
    expect(repaired.repaired.map(({ outcome }) => outcome)).toEqual(['rebuilt', 'rebuilt', 'rebuilt']);
    expect(hashes(root, published)).toEqual(hashes(template(), published));
  });

  test('coverage of ticks, from the state', async () => {
    const { root, archive } = lake();
    rmSync(join(root, toDayPath('coverage', day0, 0)));
    const before = publishedRows(template(), 'coverage');
    const repaired = await repairNow(archive);
    const isOfOthers = (row: readonly unknown[]): boolean => row[0] !== 'ticks' && (row[2] as number) < day0 + dayMs;
    expect(publishedRows(root, 'coverage')).toEqual(before.filter((row) => !isOfOthers(row)));
    expect(repaired).toMatchObject({ generation: 2, lost: [] });
    const others = before.filter(isOfOthers);
    expect(repaired.unrecoverable).toEqual([expect.objectContaining({ dataset: 'coverage', rows: others.length })]);
    expect(new Set(others.map(([dataset]) => dataset))).toEqual(new Set(['orderbooks', 'quotes', 'trades']));
    expect(hashes(root, 'candles*/**/*.parquet')).toEqual(hashes(template(), 'candles*/**/*.parquet'));
  });
});

const swap = (root: string, a: string, b: string): void => {
  renameSync(join(root, a), join(root, 'swapped'));
  renameSync(join(root, b), join(root, a));
  renameSync(join(root, 'swapped'), join(root, b));
};
