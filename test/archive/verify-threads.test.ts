import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { listManifestFiles, type PublishedFile } from '../../src/archive/format/manifest.ts';
import { openHashPrefetcher, verifyArchive } from '../../src/archive/integrity/verify.ts';
import { checkAsyncProperty } from '../harness/properties.ts';
import { share } from '../harness/share.ts';
import { answer, append, day0, dayMs, opened, publishNow } from './scratch.ts';

const symbols = ['AAA', 'BBB', 'CCC', 'DDD', 'EEE', 'FFF'];

async function published(): Promise<Archive> {
  const archive = opened();
  for (const symbol of symbols)
    append(
      archive,
      answer(symbol, [
        [day0, 0.5],
        [day0 + dayMs, 0.25],
      ]),
    );
  await publishNow(archive);
  return archive;
}

const at = (archive: Archive, path: string): string => join(archive.layout.root, path);
const replaced = (path: string, make: () => void): void => {
  rmSync(path);
  make();
};

/** Kinds of damage to a file; `where` is a share of its length. */
const damages: Readonly<Record<string, (path: string, where: number) => void>> = {
  flipped: (path, where) => {
    const bytes = readFileSync(path);
    bytes[Math.floor(where * bytes.length)]! ^= 1 << Math.floor(where * 8);
    writeFileSync(path, bytes);
  },
  'cut short': (path, where) => truncateSync(path, Math.floor(where * readFileSync(path).length)),
  'gone on with': (path) => appendFileSync(path, 'x'),
  missing: (path) => rmSync(path),
  'a folder': (path) => replaced(path, () => mkdirSync(path)),
  'a link to itself': (path) => replaced(path, () => symlinkSync(path, path)),
  'a pipe': (path) => replaced(path, () => execFileSync('mkfifo', [path])),
  'a link to its copy': (path) => {
    writeFileSync(`${path}.copy`, readFileSync(path));
    replaced(path, () => symlinkSync(`${path}.copy`, path));
  },
};

describe('hashing in threads', () => {
  const kinds = Object.keys(damages).filter((kind) => process.platform === 'linux' || kind !== 'a pipe');
  const damaged = fc.record({
    kind: fc.constantFrom(...kinds),
    file: fc.nat(),
    where: fc.double({ min: 0, max: 0.999, noNaN: true }),
  });
  const forgotten = fc.array(fc.nat(), { maxLength: 4 });

  test('finds and records the same as one thread', async () => {
    await checkAsyncProperty([fc.array(damaged, { maxLength: 6 }), forgotten], share * 15, async (all, unnoted) => {
      const archive = await published();
      const files = listManifestFiles(archive.readManifest());
      const struck = new Map(all.map((one) => [files[one.file % files.length]!.path, one]));
      for (const [path, { kind, where }] of struck) damages[kind]!(at(archive, path), where);
      const { db } = archive.state;
      const checked = async (threadedBytes: number) => {
        for (const n of unnoted) db.run('delete from row_groups where path = ?', files[n % files.length]!.path);
        const progress: number[] = [];
        const findings = await verifyArchive(archive, null, (done) => progress.push(done), undefined, threadedBytes);
        return { found: findings, reported: progress, noted: db.all('select * from row_groups order by path') };
      };
      const inThreads = await checked(0);
      expect(inThreads).toEqual(await checked(Number.POSITIVE_INFINITY));
      expect(inThreads.reported).toEqual(files.map((_, i) => i + 1));
      archive.close();
    });
  });

  test('stops on abort', async () => {
    const archive = await published();
    const stop = new AbortController();
    const progress: number[] = [];
    const onProgress = (done: number): void => {
      progress.push(done);
      stop.abort(new Error('stopped'));
    };
    await expect(verifyArchive(archive, null, onProgress, stop.signal, 0)).rejects.toThrow('stopped');
    expect(progress).toEqual([1]);
  });

  test('reports nothing as intact that is missing or cannot be located', async () => {
    const archive = await published();
    const [first, second, third] = listManifestFiles(archive.readManifest()) as [
      PublishedFile,
      PublishedFile,
      PublishedFile,
    ];
    const place = (file: PublishedFile): string | null => {
      if (file === first) throw new Error('no');
      return file === second ? null : at(archive, file.path);
    };
    const ahead = await openHashPrefetcher([first, second, third], place);
    expect([await ahead.isNextIntact(), await ahead.isNextIntact(), await ahead.isNextIntact()]).toEqual([
      false,
      false,
      true,
    ]);
    await ahead.close();
  });

  test('reports nothing as intact after the threads have ended', async () => {
    const archive = await published();
    const files = listManifestFiles(archive.readManifest());
    const ahead = await openHashPrefetcher(files, ({ path }) => at(archive, path));
    expect(await ahead.isNextIntact()).toBe(true);
    await ahead.close();
    const rest = [];
    for (const _ of files.slice(1)) rest.push(await ahead.isNextIntact());
    expect(rest.at(-1)).toBe(false);
  });
});
