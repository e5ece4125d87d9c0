import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { readCheckedManifest } from '../../src/archive/archive.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { parseManifestBytes } from '../../src/archive/parsed-manifest.ts';
import { DamageError } from '../../src/base/errors.ts';
import { answer, append, day0, opened, publishNow } from './scratch.ts';

async function published() {
  const archive = opened();
  append(archive, answer('AAA', [[day0, 0.5]]));
  await publishNow(archive);
  return archive;
}

test('the same bytes are parsed once, by this or another archive that is opened on them', async () => {
  const archive = await published();
  const manifest = archive.readManifest();
  const bytes = readFileSync(archive.layout.manifestPath);
  expect(parseManifestBytes(bytes, 'a').manifest).toBe(manifest);
  expect(readCheckedManifest(archive)).toBe(manifest);
  expect(opened({ root: archive.layout.root }).readManifest()).toBe(manifest);
  expect(manifest).toEqual(JSON.parse(bytes.toString()));
});

test('other bytes are parsed, whatever was parsed before', async () => {
  const archive = await published();
  const bytes = readFileSync(archive.layout.manifestPath);
  const other = Buffer.from(bytes.toString().replace('"generation": 1,', '"generation": 7,'));
  expect(parseManifestBytes(other, 'a').manifest.generation).toBe(7);
  expect(parseManifestBytes(bytes, 'a').manifest.generation).toBe(1);
  for (const damaged of ['', '{', 'null', bytes.toString().slice(1)])
    expect(() => parseManifestBytes(Buffer.from(damaged), 'a')).toThrow('damaged');
});

test('a manifest that changes under an open archive is noticed, though the archive has it in memory', async () => {
  const archive = await published();
  archive.readManifest();
  const { manifestPath } = archive.layout;
  const bytes = readFileSync(manifestPath);
  for (const changed of [`${bytes} `, `\n${bytes}`]) {
    writeFileSync(manifestPath, changed);
    expect(() => readCheckedManifest(archive)).toThrow(DamageError);
    const { findings } = await verifyArchive(archive, null);
    expect(findings).toContainEqual({ path: 'manifest.json', kind: 'checksum mismatch' });
  }
  // Invalid UTF-8, which a decoder replaces by U+FFFD.
  const flipped = Buffer.from(bytes);
  flipped[flipped.indexOf('writer') + 10] = 0xff;
  writeFileSync(manifestPath, flipped);
  expect(() => readCheckedManifest(archive)).toThrow(DamageError);
  writeFileSync(manifestPath, bytes);
  expect(readCheckedManifest(archive)).toBe(archive.readManifest());
});
