import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../../src/archive/archive.ts';
import { listManifestFiles } from '../../../src/archive/format/manifest.ts';
import { adoptGeneration } from '../../../src/archive/publish/adopt-generation.ts';
import { type CurrentFiles, watchManifest } from '../../../src/archive/read/manifest-watcher.ts';
import { systemClock } from '../../../src/base/system.ts';
import { answer, append, day0, opened, publishNow, scratchFolder } from '../scratch.ts';

test('increases the version with every write, and reads the manifest again for a new generation', async () => {
  const root = scratchFolder();
  const [writer, reader] = [opened({ root }), opened({ root })];
  const own = watchManifest(writer);
  const other = watchManifest(reader);
  append(writer, answer('A', [[day0, 1]]));
  await publishNow(writer);
  for (const current of [own, other]) {
    const [version, manifest] = [current.getVersion(), current.getManifest()];
    expect(current.getVersion()).toBe(version);
    append(writer, answer('A', [[day0 + manifest.generation, 2]]));
    expect(current.getVersion()).toBeGreaterThan(version);
    expect(current.getManifest()).toBe(manifest);
    await publishNow(writer);
    expect(current.getManifest().generation).toBe(manifest.generation + 1);
    expect(current.getManifest()).toEqual(writer.readManifest());
  }
});

test('names the current files once for each generation that it reads', async () => {
  const root = scratchFolder();
  const [writer, reader] = [opened({ root }), opened({ root })];
  append(writer, answer('A', [[day0, 1]]));
  await publishNow(writer);
  const current = watchManifest(reader);
  const seen: CurrentFiles[] = [];
  current.onNewGeneration((files) => void seen.push(files));
  current.getManifest();
  // A write that publishes nothing.
  append(writer, answer('A', [[day0 + 1, 2]]));
  current.getManifest();
  expect(seen).toEqual([]);
  for (const count of [1, 2]) {
    append(writer, answer('A', [[day0 + 1 + count, 2]]));
    await publishNow(writer);
    for (let i = 0; i < 3; i++) current.getManifest();
    expect(seen.map(({ generation }) => generation)).toEqual([2, 3].slice(0, count));
    const hashes = listManifestFiles(writer.readManifest()).map(({ sha256 }) => sha256);
    expect(seen.at(-1)!.hashes).toEqual(new Set(hashes));
  }
});

test('notices another generation of the same number, which a pull may bring', async () => {
  const publishAt = async (price: number) => {
    const archive = opened();
    append(archive, answer('A', [[day0, price]]));
    await publishNow(archive);
    return archive;
  };
  const root = scratchFolder();
  const copy = opened({ root });
  const adopt = (from: Archive) =>
    adoptGeneration(
      copy,
      { text: from.readManifestText(), manifest: from.readManifest(), origin: 's3://lakes/m' },
      {
        fetchFile: async (file) => readFileSync(join(from.layout.root, file.path)),
        concurrency: 1,
        clock: systemClock,
        waitMs: 0,
      },
    );
  await adopt(await publishAt(0.25));
  const current = watchManifest(opened({ root, create: false }));
  const seen: CurrentFiles[] = [];
  current.onNewGeneration((files) => void seen.push(files));
  const before = current.getManifest();
  const other = await publishAt(0.75);
  await adopt(other);
  expect(current.getManifest()).toEqual(other.readManifest());
  expect(current.getManifest()).not.toEqual(before);
  expect(current.getManifest().generation).toBe(before.generation);
  expect(seen.map(({ generation }) => generation)).toEqual([1]);
});
