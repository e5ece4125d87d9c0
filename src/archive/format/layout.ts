import { join } from 'node:path';
import { formatDay } from '../../base/time.ts';
import type { Disk } from '../disk/file-system.ts';
import type { DatasetName } from './datasets.ts';

export const privateFolderName = '.oddslake';
export const manifestName = 'manifest.json';
/** Folder of quarantined input, relative to the root. */
const quarantineFolder = `${privateFolderName}/quarantine`;
/** Folder of quarantined damaged files, relative to the root, with a subfolder for each damaged generation. */
export const damagedFilesFolder = `${privateFolderName}/damaged`;

/** Lists the files and folders in `root` that do not belong to an archive that is to be created there. */
export const listOtherFiles = (root: string, disk: Disk): string[] =>
  disk.list(root).filter((name) => name !== '.gitkeep' && name !== privateFolderName);

/** Paths of an archive, all below one root. Published paths are relative to it, with forward slashes. */
export type ArchiveLayout = ReturnType<typeof createLayout>;

/** Builds the paths of the archive at `root`. They are absolute if `root` is. */
export function createLayout(root: string) {
  const hidden = join(root, privateFolderName);
  return {
    root,
    manifestPath: join(root, manifestName),
    privateFolder: hidden,
    stagingFolder: join(hidden, 'staging'),
    lockPath: join(hidden, 'lock.sqlite'),
  };
}

/** The path of a published file of one UTC day, relative to the root. */
export const toDayPath = (dataset: DatasetName, day: number, part: number): string =>
  `${dataset}/date=${formatDay(day)}/part-${String(part).padStart(2, '0')}.parquet`;

export const parseDatasetName = (path: string): DatasetName => path.slice(0, path.indexOf('/')) as DatasetName;

/** The part number in the path of a published file. */
export const parsePartNumber = (path: string): number => Number(/part-(\d+)\.parquet$/.exec(path)![1]);

export const symbolsPath = 'symbols/part-00.parquet';

/** The file that keeps the damaged journal rows found by the publish of this generation. */
export const toDamagedJournalPath = (generation: number, id: string): string =>
  `${quarantineFolder}/journal-${String(generation).padStart(6, '0')}-${id.slice(0, 8)}.ndjson`;

/** The quarantine file of a generation, relative to the root. */
export const toQuarantinePath = (generation: number): string =>
  `${quarantineFolder}/generation-${String(generation).padStart(6, '0')}.ndjson.gz`;

/** Lists the quarantine files, relative to the root, oldest generation first. */
export const listQuarantineFiles = ({ disk, layout }: { disk: Disk; layout: ArchiveLayout }): string[] =>
  disk
    .list(join(layout.root, quarantineFolder))
    .filter((name) => /^generation-\d+\.ndjson\.gz$/.test(name))
    .sort((a, b) => parseGeneration(a) - parseGeneration(b))
    .map((name) => `${quarantineFolder}/${name}`);

const parseGeneration = (name: string): number => Number(/\d+/.exec(name)![0]);
