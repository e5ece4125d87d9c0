import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { datasets } from '../../src/archive/format/datasets.ts';
import { parsePartNumber, toDayPath } from '../../src/archive/format/layout.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { countJournaledTicks } from '../../src/archive/journal/journal-rows.ts';
import { decodeRows } from '../../src/archive/parquet/rows.ts';
import { publish } from '../../src/archive/publish/publish.ts';
import { computePartNumber } from '../../src/base/symbol-name.ts';
import { flip, repairNow } from './damaged.ts';
import { turnedBack } from './older.ts';
import {
  answer,
  append,
  clockAt,
  day0,
  dayMs,
  hashes,
  judged,
  now,
  opened,
  publishedRows,
  publishedTicks,
  publishNow,
} from './scratch.ts';

// Coverage and conflicts by part. The symbols of these tests lie in different parts.

const parts = 4;
const symbols = Array.from(
  { length: parts },
  (_, part) =>
    Array.from({ length: 40 }, (__, n) => `S${n}`).find((symbol) => computePartNumber(symbol, parts) === part)!,
);
const day = { from: day0, to: day0 + dayMs };
/** A response with two ticks at most, whose first one contradicts an earlier response with another `p`. */
const polled = (symbol: string, p: number, observedAt: number) =>
  answer(symbol, [[day0 + 1, p]], { windows: [day], observedAt });

/** Every symbol has coverage of a day and one conflict. */
async function published(): Promise<Archive> {
  const archive = opened();
  append(archive, ...symbols.map((symbol) => polled(symbol, 0.4, now)));
  append(archive, ...symbols.map((symbol) => polled(symbol, 0.5, now + 1)));
  await publishNow(archive);
  return archive;
}

const tables = '{coverage,conflicts}/**/*.parquet';
/** The rows of coverage or conflicts, in an order that does not depend on the files. */
const rowsOf = (archive: Archive, name: 'coverage' | 'conflicts'): string[] =>
  publishedRows(archive.layout.root, name)
    .map((row) => JSON.stringify(row))
    .sort();

const upgrade = (archive: Archive) =>
  publish(archive, {
    runId: 'upgrade',
    clock: clockAt(now),
    waitMs: 0,
    ...judged,
    upgrades: true,
    candles: ['1h', '1d'],
  });

/** The archive of `published` in format 3, opened. */
async function older(): Promise<Archive> {
  const first = await published();
  first.close();
  turnedBack(first.layout.root, 3);
  return opened({ root: first.layout.root, create: false, mends: true });
}

function damage(path: string): Buffer {
  const bytes = readFileSync(path);
  flip(path, bytes.length >> 1);
  return bytes;
}

/** Each row is in the file of its symbol's part. */
function expectSplit({ layout: { root } }: Archive): void {
  for (const name of ['coverage', 'conflicts'] as const) {
    const at = datasets[name].columns.findIndex((column) => column.name === 'symbol');
    const paths = globSync(`${name}/**/*.parquet`, { cwd: root });
    expect(paths).toHaveLength(parts);
    for (const path of paths)
      for (const row of decodeRows(datasets[name].columns, readFileSync(join(root, path))))
        expect(computePartNumber(row[at] as string, parts)).toBe(parsePartNumber(path));
  }
}

describe('a publish', () => {
  test('writes a file of coverage and of conflicts for each part, and changes only those of its parts', async () => {
    const archive = await published();
    expectSplit(archive);
    const before = hashes(archive.layout.root, tables);
    append(archive, polled(symbols[2]!, 0.6, now + 2));
    const { manifest } = await publishNow(archive);
    const after = hashes(archive.layout.root, tables);
    const changed = Object.keys(after).filter((path) => after[path] !== before[path]);
    expect(changed).toEqual([toDayPath('conflicts', day0, 2), toDayPath('coverage', day0, 2)]);
    for (const { path, generation } of [...manifest.datasets.coverage.files, ...manifest.datasets.conflicts.files])
      expect(generation, path).toBe(changed.includes(path) ? 2 : 1);
  });

  test.each(['coverage', 'conflicts'] as const)(
    'is not held up in other parts by damaged %s, and keeps the input of the damaged one',
    async (name) => {
      const archive = await published();
      const path = toDayPath(name, day0, 1);
      const bytes = damage(join(archive.layout.root, path));
      append(archive, ...symbols.map((symbol) => answer(symbol, [[day0 + 2, 0.7]])));
      const { refused } = await publishNow(archive);
      expect(refused).toEqual([expect.stringContaining(path)]);
      expect(countJournaledTicks(archive.state.db)).toBe(1);
      expect(publishedTicks(archive.layout.root).filter((tick) => tick.endsWith(' 0.7'))).toHaveLength(parts - 1);
      writeFileSync(join(archive.layout.root, path), bytes);
      await publishNow(archive);
      expect(publishedTicks(archive.layout.root).filter((tick) => tick.endsWith(' 0.7'))).toHaveLength(parts);
      expect((await verifyArchive(archive, null)).findings).toEqual([]);
    },
  );
});

describe('an upgrade', () => {
  test('splits the files, and every row is in one of them', async () => {
    const archive = await older();
    expect(Object.keys(hashes(archive.layout.root, tables))).toEqual([
      toDayPath('conflicts', day0, 0),
      toDayPath('coverage', day0, 0),
    ]);
    const before = { coverage: rowsOf(archive, 'coverage'), conflicts: rowsOf(archive, 'conflicts') };
    expect([before.coverage.length, before.conflicts.length]).toEqual([parts, parts]);
    expect((await upgrade(archive)).refused).toEqual([]);
    expectSplit(archive);
    expect(rowsOf(archive, 'coverage')).toEqual(before.coverage);
    expect(rowsOf(archive, 'conflicts').length).toBe(parts);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  });

  test('keeps an empty file of part 0 if it has no rows of its own', async () => {
    const first = opened();
    append(first, polled(symbols[3]!, 0.4, now));
    await publishNow(first);
    first.close();
    turnedBack(first.layout.root, 3);
    const archive = opened({ root: first.layout.root, create: false });
    await upgrade(archive);
    expect(archive.readManifest().datasets.coverage.files.map(({ path, rows }) => [path, rows])).toEqual([
      [toDayPath('coverage', day0, 0), 0],
      [toDayPath('coverage', day0, 3), 1],
    ]);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  });

  test('of a damaged file is made up by a repair, together with what was published since', async () => {
    const undamaged = await older();
    await upgrade(undamaged);
    const archive = await older();
    const { root } = archive.layout;
    damage(join(root, toDayPath('coverage', day0, 0)));
    expect((await upgrade(archive)).refused).toHaveLength(1);
    for (const one of [undamaged, archive]) {
      append(one, answer(symbols[2]!, [[day0 + dayMs - 1, 0.3]], { windows: [], observedAt: now + 3 }));
      await publishNow(one);
    }
    const { unrecoverable } = await repairNow(archive);
    expect(unrecoverable.filter(({ dataset }) => dataset !== 'coverage')).toEqual([]);
    const spans = (of: Archive): string[] =>
      publishedRows(of.layout.root, 'coverage')
        .map(([dataset, symbol, from, to, ticks]) => `${dataset} ${symbol} ${from} ${to} ${ticks}`)
        .sort();
    expect(spans(archive)).toEqual(spans(undamaged));
    const verified = await verifyArchive(archive, null);
    expect([verified.findings, verified.state]).toEqual([[], null]);
  });

  test.each(['restored', 'repaired'])(
    'of damaged conflicts that are %s later keeps those published since',
    async (how) => {
      const archive = await older();
      const { root } = archive.layout;
      const path = join(root, toDayPath('conflicts', day0, 0));
      const before = rowsOf(archive, 'conflicts').length;
      const bytes = damage(path);
      expect((await upgrade(archive)).refused).toHaveLength(1);
      append(archive, polled(symbols[2]!, 0.6, now + 2));
      await publishNow(archive);
      if (how === 'restored') {
        writeFileSync(path, bytes);
        expect((await upgrade(archive)).refused).toEqual([]);
        expect(rowsOf(archive, 'conflicts')).toHaveLength(before + 1);
        expectSplit(archive);
      } else {
        await repairNow(archive);
        expect(rowsOf(archive, 'conflicts').length).toBeGreaterThanOrEqual(1);
      }
      expect((await verifyArchive(archive, null)).findings).toEqual([]);
    },
  );
});
