import { copyFileSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Draw } from './seeds.ts';

// Kinds of damage to files of an archive, each with its undo.

export interface Damage {
  /** For failure messages. */
  readonly description: string;
  /** Damaged paths below the root; verify has to report one of them. */
  readonly paths: readonly string[];
  undo(): void;
}

/** Replaces the content of a file. */
function replaceContent(
  root: string,
  path: string,
  description: string,
  change: (bytes: Buffer) => Uint8Array,
): Damage {
  const at = join(root, path);
  const content = readFileSync(at);
  const changed = change(Buffer.from(content));
  if (content.equals(changed)) throw new Error(`${path}: ${description} changed nothing`);
  writeFileSync(at, changed);
  return { description: `${path}: ${description}`, paths: [path], undo: () => writeFileSync(at, content) };
}

export function flipBit(root: string, path: string, bit: number): Damage {
  return replaceContent(root, path, `bit ${bit} flipped`, (bytes) => {
    bytes[bit >> 3]! ^= 1 << (bit & 7);
    return bytes;
  });
}

export const truncate = (root: string, path: string, length: number): Damage =>
  replaceContent(root, path, `cut to ${length} bytes`, (bytes) => bytes.subarray(0, length));

const pageBytes = 4096;

/** Damage to a whole file or to one page of it. */
export const damageKinds: Readonly<Record<string, (root: string, path: string, draw: Draw) => Damage>> = {
  'a flipped bit': (root, path, draw) => flipBit(root, path, draw.below(readFileSync(join(root, path)).length * 8)),
  'a truncated file': (root, path, draw) => truncate(root, path, draw.below(readFileSync(join(root, path)).length)),
  'an emptied file': (root, path) => truncate(root, path, 0),
  'a zeroed page': (root, path, draw) =>
    replaceContent(root, path, 'one page is zero', (bytes) => {
      const page = draw.below(Math.ceil(bytes.length / pageBytes));
      return bytes.fill(0, page * pageBytes, Math.min(bytes.length, (page + 1) * pageBytes));
    }),
  'a file of zeros': (root, path) => replaceContent(root, path, 'the whole file is zero', (bytes) => bytes.fill(0)),
  'a doubled tail': (root, path, draw) =>
    replaceContent(root, path, 'its tail is duplicated', (bytes) =>
      Buffer.concat([bytes, bytes.subarray(draw.below(bytes.length))]),
    ),
  'a byte too many': (root, path) =>
    replaceContent(root, path, 'one byte is added', (bytes) => Buffer.concat([bytes, bytes.subarray(0, 1)])),
  'a missing file': (root, path) => {
    const at = join(root, path);
    const content = readFileSync(at);
    rmSync(at);
    return { description: `${path} is missing`, paths: [path], undo: () => writeFileSync(at, content) };
  },
  'a folder in its place': (root, path) => {
    const at = join(root, path);
    const content = readFileSync(at);
    rmSync(at);
    mkdirSync(at);
    const undo = (): void => {
      rmSync(at, { recursive: true });
      writeFileSync(at, content);
    };
    return { description: `${path} is a folder`, paths: [path], undo };
  },
  'a link to nowhere in its place': (root, path) => {
    const at = join(root, path);
    const content = readFileSync(at);
    rmSync(at);
    symlinkSync('nowhere', at);
    const undo = (): void => {
      rmSync(at);
      writeFileSync(at, content);
    };
    return { description: `${path} is a link to nowhere`, paths: [path], undo };
  },
};

/** Swaps two files. */
export function swapFiles(root: string, a: string, b: string): Damage {
  const aside = join(root, '.oddslake', 'aside');
  const swap = (): void => {
    renameSync(join(root, a), aside);
    renameSync(join(root, b), join(root, a));
    renameSync(aside, join(root, b));
  };
  swap();
  return { description: `${a} and ${b} are swapped`, paths: [a, b], undo: swap };
}

/** Replaces a file by another one: by an older generation of it, or by one of another day. */
export const overwriteFile = (root: string, path: string, source: string): Damage =>
  replaceContent(root, path, `has the content of ${source}`, () => readFileSync(join(root, source)));

/** Names of extra files, in or below the folder of a dataset. */
const orphanNames = [
  'part-07.parquet',
  'x',
  '.hidden',
  'notes.txt',
  'part-00.parquet.tmp',
  'part-00.parquet~',
  'README',
  'deep/er/part-00.parquet',
  'date=2026-06-01/part-07.parquet',
  'date=2026-06-01/x.txt',
  'date=2026-06-01/.x',
  'date=2026-06-01/deep/part-00.parquet',
  'date=1999-01-01/part-00.parquet',
  'date=1999-01-01/x',
];

/** Adds something to a dataset's folder that no publish wrote. */
export const orphanKinds: Readonly<
  Record<string, (root: string, dataset: string, like: string, draw: Draw) => Damage>
> = {
  'a file too many': (root, dataset, like, draw) =>
    addOrphan(root, `${dataset}/${draw.one(orphanNames)}`, (at) =>
      draw.chance(0.5) ? copyFileSync(join(root, like), at) : writeFileSync(at, 'x'),
    ),
  'a link too many': (root, dataset, like, draw) =>
    addOrphan(root, `${dataset}/${draw.one(orphanNames)}`, (at) => symlinkSync(join(root, like), at)),
  'a link to nowhere': (root, dataset, _like, draw) =>
    addOrphan(root, `${dataset}/${draw.one(orphanNames)}`, (at) => symlinkSync('nowhere', at)),
  'a link to itself': (root, dataset, _like, draw) =>
    addOrphan(root, `${dataset}/${draw.one(orphanNames)}`, (at) => symlinkSync(at, at)),
  'a link to the folder above': (root, dataset, _like, draw) =>
    addOrphan(root, `${dataset}/${draw.one(orphanNames)}`, (at) => symlinkSync(join(root, dataset), at)),
};

function addOrphan(root: string, path: string, make: (at: string) => void): Damage {
  const at = join(root, path);
  const created = mkdirSync(dirname(at), { recursive: true });
  make(at);
  return { description: `${path} is extra`, paths: [path], undo: () => rmSync(created ?? at, { recursive: true }) };
}
