import { join } from 'node:path';
import type { Archive } from './open-archive.ts';

/** What the quarantine has of each generation, below the archive's root, oldest first; older versions did not compress it. */
export const listQuarantineFiles = ({ disk, layout }: Pick<Archive, 'disk' | 'layout'>): string[] =>
  disk
    .list(join(layout.privateFolder, 'quarantine'))
    .filter((name) => /^generation-\d+\.ndjson(\.gz)?$/.test(name))
    .sort((a, b) => parseGeneration(a) - parseGeneration(b))
    .map((name) => `.oddslake/quarantine/${name}`);

const parseGeneration = (name: string): number => Number(/\d+/.exec(name)![0]);
