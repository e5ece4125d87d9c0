import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { readPublishedCoverage } from '../../src/archive/journal/coverage-store.ts';
import { readLostWindows } from '../../src/archive/journal/gap-records.ts';
import { readSymbol } from '../../src/archive/journal/symbol-store.ts';
import { listGaps } from '../../src/archive/read/gaps.ts';
import { union } from '../../src/base/window.ts';
import { damagedLake, flip, repairNow, symbols } from './damaged.ts';
import { answer, append, day0, hashes, judged, now, publishedRows, publishedTicks, publishNow } from './scratch.ts';

const { lake: published, template } = damagedLake();
const ticks0 = toDayPath('ticks', day0, 0);

describe('a flipped bit in a row group of ticks', () => {
  test('loses only that row group and its coverage', async () => {
    expect(published().record(ticks0).groups.length).toBe(8);
    for (const i of [0, 2, 7]) {
      const { root, archive, record } = published();
      const { start, end, rows, first, last } = record(ticks0).groups[i]!;
      const before = publishedTicks(root);
      flip(join(root, ticks0), (start + end) >> 1);
      const repaired = await repairNow(archive);
      const remaining = publishedTicks(root);
      const at = remaining.findIndex((line, k) => line !== before[k]);
      const from = at < 0 ? remaining.length : at;
      expect([...before.slice(0, from), ...before.slice(from + rows)], `group ${i}`).toEqual(remaining);
      expect(before[from]).toMatch(`${first[0]} ${first[1]} `);
      expect(before[from + rows - 1]).toMatch(`${last[0]} ${last[1]} `);
      expect(repaired.lost.reduce((sum, w) => sum + w.ticks, 0)).toBe(rows);
      expect(readLostWindows(archive.state.db)).toMatchObject(repaired.lost);
      expect(archive.readManifest().lost).toEqual(repaired.lost);
      expectCounted(root, archive);
      for (const { symbol, from, to } of repaired.lost) {
        const covered = union(readPublishedCoverage(archive.state.db, symbol));
        expect(covered.some((w) => w.from < to && from < w.to)).toBe(false);
      }
      expect(repaired.repaired).toEqual([
        expect.objectContaining({ path: ticks0, outcome: 'salvaged', rows: 750, rows_lost: rows }),
      ]);
      expect((await verifyArchive(archive, null)).findings).toEqual([]);
      archive.close();
    }
  });

  test('leaves a working archive: fetching again restores the same bytes', async () => {
    const { root, archive, record } = published();
    flip(join(root, ticks0), record(ticks0).groups[2]!.start);
    const { lost } = await repairNow(archive);
    const lines = publishedTicks(template()).map((line) => line.split(' '));
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
    expect(hashes(root, kept)).toEqual(hashes(template(), kept));
    expect(readLostWindows(archive.state.db)).toEqual([]);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  });
});

/** The state's counts, those of coverage, and its mirror agree with what is published. */
function expectCounted(root: string, archive: Archive): void {
  const { db } = archive.state;
  const lines = publishedTicks(root).map((line) => line.split(' '));
  const rows = publishedRows(root, 'coverage');
  for (const symbol of symbols) {
    const times = lines.filter(([s]) => s === symbol).map(([, t]) => Number(t));
    expect(readSymbol(db, symbol)).toMatchObject({ ticks: times.length, firstTick: times[0], lastTick: times.at(-1) });
    const covered = rows.filter((row) => row[0] === 'ticks' && row[1] === symbol);
    for (const [, , from, to, ticks] of covered as [string, string, number, number, number][])
      expect(times.filter((t) => from <= t && t < to).length).toBe(ticks);
    expect(union(covered.map(([, , from, to]) => ({ from: from as number, to: to as number })))).toEqual(
      union(readPublishedCoverage(db, symbol)),
    );
  }
}

describe('a file without intact row groups', () => {
  test.each(['missing', 'empty', 'unknown'])(
    'is removed when it is %s: its coverage is taken back, its candles go',
    async (how) => {
      const { root, archive } = published();
      if (how === 'missing') rmSync(join(root, ticks0));
      else writeFileSync(join(root, ticks0), '');
      if (how === 'unknown') archive.state.db.run('delete from row_groups');
      const repaired = await repairNow(archive);
      expect(repaired.lost.reduce((sum, w) => sum + w.ticks, 0)).toBe(750);
      expect(repaired.repaired).toEqual([expect.objectContaining({ outcome: 'removed', rows: 750, rows_lost: 750 })]);
      for (const dataset of ['ticks', 'candles_1h', 'candles_1d'] as const)
        expect(existsSync(join(root, toDayPath(dataset, day0, 0)))).toBe(false);
      expectCounted(root, archive);
      expect((await verifyArchive(archive, null)).findings).toEqual([]);
    },
  );

  test('can be missing together with its folder', async () => {
    const { root, archive } = published();
    rmSync(join(root, 'ticks/date=2026-06-01'), { recursive: true });
    await repairNow(archive);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
    const day = archive.readManifest().days['2026-06-01'];
    expect(day).toMatchObject({ state: 'complete_with_exceptions', covered: 0, missing: symbols });
    // The first tick of each is gone too; the lost windows still show that they were live then.
    const { gaps } = listGaps(archive, { from: null, to: null, symbols: [] }, judged, now);
    expect(gaps.filter(({ reason }) => reason === 'lost').map(({ symbol }) => symbol)).toEqual(symbols);
  });

  test('or one replaced by a folder is removed, and the folder is quarantined', async () => {
    const { root, archive } = published();
    rmSync(join(root, ticks0));
    mkdirSync(join(root, ticks0));
    const repaired = await repairNow(archive);
    expect(repaired.repaired).toEqual([expect.objectContaining({ outcome: 'removed', kind: 'checksum mismatch' })]);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  });
});
