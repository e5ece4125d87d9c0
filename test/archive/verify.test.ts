import { readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { skipWithReason } from '../harness/needs.ts';
import { repairNow } from './damaged.ts';
import { loseTicks } from './losses.ts';
import { answer, append, day0, dayMs, now, opened, publishNow } from './scratch.ts';

const part = 'ticks/date=2026-06-01/part-00.parquet';

async function published(): Promise<Archive> {
  const archive = opened({ parts: 1, mends: true });
  append(
    archive,
    answer('AAA', [
      [day0, 0.5],
      [day0 + 1, 0.25],
      [day0 + dayMs, 0.25],
    ]),
  );
  await publishNow(archive);
  return archive;
}
const at = (archive: Archive, path: string): string => join(archive.layout.root, path);
const withRead = (archive: Archive, read: (path: string) => Uint8Array): Archive => ({
  ...archive,
  disk: { ...archive.disk, read },
});

describe('a verification', () => {
  test('reports progress and what it checked', async () => {
    const archive = await published();
    const files = listManifestFiles(archive.readManifest());
    const progress: [number, number][] = [];
    const verified = await verifyArchive(archive, null, (done, total) => progress.push([done, total]));
    expect(progress).toEqual(files.map((_, i) => [i + 1, files.length]));
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    expect(verified).toEqual({ generation: 1, files: files.length, bytes, findings: [], state: null });
  });

  test('stops on abort', async () => {
    const archive = await published();
    const stop = new AbortController();
    const progress: number[] = [];
    const onProgress = (done: number): void => {
      progress.push(done);
      stop.abort(new Error('stopped'));
    };
    await expect(verifyArchive(archive, null, onProgress, stop.signal)).rejects.toThrow('stopped');
    expect(progress).toEqual([1]);
  });

  test('of some files checks only these, as currently published', async () => {
    const archive = await published();
    const before = archive.readManifest().datasets.ticks.files;
    writeFileSync(at(archive, 'README.md'), 'mine');
    writeFileSync(at(archive, 'ticks/x'), 'mine');
    rmSync(at(archive, 'symbols/part-00.parquet'));
    append(archive, answer('AAA', [[day0 + 2, 0.5]]));
    archive.state.db.run('delete from row_groups');
    const [first] = before;
    expect(await verifyArchive(archive, [first!])).toEqual({
      generation: 1,
      files: 1,
      bytes: first!.bytes,
      findings: [],
      state: null,
    });
    expect(archive.state.db.all('select * from row_groups')).toEqual([]);
    await publishNow(archive, now + 1);
    expect(await verifyArchive(archive, before)).toMatchObject({ generation: 2, files: 2, findings: [] });
  });

  test('reports on a generation published meanwhile, and reads only its changed files again', async () => {
    const archive = await published();
    const reads = new Map<string, number>();
    const watched = withRead(archive, (path) => {
      if (reads.size === 1) void loseTicks(archive, [{ symbol: 'AAA', from: day0, to: day0 + 1 }]);
      reads.set(path, (reads.get(path) ?? 0) + 1);
      return archive.disk.read(path);
    });
    expect(await verifyArchive(watched, null)).toMatchObject({ generation: 2, findings: [] });
    expect(reads.get(at(archive, 'ticks/date=2026-06-02/part-00.parquet'))).toBe(1);
    expect(reads.get(at(archive, part))).toBe(2);
  });

  test('of an archive without a publish finds and records nothing', async () => {
    const archive = opened();
    expect(await verifyArchive(archive, null)).toEqual({
      generation: 0,
      files: 0,
      bytes: 0,
      findings: [],
      state: null,
    });
    expect(archive.state.db.all("select * from meta where key in ('manifest_parts', 'root_texts_sha256')")).toEqual([]);
  });
});

describe('what cannot be read', () => {
  const linux = skipWithReason(process.platform === 'linux' ? null : 'only Linux has /proc/self/mem');

  test('for the device does not give it is found, and mended', linux, async () => {
    const archive = await published();
    rmSync(at(archive, part));
    // Reading the start of a process's memory fails with EIO, like a bad sector.
    symlinkSync('/proc/self/mem', at(archive, part));
    expect((await verifyArchive(archive, null)).findings).toEqual([{ path: part, kind: 'checksum mismatch' }]);
    const { repaired, lost } = await repairNow(archive);
    expect(repaired).toEqual([expect.objectContaining({ path: part, outcome: 'removed', rows_lost: 2 })]);
    expect(lost).toEqual([expect.objectContaining({ symbol: 'AAA', from: day0, to: day0 + 2, ticks: 2 })]);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  });

  test.each(['EISDIR', 'ENOTDIR', 'ELOOP', 'ERR_FS_FILE_TOO_LARGE'])('with %s is found', async (code) => {
    const archive = await published();
    const failing = withRead(archive, (path) => {
      if (path === at(archive, part)) throw Object.assign(new Error('no'), { code });
      return archive.disk.read(path);
    });
    expect((await verifyArchive(failing, null)).findings).toEqual([{ path: part, kind: 'checksum mismatch' }]);
  });

  test.each(['EMFILE', undefined])('for another reason (%s) is no finding', async (code) => {
    const archive = await published();
    const failing = withRead(archive, () => {
      throw Object.assign(new Error('no'), { code });
    });
    await expect(verifyArchive(failing, null)).rejects.toThrow('no');
  });
});

describe('the texts at the root', () => {
  const noted = (archive: Archive) => archive.state.db.all("select * from meta where key = 'root_texts_sha256'");

  test('are reported if they differ from the written ones or are missing', async () => {
    const archive = await published();
    writeFileSync(at(archive, 'README.md'), 'mine');
    rmSync(at(archive, 'views.sql'));
    expect((await verifyArchive(archive, null)).findings).toEqual([
      { path: 'README.md', kind: 'checksum mismatch' },
      { path: 'views.sql', kind: 'missing' },
    ]);
  });

  test('of an older oddslake are not checked, and are recorded only if this one would write the same', async () => {
    const archive = await published();
    const known = noted(archive);
    expect(known.length).toBe(1);
    const text = readFileSync(at(archive, 'README.md'));
    archive.state.db.run("delete from meta where key = 'root_texts_sha256'");
    writeFileSync(at(archive, 'README.md'), 'older words');
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
    expect(noted(archive)).toEqual([]);
    rmSync(at(archive, 'README.md'));
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
    expect(noted(archive)).toEqual([]);
    writeFileSync(at(archive, 'README.md'), text);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
    expect(noted(archive)).toEqual(known);
  });

  test('are not checked if manifest.json differs', async () => {
    const archive = await published();
    const manifest = readFileSync(at(archive, 'manifest.json'), 'utf8');
    writeFileSync(at(archive, 'manifest.json'), manifest.replace('oddslake test', 'oddslake text'));
    writeFileSync(at(archive, 'SHA256SUMS'), 'mine');
    expect((await verifyArchive(archive, null)).findings).toEqual([
      { path: 'manifest.json', kind: 'checksum mismatch' },
    ]);
    // Nobody knows its hash: then it is taken for what it is, and the sums are held against it.
    archive.state.db.run("delete from meta where key = 'manifest_sha256'");
    expect((await verifyArchive(archive, null)).findings).toEqual([{ path: 'SHA256SUMS', kind: 'checksum mismatch' }]);
  });
});
