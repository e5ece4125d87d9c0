import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { datasetNames } from '../../src/archive/format/datasets.ts';
import { formatVersion, listManifestFiles } from '../../src/archive/format/manifest.ts';
import { type VerifyResult, verifyArchive } from '../../src/archive/integrity/verify.ts';
import { exitCodes, OddslakeError } from '../../src/base/errors.ts';
import { bytesOf, copyDamageLake, withLock } from './damage-lake.ts';
import { type Damage, damageKinds, flipBit, orphanKinds, overwriteFile, swapFiles, truncate } from './damages.ts';
import { type Draw, drawFrom, search, searchMsMax } from './seeds.ts';

// verify finds every change that no publish made. LONG=1: ten thousand flipped bits, every length that a file can be
// cut to, and every bit of manifest.json.

const long = process.env.LONG === '1';

/** The result of verify: findings, or its reason to refuse the archive. */
async function runVerify(archive: Archive): Promise<VerifyResult | OddslakeError> {
  try {
    return await verifyArchive(archive, null);
  } catch (error) {
    if (error instanceof OddslakeError) return error;
    throw error;
  }
}

/** Throws unless verify reports the damage; then undoes it. `isContent`: only the content of one file is another. */
async function expectFound(archive: Archive, damage: Damage, isContent = false): Promise<void> {
  try {
    const result = await runVerify(archive);
    if (result instanceof OddslakeError) {
      // An unreadable manifest, or one of a later format, is reported as an error.
      if (damage.paths.includes('manifest.json') && result.message.includes('manifest.json')) return;
      throw new Error(`${damage.description}: ${result.message}`);
    }
    const isNamed = (path: string): boolean =>
      result.findings.some((finding) => finding.path === path || path.startsWith(`${finding.path}/`));
    if (!damage.paths.every(isNamed))
      throw new Error(`${damage.description}: verify says ${JSON.stringify(result.findings)}`);
    const [path] = damage.paths;
    if (isContent && path !== 'manifest.json')
      expect(result.findings, damage.description).toEqual([{ path, kind: 'checksum mismatch' }]);
  } finally {
    damage.undo();
  }
}

const expectIntact = async (archive: Archive): Promise<void> =>
  expect(await runVerify(archive)).toMatchObject({ findings: [] });

const anyFile = (archive: Archive, draw: Draw): string => draw.one(withLock(archive.readManifest()));

test('the archive has files of every dataset, and verify finds no error', async () => {
  const archive = await copyDamageLake();
  const { datasets } = archive.readManifest();
  for (const name of datasetNames) expect(datasets[name].files.length, name).toBeGreaterThan(0);
  expect(datasets.ticks.files.length).toBe(4);
  expect(Math.max(...datasets.ticks.files.map(({ bytes }) => bytes))).toBeGreaterThan(8192);
  await expectIntact(archive);
});

describe('verify', { timeout: searchMsMax }, () => {
  test('finds every single flipped bit', async () => {
    const archive = await copyDamageLake();
    const paths = withLock(archive.readManifest());
    const sizes = paths.map((path) => bytesOf(archive, path).length);
    const total = sizes.reduce((a, b) => a + b);
    await search({ name: 'flipped bits', least: long ? 10_000 : 1_500, share: 0.03 }, async (seed) => {
      let byte = drawFrom(seed).below(total);
      let at = 0;
      while (byte >= sizes[at]!) byte -= sizes[at++]!;
      await expectFound(archive, flipBit(archive.layout.root, paths[at]!, byte * 8 + (seed & 7)), true);
    });
    await expectIntact(archive);
  });

  test('finds every length that a file can be cut to', async () => {
    const archive = await copyDamageLake();
    const { root } = archive.layout;
    let cases = 0;
    for (const path of withLock(archive.readManifest())) {
      const { length } = bytesOf(archive, path);
      const stride = long ? 1 : Math.max(1, Math.floor(length / 40));
      for (let to = 0; to < length; to += to < 12 || to > length - 12 ? 1 : stride) {
        await expectFound(archive, truncate(root, path, to), true);
        cases++;
      }
    }
    console.log(`cut files: ${cases}`);
    await expectIntact(archive);
  });

  test('finds every kind of damage to a file', async () => {
    const archive = await copyDamageLake();
    await search({ name: 'damaged files', least: long ? 2_000 : 300, share: 0.03 }, async (seed) => {
      const draw = drawFrom(seed);
      const [, make] = draw.one(Object.entries(damageKinds));
      await expectFound(archive, make(archive.layout.root, anyFile(archive, draw), draw));
    });
    await expectIntact(archive);
  });

  test('finds swapped files, and a file with the content of another', async () => {
    const archive = await copyDamageLake();
    const { root } = archive.layout;
    const files = listManifestFiles(archive.readManifest());
    let cases = 0;
    for (const [i, a] of files.entries()) {
      for (const b of files.slice(i + 1)) {
        if (a.sha256 === b.sha256) continue;
        await expectFound(archive, swapFiles(root, a.path, b.path));
        await expectFound(archive, overwriteFile(root, a.path, b.path));
        cases++;
      }
    }
    console.log(`pairs of files: ${cases}`);
    expect(cases).toBeGreaterThan(100);
    await expectIntact(archive);
  });

  test('finds foreign files in the folder of a dataset, under any name and at any depth', async () => {
    const archive = await copyDamageLake();
    const [like] = listManifestFiles(archive.readManifest());
    await search({ name: 'foreign files', least: long ? 2_000 : 300, share: 0.03 }, async (seed) => {
      const draw = drawFrom(seed);
      const [, make] = draw.one(Object.entries(orphanKinds));
      await expectFound(archive, make(archive.layout.root, draw.one(datasetNames), like!.path, draw));
    });
    await expectIntact(archive);
  });

  test('finds missing folders and folders replaced by something else', async () => {
    const archive = await copyDamageLake();
    const { root } = archive.layout;
    for (const folder of ['ticks', 'symbols', 'ticks/date=2026-06-01', 'coverage/date=2026-06-02']) {
      const paths = listManifestFiles(archive.readManifest()).flatMap(({ path }) =>
        path.startsWith(`${folder}/`) ? [path] : [],
      );
      for (const instead of [null, '', 'a file']) {
        renameSync(join(root, folder), join(root, '.oddslake/aside'));
        if (instead !== null) writeFileSync(join(root, folder), instead);
        const undo = (): void => {
          rmSync(join(root, folder), { force: true });
          renameSync(join(root, '.oddslake/aside'), join(root, folder));
        };
        await expectFound(archive, { description: `${folder} is ${instead}`, paths, undo });
      }
    }
    await expectIntact(archive);
  });

  test('finds a change of any byte of manifest.json', async () => {
    const archive = await copyDamageLake();
    const { root } = archive.layout;
    const { length } = bytesOf(archive, 'manifest.json');
    const bits = long ? [0, 1, 2, 3, 4, 5, 6, 7] : [0, 1];
    for (let byte = 0; byte < length; byte += long ? 1 : 7)
      for (const bit of bits) await expectFound(archive, flipBit(root, 'manifest.json', byte * 8 + bit));
    // The generation number, and changes that a bit flip cannot make.
    const text = bytesOf(archive, 'manifest.json').toString();
    for (const changed of [
      ...[0, 1, 3, 99].map((generation) => text.replace(/"generation": 2,/, `"generation": ${generation},`)),
      text.trimEnd(),
      `${text} `,
      text.replace(' ', ''),
      text.replace(/"ticks": \{\s*"files": \[/, '$& '),
      '',
      '{}',
      'null',
      '[]',
      '1',
      JSON.stringify(JSON.parse(text)),
    ]) {
      expect(changed).not.toBe(text);
      writeFileSync(join(root, 'manifest.json'), changed);
      const undo = (): void => writeFileSync(join(root, 'manifest.json'), text);
      await expectFound(archive, {
        description: `manifest.json is ${changed.slice(0, 200)}`,
        paths: ['manifest.json'],
        undo,
      });
    }
    await expectIntact(archive);
  });
});

test('refuses an archive without a valid manifest with exit code 6', async () => {
  const archive = await copyDamageLake();
  for (const text of ['', '{}', `{"format_version": ${formatVersion}}`, 'null']) {
    writeFileSync(archive.layout.manifestPath, text);
    expect(await runVerify(archive)).toMatchObject({ exitCode: exitCodes.damaged });
  }
});
