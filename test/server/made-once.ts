import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { openArchive } from '../../src/archive/open-archive.ts';
import { type Opening, opened, scratchFolder, upstreamName } from '../archive/scratch.ts';
import { hashTree } from '../harness/hash-tree.ts';
import { scratchRoot } from '../harness/scratch-root.ts';

// Archives shared by tests: copying the files is much faster than publishing.

type Made = ReadonlyMap<string, Buffer>;

interface MadeOnce {
  /** Opens a copy, which is closed when the test ends. */
  (root?: string): Promise<Archive>;
  /** Copies the files without opening them. */
  copyTo(root: string): Promise<void>;
}

/**
 * Builds an archive once per process; every test opens its own copy.
 * @param fill publishes the content
 */
export function madeOnce(
  fill: (archive: Archive) => Promise<unknown>,
  opening: Pick<Opening, 'parts' | 'groupRows'> = {},
): MadeOnce {
  let made: Promise<Made> | undefined;
  const copyTo = async (root: string): Promise<void> => {
    made ??= make(fill, opening);
    for (const [path, bytes] of await made) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), bytes);
    }
  };
  const open = async (root = scratchFolder()): Promise<Archive> => {
    await copyTo(root);
    return opened({ root, ...opening });
  };
  return Object.assign(open, { copyTo });
}

/** Hashes of all files of an archive but its private ones. */
export const hashPublished = (root: string) =>
  Object.fromEntries(Object.entries(hashTree(root)).filter(([path]) => !path.startsWith('.oddslake')));

/**
 * One copy for all tests of a file or of a describe block. A test that changes a published file fails them.
 * @returns the root of the archive, once the tests run
 */
export function sharedCopy(copyTo: MadeOnce['copyTo']): () => string {
  let folder = '';
  const root = (): string => join(folder, 'archive');
  let before: Readonly<Record<string, string>>;
  beforeAll(async () => {
    folder = mkdtempSync(join(scratchRoot, 'oddslake-shared-'));
    await copyTo(root());
    before = hashPublished(root());
  });
  afterAll(() => {
    const after = hashPublished(root());
    rmSync(folder, { recursive: true });
    expect(after).toEqual(before);
  });
  return root;
}

/** Contents of its files by path. */
async function make(fill: (archive: Archive) => Promise<unknown>, opening: Pick<Opening, 'parts' | 'groupRows'>) {
  const root = mkdtempSync(join(scratchRoot, 'oddslake-made-once-'));
  try {
    const options = { create: true, upstream: upstreamName, parts: 4, writer: 'oddslake test' };
    const archive = openArchive({ root, ...options, ...opening }, systemDisk);
    try {
      await fill(archive);
    } finally {
      archive.close();
    }
    const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    const held = files.map(({ parentPath, name }) => join(parentPath, name));
    return new Map(held.map((path) => [path.slice(root.length + 1), readFileSync(path)]));
  } finally {
    rmSync(root, { recursive: true });
  }
}
