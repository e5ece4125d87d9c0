import { join } from 'node:path';
import { formatDay } from '../../base/time.ts';
import type { Disk } from '../disk/file-system.ts';
import type { DatasetName } from './datasets.ts';

/** Where things are, all below one root; published paths are relative to it, with forward slashes. */
export interface ArchiveLayout {
  readonly root: string;
  readonly manifestPath: string;
  readonly privateFolder: string;
  readonly stagingFolder: string;
  readonly lockPath: string;
}

/** Where everything of the archive at `root` is; absolute where that is. */
export function createLayout(root: string): ArchiveLayout {
  const hidden = join(root, '.oddslake');
  return {
    root,
    manifestPath: join(root, 'manifest.json'),
    privateFolder: hidden,
    stagingFolder: join(hidden, 'staging'),
    lockPath: join(hidden, 'lock.sqlite'),
  };
}

/** The path of a published file of one UTC day, relative to the root. */
export const toDayPath = (dataset: DatasetName, day: number, part: number): string =>
  `${dataset}/date=${formatDay(day)}/part-${String(part).padStart(2, '0')}.parquet`;

export const symbolsPath = 'symbols/part-00.parquet';

/** Where damaged rows of the journal are kept, that the publish of this generation met. */
export const toDamagedJournalPath = (generation: number, id: string): string =>
  `.oddslake/quarantine/journal-${String(generation).padStart(6, '0')}-${id.slice(0, 8)}.ndjson`;

/** Where a generation's publish put what it set aside; relative to the root. */
export const toQuarantinePath = (generation: number): string =>
  `.oddslake/quarantine/generation-${String(generation).padStart(6, '0')}.ndjson.gz`;

/** What the quarantine has of each generation, below the archive's root, oldest first; older versions did not compress it. */
export const listQuarantineFiles = ({ disk, layout }: { disk: Disk; layout: ArchiveLayout }): string[] =>
  disk
    .list(join(layout.privateFolder, 'quarantine'))
    .filter((name) => /^generation-\d+\.ndjson(\.gz)?$/.test(name))
    .sort((a, b) => parseGeneration(a) - parseGeneration(b))
    .map((name) => `.oddslake/quarantine/${name}`);

const parseGeneration = (name: string): number => Number(/\d+/.exec(name)![0]);
