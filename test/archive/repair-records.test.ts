import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { triageFindings } from '../../src/archive/integrity/triage.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { readLostWindows } from '../../src/archive/journal/gap-records.ts';
import { takeWriteLock } from '../../src/archive/journal/lock.ts';
import { systemClock } from '../../src/base/system.ts';
import { formatDay } from '../../src/base/time.ts';
import { damagedLake, flip, groupRows, repairNow } from './damaged.ts';
import { answer, append, day0, dayMs, hashes, now, opened, publishedTicks, publishNow } from './scratch.ts';

const { lake: published, template } = damagedLake();
const ticks0 = toDayPath('ticks', day0, 0);
const records = (archive: Archive) => archive.state.db.all('select * from row_groups');
const parts = (archive: Archive) => archive.state.db.all('select * from manifest_parts order by sha256');

describe('verify', () => {
  test('records row groups and the manifest as a publish does', async () => {
    const { archive } = published();
    const [noted, text] = [records(archive), parts(archive)];
    expect(noted.length).toBe(Object.keys(hashes(archive.layout.root, '*/**/*.parquet')).length);
    expect(text.length).toBeGreaterThan(1);
    archive.state.db.script("delete from row_groups; delete from meta where key = 'manifest_parts'");
    archive.state.db.run('insert into row_groups values (?, ?, ?, ?)', 'ticks/gone', 'x', new Uint8Array(1), '[]');
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
    expect(records(archive)).toEqual(noted);
    expect(parts(archive)).toEqual(text);
    // Readable, but not what its name says.
    archive.state.db.run(
      "update manifest_parts set text = '' where sha256 = ?",
      (text[0] as { sha256: string }).sha256,
    );
    await verifyArchive(archive, null);
    expect(parts(archive)).toEqual(text);
  });

  test('records nothing for a damaged file', async () => {
    const { root, archive } = published();
    archive.state.db.run('delete from row_groups');
    flip(join(root, ticks0), 99);
    await verifyArchive(archive, null);
    expect(archive.state.db.one('select 1 from row_groups where path = ?', ticks0)).toBeUndefined();
  });
});

describe('a repair', () => {
  test('keeps what a verification found intact after the state was lost', async () => {
    const { root, archive } = published();
    archive.close();
    rmSync(join(root, '.oddslake'), { recursive: true });
    const rebuilt = opened({ root, groupRows, mends: true });
    await verifyArchive(rebuilt, null);
    flip(join(root, ticks0), readFileSync(join(root, ticks0)).length - 20);
    expect(await repairNow(rebuilt)).toMatchObject({ generation: 1, lost: [] });
    expect(hashes(root, 'ticks/**/*.parquet')).toEqual(hashes(template(), 'ticks/**/*.parquet'));
  });

  test('does not change an archive that was restored from a backup next to a newer state', async () => {
    const { root, archive } = published();
    append(archive, answer('AAA', [[day0 + dayMs + 7, 0.5]], { observedAt: now + 1 }));
    await publishNow(archive, now + 1);
    for (const name of ['ticks', 'manifest.json', 'SHA256SUMS', 'coverage'])
      cpSync(join(template(), name), join(root, name), { recursive: true });
    const before = hashes(root, '{*,*/**/*.parquet}');
    await expect(repairNow(archive)).rejects.toMatchObject({
      exitCode: 6,
      message: expect.stringContaining('restored from a backup'),
    });
    expect(hashes(root, '{*,*/**/*.parquet}')).toEqual(before);
  });

  test('says what to do if no copy of manifest.json is known', async () => {
    const { root, archive } = published();
    archive.state.db.run("delete from meta where key = 'manifest_parts'");
    writeFileSync(join(root, 'manifest.json'), '{}');
    const message = expect.stringMatching(/is not the one .* the state database has no copy of it.* from a backup/);
    await expect(repairNow(archive)).rejects.toMatchObject({ exitCode: 6, message });
    rmSync(join(root, 'manifest.json'));
    const reported = expect.stringMatching(
      /manifest.json is missing, and the state database has no copy of it.* from a backup/,
    );
    await expect(repairNow(archive)).rejects.toMatchObject({ exitCode: 6, message: reported });
  });

  test('says the same if the copy in the state has another hash', async () => {
    const { root, archive } = published();
    archive.state.db.run("update manifest_parts set text = '{}'");
    rmSync(join(root, 'manifest.json'));
    const message = expect.stringContaining('the state database has no copy of it');
    await expect(repairNow(archive)).rejects.toMatchObject({ exitCode: 6, message });
  });

  test.each<[string, (text: string) => string]>([
    ['with another hash', (text) => text.replace(/("sha256": ")[0-9a-f]{64}/, `$1${'0'.repeat(64)}`)],
    ['with a file that is not there', (text) => text.replace('"path": "ticks/', '"path": "ticks/none/')],
    ['with a folder for a file', (text) => text.replace(/"path": "ticks\/[^"]*"/, '"path": "ticks"')],
    ['with another writer', (text) => text.replace('oddslake test', 'oddslake text')],
  ])('puts a manifest back that was changed, though it can be read: one %s', async (_, change) => {
    const { root, archive } = published();
    const at = join(root, 'manifest.json');
    const text = readFileSync(at, 'utf8');
    expect(change(text)).not.toBe(text);
    writeFileSync(at, change(text));
    const done: string[] = [];
    const rename = (from: string, to: string): void => {
      done.push(to);
      archive.disk.rename(from, to);
    };
    const syncFolder = (path: string): void => {
      done.push(path);
      archive.disk.syncFolder(path);
    };
    const { repaired } = await repairNow({ ...archive, disk: { ...archive.disk, rename, syncFolder } });
    expect(repaired).toEqual([
      expect.objectContaining({ path: 'manifest.json', kind: 'checksum mismatch', outcome: 'restored' }),
    ]);
    expect(readFileSync(at, 'utf8')).toBe(text);
    expect(readFileSync(join(root, repaired[0]!.moved_to!), 'utf8')).toBe(change(text));
    expect(done.slice(-2)).toEqual([at, root]);
  });

  test('accepts the manifest if the state never recorded its hash', async () => {
    const { root, archive } = published();
    archive.state.db.run("delete from meta where key = 'manifest_sha256'");
    expect((await repairNow(archive)).repaired).toEqual([]);
    expect(hashes(root, '*')).toEqual(hashes(template(), '*'));
  });

  test('skips what another repair has repaired while it waited', async () => {
    const { root, archive } = published();
    writeFileSync(join(root, 'README.md'), 'mine');
    writeFileSync(join(root, 'ticks/stray'), 'mine');
    flip(join(root, ticks0), readFileSync(join(root, ticks0)).length - 20);
    const { findings } = await verifyArchive(archive, null);
    expect(findings.length).toBe(3);
    await repairNow(archive);
    const nothing = { restorable: [], damaged: [], orphans: [], texts: [] };
    expect(triageFindings(archive, archive.readManifest(), findings)).toEqual(nothing);
  });

  test('waits for another writer no longer than waitMs', async () => {
    const { archive } = published();
    const lock = await takeWriteLock(archive.layout.lockPath, 0, systemClock);
    await expect(repairNow(archive)).rejects.toMatchObject({ exitCode: 5 });
    lock.release();
    expect((await repairNow(archive)).repaired).toEqual([]);
  });

  test('keeps the journal, which is then published onto the repaired files', async () => {
    const { root, archive } = published();
    append(archive, answer('AAA', [[day0 + 7, 0.75]], { observedAt: now + 1 }));
    flip(join(root, ticks0), 40);
    const { lost } = await repairNow(archive);
    expect(lost.length).toBeGreaterThan(0);
    const { refused } = await publishNow(archive, now + 2);
    expect(refused).toEqual([]);
    expect(publishedTicks(root)).toContain(`AAA ${day0 + 7} 0.75`);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
    expect(archive.readManifest().lost).toEqual(lost);
  });

  test('of two days lists losses in the order of the state', async () => {
    const { root, archive } = published();
    for (const day of [day0, day0 + dayMs]) rmSync(join(root, toDayPath('ticks', day, 0)));
    const { lost } = await repairNow(archive);
    expect(new Set(lost.map(({ from }) => formatDay(from))).size).toBe(2);
    expect(readLostWindows(archive.state.db)).toMatchObject(lost);
    expect(archive.readManifest().lost).toEqual(lost);
  });

  test('withdraws all that may be lost if coverage, candles and ticks are damaged at once', async () => {
    const { root, archive } = published();
    for (const dataset of ['ticks', 'coverage', 'candles_1d'] as const) rmSync(join(root, toDayPath(dataset, day0, 0)));
    const { lost } = await repairNow(archive);
    const unrecoverable = publishedTicks(template())
      .map((line) => line.split(' '))
      .filter(([, t]) => Number(t) < day0 + dayMs);
    expect(unrecoverable.length).toBe(750);
    for (const [symbol, t] of unrecoverable)
      expect(
        lost.some((w) => w.symbol === symbol && w.from <= Number(t) && Number(t) < w.to),
        `${symbol} ${t}`,
      ).toBe(true);
    for (const { ticks } of lost) expect(ticks).toBeGreaterThan(0);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  });
});
