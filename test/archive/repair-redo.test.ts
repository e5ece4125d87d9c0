import { createHash } from 'node:crypto';
import { cpSync, globSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { takeWriteLock } from '../../src/archive/journal/lock.ts';
import { readRowGroups } from '../../src/archive/journal/published-files.ts';
import { filledArchive, flip, groupRows, repairNow } from './damaged.ts';
import { dyingDisk, PowerCut } from './dying-disk.ts';
import { answer, append, clockAt, day0, dayMs, hashes, now, opened, publishNow, scratchFolder } from './scratch.ts';

const everything =
  '{ticks,candles_1h,candles_1d,orderbooks,quotes,quote_conflicts,coverage,conflicts,markets,symbols}/**/*.parquet';
const roots = '{manifest.json,SHA256SUMS,README.md,views.sql}';
const aside = '.oddslake/damaged/**/*';

/** Damages a file of every kind. Returns the hashes of the damaged files, which must all be kept. */
function spoil(root: string): string[] {
  const archive = opened({ root, groupRows });
  const startOf = (path: string, group: number): number => {
    const { sha256 } = listManifestFiles(archive.readManifest()).find((file) => file.path === path)!;
    return readRowGroups(archive.state.db, path, sha256)!.groups[group]!.start;
  };
  const markets = globSync('markets/**/*.parquet', { cwd: root })[0]!;
  const quotes = toDayPath('quotes', day0, 0);
  const [lossy, footer, unrecoverable, stray] = [
    toDayPath('ticks', day0, 0),
    toDayPath('ticks', day0 + dayMs, 0),
    toDayPath('orderbooks', day0, 0),
    'ticks/date=2026-06-01/part-07.parquet',
  ];
  flip(join(root, lossy), startOf(lossy, 2) + 9);
  flip(join(root, footer), statSync(join(root, footer)).size - 9);
  flip(join(root, markets), startOf(markets, 0) + 9);
  flip(join(root, quotes), startOf(quotes, 1) + 9);
  writeFileSync(join(root, unrecoverable), '');
  rmSync(join(root, toDayPath('candles_1h', day0, 0)));
  writeFileSync(join(root, stray), 'PAR1');
  flip(join(root, 'SHA256SUMS'), 3);
  flip(join(root, 'manifest.json'), 300);
  archive.close();
  const paths = [lossy, footer, markets, quotes, unrecoverable, stray, 'SHA256SUMS', 'manifest.json'];
  return paths.map((path) =>
    createHash('sha256')
      .update(readFileSync(join(root, path)))
      .digest('hex'),
  );
}

const outcome = (root: string, archive: Archive) => ({
  files: hashes(root, everything),
  roots: hashes(root, roots),
  coverage: archive.state.db.all('select * from coverage'),
  lost: archive.state.db.all('select * from lost'),
  symbols: archive.state.db.all('select symbol, ticks, first_tick, last_tick from symbols'),
  records: archive.state.db.all('select path, sha256 from row_groups'),
});

test('the next repair finishes an interrupted one without further losses', async () => {
  const before = await filledArchive();
  try {
    const damaged = spoil(before);
    const calm = scratchFolder();
    cpSync(before, calm, { recursive: true });
    const intactDisk = dyingDisk(Number.POSITIVE_INFINITY);
    const undisturbed = opened({ root: calm, disk: intactDisk, groupRows, mends: true });
    const repaired = await repairNow(undisturbed);
    expect(repaired.repaired.length).toBe(9);
    const expected = outcome(calm, undisturbed);
    expect(new Set(Object.values(hashes(calm, aside)))).toEqual(new Set(damaged));
    const changes = intactDisk.made();
    expect(changes).toBeGreaterThan(60);
    let rolledBack = 0;
    for (let n = 2; n < changes; n += 13) {
      const root = scratchFolder();
      cpSync(before, root, { recursive: true });
      const dying = opened({ root, disk: dyingDisk(n), groupRows, mends: true });
      await expect(repairNow(dying), `change ${n}`).rejects.toThrow(PowerCut);
      dying.close();
      const archive = opened({ root, disk: systemDisk, groupRows, mends: true });
      if (archive.state.generation() === 1) rolledBack++;
      await repairNow(archive);
      expect(outcome(root, archive), `change ${n}`).toEqual(expected);
      const kept = new Set(Object.values(hashes(root, aside)));
      expect(kept, `change ${n}`).toEqual(new Set(damaged));
      expect((await verifyArchive(archive, null)).findings, `change ${n}`).toEqual([]);
      archive.close();
    }
    expect(rolledBack).toBeGreaterThan(3);
  } finally {
    rmSync(before, { recursive: true, force: true });
  }
});

test('a repair or publish that is locked out says what became of the damage or the ticks', async () => {
  const archive = opened();
  const lock = await takeWriteLock(archive.layout.lockPath, 0, clockAt(now));
  await expect(repairNow(archive)).rejects.toMatchObject({
    exitCode: 5,
    message: expect.stringMatching(
      /^Another run is still writing .* Damaged files are unchanged; run oddslake verify --repair again/,
    ),
  });
  append(archive, answer('AAA', [[day0, 0.5]]));
  const journaled = /^Another run is still writing .* journal.*next publish/;
  await expect(publishNow(archive)).rejects.toThrow(journaled);
  lock.release();
});

test('a verification during a repair reports only what was damaged', async () => {
  const root = await filledArchive();
  try {
    const text = readFileSync(join(root, 'manifest.json'));
    spoil(root);
    writeFileSync(join(root, 'manifest.json'), text);
    const looking = opened({ root, groupRows });
    const damaged = (await verifyArchive(looking, null)).findings.map(({ path }) => path);
    expect(damaged.length).toBe(8);
    // With so few files all are checked before it returns.
    const looks: ReturnType<typeof verifyArchive>[] = [];
    const after =
      <A extends unknown[]>(work: (...args: A) => void) =>
      (...args: A): void => {
        work(...args);
        looks.push(verifyArchive(looking, null));
      };
    const { write, rename, link, remove } = systemDisk;
    const watched = { write: after(write), rename: after(rename), link: after(link), remove: after(remove) };
    await repairNow(opened({ root, disk: { ...systemDisk, ...watched }, groupRows }));
    expect(looks.length).toBeGreaterThan(30);
    for (const { findings, state } of await Promise.all(looks)) {
      expect(findings.map(({ path }) => path).filter((path) => !damaged.includes(path))).toEqual([]);
      expect(state).toBeNull();
    }
    expect((await verifyArchive(looking, null)).findings).toEqual([]);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
});
