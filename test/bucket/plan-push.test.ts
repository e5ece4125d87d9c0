import { describe, expect, test } from 'vitest';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import {
  createEmptyManifest,
  formatManifest,
  type Manifest,
  type PublishedFile,
} from '../../src/archive/format/manifest.ts';
import { parseBucketAddress, toKey } from '../../src/bucket/address.ts';
import {
  formatRemoteManifest,
  parseDataPath,
  parseManifestSequence,
  parseRemoteManifest,
  type RemoteManifest,
  restoreArchiveText,
  toDataPath,
  toFileId,
  toManifestPath,
} from '../../src/bucket/bucket-manifest.ts';
import { planPush } from '../../src/bucket/plan-push.ts';

/** A file of a day, of a generation, whose content has this name. */
function createFile(date: string, content: string, generation: number): PublishedFile {
  const path = `ticks/date=${date}/part-00.parquet`;
  const hash = sha256(Buffer.from(content));
  return {
    path,
    date,
    rows: 1,
    bytes: 10,
    sha256: hash,
    t_min: 0,
    t_max: 0,
    symbols: 1,
    symbol_from: 'A',
    symbol_to: 'A',
    generation,
  };
}

function createManifest(generation: number, files: PublishedFile[], more: Partial<Manifest> = {}): Manifest {
  const empty = createEmptyManifest('test', 'https://box.test');
  return { ...empty, generation, datasets: { ...empty.datasets, ticks: { files } }, ...more };
}

const toLocal = (manifest: Manifest, hasHadRemote: boolean | null = null) => ({
  manifest,
  sha256: sha256(Buffer.from(formatManifest(manifest))),
  hasHadRemote,
});

function toRemote(manifest: Manifest, sequence = 1): RemoteManifest {
  const { files } = manifest.datasets.ticks;
  const objects = new Map(files.map((file) => [toFileId(file), { key: toDataPath(file, 1), etag: '"e"' }]));
  const section = { sequence, conditional_writes: true, listed: 0, tables: [], earlier: [] };
  return parseRemoteManifest(formatRemoteManifest(formatManifest(manifest), section, objects), 's3://lakes/m');
}

const [monday, tuesday] = ['2026-06-01', '2026-06-02'];
const first = createManifest(1, [createFile(monday, 'a', 1)]);

describe('a plan of a push', () => {
  test('uploads everything to an empty prefix', () => {
    expect(planPush(null, toLocal(first), false)).toEqual({ kind: 'push', sequence: 1, kept: new Map() });
  });

  test('has nothing to do for the generation that is there', () => {
    expect(planPush(toRemote(first), toLocal(first), false)).toEqual({ kind: 'unchanged' });
  });

  test('keeps the objects of files that did not change', () => {
    const next = createManifest(2, [createFile(monday, 'a', 1), createFile(tuesday, 'b', 2)]);
    const plan = planPush(toRemote(first), toLocal(next), false);
    expect(plan).toMatchObject({ kind: 'push', sequence: 2 });
    expect(plan.kind === 'push' && [...plan.kept.keys()]).toEqual([toFileId(first.datasets.ticks.files[0]!)]);
  });

  test.each<[string, Manifest, Manifest, boolean]>([
    ['a replaced file', first, createManifest(3, [createFile(monday, 'b', 3)]), true],
    [
      'a removed file',
      first,
      createManifest(3, [], { removed: [{ path: first.datasets.ticks.files[0]!.path, generation: 2 }] }),
      true,
    ],
    ['a file that vanished', first, createManifest(3, []), false],
    [
      'a file that was removed before',
      first,
      createManifest(3, [], { removed: [{ path: first.datasets.ticks.files[0]!.path, generation: 1 }] }),
      false,
    ],
    ['an old file with other content', first, createManifest(3, [createFile(monday, 'b', 1)]), false],
    [
      'an old file that was never there',
      first,
      createManifest(3, [...first.datasets.ticks.files, createFile(tuesday, 'b', 1)]),
      false,
    ],
    ['the same generation with other content', first, createManifest(1, [createFile(monday, 'b', 1)]), false],
    ['an older generation', createManifest(2, [createFile(monday, 'a', 1)]), first, false],
  ])('of %s, judges whether it continues what is there', (_, remote, local, continues) => {
    expect(planPush(toRemote(remote), toLocal(local), false).kind).toBe(continues ? 'push' : 'refuse');
    // A restore may go on top of any generation of the same archive, and the sequence never goes back.
    expect(planPush(toRemote(remote, 9), toLocal(local), true)).toMatchObject({ kind: 'push', sequence: 10 });
  });

  test('trusts the record of the generations that the archive had more than its files', () => {
    const later = createManifest(3, [createFile(monday, 'b', 3)]);
    expect(planPush(toRemote(first), toLocal(later, false), false).kind).toBe('refuse');
    expect(planPush(toRemote(first), toLocal(later, false), true).kind).toBe('push');
    const unlike = createManifest(3, []);
    expect(planPush(toRemote(first), toLocal(unlike, true), false).kind).toBe('push');
    // A repair commits a generation of the same number again.
    const repaired = { ...first, commit_id: 'another' };
    expect(planPush(toRemote(first), toLocal(repaired, true), false).kind).toBe('push');
  });

  test('trusts the hash of the previous manifest', () => {
    const remote = toRemote(first);
    const next = createManifest(2, [], { previous_sha256: toLocal(first).sha256 });
    expect(planPush(remote, toLocal(next), false).kind).toBe('push');
  });

  test.each<[string, Partial<Manifest>]>([
    ['another upstream', { upstream: 'https://other.test' }],
    ['sources instead of a service', { upstream: undefined as never, sources: [{ name: 'a', upstream: '' }] }],
  ])('refuses %s, even as a restore', (_, more) => {
    const local = toLocal(createManifest(2, [], { previous_sha256: toLocal(first).sha256, ...more }));
    for (const restores of [false, true]) expect(planPush(toRemote(first), local, restores).kind).toBe('refuse');
  });

  test('accepts a source that was added', () => {
    const sources = ['a', 'b'].map((name) => ({ name, upstream: '' }));
    const [one, two] = [sources.slice(0, 1), sources].map((some, i) => {
      const { upstream: _, ...manifest } = createManifest(i + 1, []);
      return { ...manifest, sources: some };
    });
    expect(planPush(toRemote(one!), toLocal(two!), false).kind).toBe('push');
    expect(planPush(toRemote(two!), toLocal({ ...one!, generation: 3 }), false).kind).toBe('refuse');
  });
});

describe('the manifest of a bucket', () => {
  test("gives back the archive's own, byte for byte", () => {
    const text = formatManifest(first);
    expect(restoreArchiveText(toRemote(first).text)).toBe(text);
    const edited = text.replace('{\n', '{\n\n');
    expect(() => formatRemoteManifest(edited, toRemote(first).bucket, new Map())).toThrow('unusual form');
  });

  test.each<[string, (text: string) => string, number]>([
    ['a changed hash of a file', (text) => text.replace(/"sha256": "../, '"sha256": "00'), 6],
    ['a key outside data/', (text) => text.replace('"data/', '"other/'), 6],
    [
      'a dropped object outside data/',
      (text) =>
        text.replace(
          '"earlier": []',
          '"earlier": [{"manifest": "manifests/000001-0123456789ab.json", "replaced_at": null, "dropped": ["README.md"]}]',
        ),
      6,
    ],
    ['no sequence', (text) => text.replace(/"sequence": 1/, '"sequence": "1"'), 6],
    ['a newer layout', (text) => text.replace('"format": 1', '"format": 2'), 2],
    ['half of it', (text) => text.slice(0, text.length / 2), 6],
    ['the manifest of a copied archive', () => formatManifest(first), 2],
  ])('is refused with %s', (_, change, exitCode) => {
    const { text } = toRemote(first);
    expect(change(text)).not.toBe(text);
    expect(() => parseRemoteManifest(change(text), 's3://lakes/m')).toThrow(expect.objectContaining({ exitCode }));
  });
});

test('names of objects contain path, hash and sequence, and only such names count as ours', () => {
  const file = createFile(monday, 'a', 1);
  const usual = toDataPath(file, 1);
  expect(usual).toBe(`data/ticks/date=2026-06-01/part-00-${file.sha256.slice(0, 16)}-r1.parquet`);
  const undated = toDataPath({ path: 'symbols/part-00.parquet', sha256: file.sha256 }, 12);
  expect([usual, undated, 'data/a.parquet'].map(parseDataPath)).toEqual([
    { dataset: 'ticks', sequence: 1 },
    { dataset: 'symbols', sequence: 12 },
    null,
  ]);
  for (const path of [
    'data/ticks/part-00.parquet',
    'data/a.parquet',
    `other/${usual}`,
    `${usual}.tmp`,
    usual.replace('-r1', ''),
  ])
    expect(parseDataPath(path)).toBeNull();
  expect(parseManifestSequence(toManifestPath(12, 'text'))).toBe(12);
  expect(toManifestPath(12, 'text')).toMatch(/^manifests\/000012-[0-9a-f]{12}\.json$/);
  expect(parseManifestSequence('manifests/notes.json')).toBeNull();
});

describe('the address of a bucket', () => {
  test.each([
    ['s3://lakes/markets/2026', 'lakes', 'markets/2026', 'markets/2026/manifest.json'],
    ['s3://lakes/markets/', 'lakes', 'markets', 'markets/manifest.json'],
    ['s3://my.lakes', 'my.lakes', '', 'manifest.json'],
  ])('%s', (text, bucket, prefix, key) => {
    const address = parseBucketAddress(text, 'the address');
    expect(address).toMatchObject({ bucket, prefix });
    expect(toKey(address, 'manifest.json')).toBe(key);
  });

  test.each([
    'lakes/markets',
    's3://',
    's3://L',
    's3://ab',
    's3://lakes/a//b',
    's3://lakes/../b',
    "s3://lakes/a'b",
    's3://lakes/a*',
    'https://lakes/a',
  ])('rejects %s', (text) => {
    expect(() => parseBucketAddress(text, 'the address')).toThrow(expect.objectContaining({ exitCode: 2 }));
  });

  test('does not repeat what may be a key', () => {
    expect(() => parseBucketAddress('s3://key:secret@lakes/a', 'the address')).toThrow(/\(hidden\)/);
  });
});
