import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { answer, append, day0, opened, publishNow, scratchFolder } from './scratch.ts';

// Cases found by a search for damage.

const folder = 'ticks/date=2026-06-01';
const part = `${folder}/part-00.parquet`;

async function published(): Promise<{ archive: Archive; at: (path: string) => string }> {
  const root = scratchFolder();
  const archive = opened({ root, parts: 1 });
  append(archive, answer('AAA', [[day0, 0.5]]));
  await publishNow(archive);
  return { archive, at: (path) => join(root, path) };
}

const findings = async (archive: Archive) => (await verifyArchive(archive, null)).findings;

describe('verify', () => {
  test('finds a manifest whose generation is none, which a single bit may do', async () => {
    const { archive, at } = await published();
    const text = readFileSync(at('manifest.json'), 'utf8');
    writeFileSync(at('manifest.json'), text.replace('"generation": 1,', '"generation": 0,'));
    expect(await findings(archive)).toContainEqual({ path: 'manifest.json', kind: 'checksum mismatch' });
  });

  test('finds a manifest with a day that is none, which a single bit may do', async () => {
    const { archive, at } = await published();
    const text = readFileSync(at('manifest.json'), 'utf8');
    writeFileSync(at('manifest.json'), text.replaceAll('2026-06-01', '2026-0v-01'));
    expect(await findings(archive)).toContainEqual({ path: 'manifest.json', kind: 'checksum mismatch' });
  });

  test.each([
    ['whose files are no list', /"files": \[/, '"fires": ['],
    ['with a file that has no path', '"path":', '"pith":'],
  ])('refuses a manifest %s in a sentence', async (_, from, to) => {
    const { archive, at } = await published();
    writeFileSync(at('manifest.json'), readFileSync(at('manifest.json'), 'utf8').replace(from, to));
    await expect(findings(archive)).rejects.toMatchObject({ exitCode: 6, message: /not a valid manifest/ });
  });

  test.each([
    'ticks/notes.txt',
    'ticks/.x',
    `${folder}/x`,
    'symbols/date=2026-06-01/part-00.parquet',
    `${folder}/deep/er/x`,
    'ticks/deep/er/x',
    'ticks/x.parquet/x',
  ])('finds %s', async (path) => {
    const { archive, at } = await published();
    mkdirSync(join(at(path), '..'), { recursive: true });
    writeFileSync(at(path), 'x');
    const found = await findings(archive);
    expect(found).toEqual([{ path: found[0]?.path, kind: 'orphan' }]);
    // A folder that is none of ours counts as one thing.
    expect(`${path}/`.startsWith(`${found[0]!.path}/`) && found[0]!.path.includes('/')).toBe(true);
  });

  test.each([
    ['nowhere', 'nowhere'],
    ['itself', 'link'],
    ['a folder full of files', '.'],
  ])('finds a link to %s, and does not follow it', async (_, target) => {
    const { archive, at } = await published();
    symlinkSync(target, at('ticks/link'));
    expect(await findings(archive)).toEqual([{ path: 'ticks/link', kind: 'orphan' }]);
  });

  test('accepts a day folder that is a link to another place', async () => {
    const { archive, at } = await published();
    const elsewhere = join(scratchFolder(), 'day');
    renameSync(at(folder), elsewhere);
    symlinkSync(elsewhere, at(folder));
    expect(await findings(archive)).toEqual([]);
    writeFileSync(join(elsewhere, 'x'), 'x');
    expect(await findings(archive)).toEqual([{ path: `${folder}/x`, kind: 'orphan' }]);
  });

  test.each<[string, 'checksum mismatch' | 'missing', (at: string) => void]>([
    ['a folder', 'checksum mismatch', (at) => mkdirSync(at)],
    ['a pipe', 'checksum mismatch', (at) => void execFileSync('mkfifo', [at])],
    ['a link to itself', 'missing', (at) => symlinkSync('part-00.parquet', at)],
  ])('finds %s in place of a part, and a publish refuses it', async (_, what, put) => {
    const { archive, at } = await published();
    rmSync(at(part));
    put(at(part));
    expect(await findings(archive)).toEqual([{ path: part, kind: what }]);
    append(archive, answer('AAA', [[day0 + 1, 0.5]]));
    expect((await publishNow(archive)).refused).toEqual([`${part} is missing, although the manifest lists it.`]);
  });

  test('finds a file in place of a dataset’s folder', async () => {
    const { archive, at } = await published();
    renameSync(at('ticks'), at('.oddslake/aside'));
    writeFileSync(at('ticks'), 'x');
    expect(await findings(archive)).toEqual([{ path: part, kind: 'missing' }]);
  });
});
