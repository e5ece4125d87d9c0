import { globSync, mkdirSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { datasetNames } from '../../src/archive/format/datasets.ts';
import { pinGeneration } from '../../src/archive/read/pin-generation.ts';
import { loseTicks } from './losses.ts';
import { answer, append, day0, dayMs, hashes, now, opened, publishNow } from './scratch.ts';

async function published(): Promise<Archive> {
  const archive = opened({ parts: 1 });
  append(
    archive,
    answer('AAA', [
      [day0, 0.5],
      [day0 + dayMs, 0.25],
    ]),
  );
  await publishNow(archive);
  return archive;
}

const pinsIn = (archive: Archive): string[] => globSync('.oddslake/pins/*', { cwd: archive.layout.root });

test('a pin holds the files of a generation through publishes, and is gone when it is released', async () => {
  const archive = await published();
  const { root } = archive.layout;
  const text = readFileSync(join(root, 'manifest.json'), 'utf8');
  const before = hashes(root, '*/**/*.parquet');
  const pinned = pinGeneration(archive, datasetNames, 'a');
  append(archive, answer('AAA', [[day0 + 1, 0.6]]));
  await publishNow(archive, now + 1);
  expect(hashes(pinned.root, '*/**/*.parquet')).toEqual(before);
  expect(pinned.manifest.generation).toBe(1);
  expect(Buffer.from(pinned.manifestBytes).toString('utf8')).toBe(text);
  const names = archive.readManifest().datasets.ticks.files.map(({ path }) => join(pinned.root, path));
  expect(pinned.listPaths('ticks')).toEqual(names);
  pinned.release();
  expect(pinsIn(archive)).toEqual([]);
});

test('a pin of some datasets, and of those the files that are wanted, holds these alone', async () => {
  const archive = await published();
  const ticks = pinGeneration(archive, ['ticks'], 'a');
  const second = pinGeneration(archive, ['ticks', 'coverage'], 'b', ({ date }) => date === '2026-06-02');
  const held = (root: string): string[] => globSync('**/*.parquet', { cwd: root }).sort();
  const day = (dataset: string, date: string) => `${dataset}/date=${date}/part-00.parquet`;
  expect(held(ticks.root)).toEqual([day('ticks', '2026-06-01'), day('ticks', '2026-06-02')]);
  expect(held(second.root)).toEqual([day('coverage', '2026-06-02'), day('ticks', '2026-06-02')]);
  expect(second.listPaths('ticks')).toEqual([join(second.root, day('ticks', '2026-06-02'))]);
  ticks.release();
  expect(held(second.root).length).toBe(2);
});

test('a generation that comes in between is pinned whole, and nothing of the one before', async () => {
  const archive = await published();
  append(archive, answer('AAA', [[day0 + 1, 0.6]]));
  await publishNow(archive, now + 1);
  let links = 0;
  const link = (from: string, to: string): void => {
    // Of one day it is linked before, of the other behind.
    if (++links === 2) void loseTicks(archive, [{ symbol: 'AAA', from: day0, to: day0 + 1 }]);
    archive.disk.link(from, to);
  };
  const pinned = pinGeneration({ ...archive, disk: { ...archive.disk, link } }, datasetNames, 'a');
  expect(pinned.manifest.generation).toBe(3);
  expect(hashes(pinned.root, '*/**/*.parquet')).toEqual(hashes(archive.layout.root, '*/**/*.parquet'));
});

test('a file that is replaced again and again is tried for twenty times', async () => {
  const archive = await published();
  let left = 19;
  const link = (from: string, to: string): void => {
    if (left-- > 0) throw Object.assign(new Error('gone'), { code: 'ENOENT' });
    archive.disk.link(from, to);
  };
  const busy = { ...archive, disk: { ...archive.disk, link } };
  pinGeneration(busy, datasetNames, 'a').release();
  left = 20;
  expect(() => pinGeneration(busy, datasetNames, 'a')).toThrow(/^Files that the manifest of .* lists are missing/);
});

test.each([
  ['a part that is missing', (at: string) => rmSync(at), /lists are missing/],
  ['a folder in the place of a part', (at: string) => [rmSync(at), mkdirSync(at)], /lists are missing/],
  ['a part that is too short', (at: string) => truncateSync(at, 9), /part-00\.parquet is damaged: .* size/],
])('%s is reported as damage, and nothing of the pin is left', async (_, spoil, message) => {
  const archive = await published();
  spoil(join(archive.layout.root, archive.readManifest().datasets.ticks.files[1]!.path));
  expect(() => pinGeneration(archive, datasetNames, 'a')).toThrow(
    expect.objectContaining({ exitCode: 6, message: expect.stringMatching(message) }),
  );
  expect(pinsIn(archive)).toEqual([]);
});

test('a link that cannot be made is reported as it is', async () => {
  const archive = await published();
  const link = (): void => {
    throw Object.assign(new Error('permission denied'), { code: 'EACCES' });
  };
  expect(() => pinGeneration({ ...archive, disk: { ...archive.disk, link } }, datasetNames, 'a')).toThrow(
    'permission denied',
  );
});
