import { join } from 'node:path';
import type { Archive } from './open-archive.ts';

/** What the quarantine has of each generation, below the archive's root, oldest first; older versions did not compress it. */
export const quarantineFiles = ({ disk, layout }: Pick<Archive, 'disk' | 'layout'>): string[] =>
  disk
    .list(join(layout.private, 'quarantine'))
    .filter((name) => /^generation-\d+\.ndjson(\.gz)?$/.test(name))
    .sort((a, b) => generationOf(a) - generationOf(b))
    .map((name) => `.oddslake/quarantine/${name}`);

const generationOf = (name: string): number => Number(/\d+/.exec(name)![0]);
