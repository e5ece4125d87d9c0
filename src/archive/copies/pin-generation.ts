import { dirname, join } from 'node:path';
import { DamageError } from '../../core/errors.ts';
import { linkOrCopy } from '../disk/cross-device.ts';
import type { Disk } from '../disk/file-system.ts';
import { type Manifest, type PublishedFile, parseManifest } from '../manifest.ts';
import { type Archive, locateFile, readCheckedManifestText } from '../open-archive.ts';
import type { DatasetName } from '../parquet/schema.ts';
import { acquireScratchFolder, type ScratchFolder } from './scratch-dir.ts';

/** Files of one generation that stay as they are while they are read, whatever is published meanwhile. */
export interface GenerationPin {
  readonly manifest: Manifest;
  /** Its text, to the byte. */
  readonly manifestText: string;
  /** Where the links are: the published paths below it. */
  readonly root: string;
  /** A folder for files of the reader's own, yet to be made; it goes with the pin. */
  readonly scratchFolder: string;
  /** Absolute paths of a dataset's files. */
  listPaths(dataset: DatasetName): string[];
  release(): void;
}

/**
 * Pins the files of some datasets by hard links under .oddslake, or of those only the ones that are `wanted`; a file that
 * a publish replaces lives on in its link. Files on another file system are copied. `id` tells readers apart.
 * @throws DamageError where a file is missing, or of another size than the manifest says
 */
export function pinGeneration(
  archive: Archive,
  names: readonly DatasetName[],
  id: string,
  wanted: (file: PublishedFile) => boolean = () => true,
): GenerationPin {
  const scratch = acquireScratchFolder(archive, id);
  try {
    return pinIntoScratch(archive, names, wanted, scratch);
  } catch (error) {
    scratch.release();
    throw error;
  }
}

function pinIntoScratch(
  archive: Archive,
  names: readonly DatasetName[],
  wanted: (file: PublishedFile) => boolean,
  { folder, release }: ScratchFolder,
): GenerationPin {
  const { disk, layout } = archive;
  const root = join(folder, 'files');
  for (let attempt = 1; ; attempt++) {
    const manifestText = readCheckedManifestText(archive);
    const manifest = parseManifest(manifestText, layout.manifestPath);
    const filesOf = (name: DatasetName): PublishedFile[] => manifest.datasets[name].files.filter(wanted);
    const files = names.flatMap(filesOf);
    if (tryLinkFiles(archive, manifest.generation, files, root)) {
      requireFileSizes(disk, files, root);
      const paths = (name: DatasetName): string[] => filesOf(name).map((file) => join(root, file.path));
      return { manifest, manifestText, root, scratchFolder: join(folder, 'scratch'), listPaths: paths, release };
    }
    disk.remove(root);
    if (attempt === pinAttemptsMax)
      throw new DamageError(`${layout.root} lacks files that its manifest lists. Run oddslake verify.`);
  }
}

/** Publishes that may go on beside one pin, before missing files are taken for damage. */
const pinAttemptsMax = 20;

/** False where a file was replaced while it was being linked: the pin begins again with the new generation. */
function tryLinkFiles(archive: Archive, generation: number, files: readonly PublishedFile[], root: string): boolean {
  const { disk } = archive;
  for (const file of files) {
    const to = join(root, file.path);
    disk.makeVolatileFolder(dirname(to));
    try {
      const from = locateFile(archive, file.path);
      // A folder cannot be linked, and a pipe is not to be read.
      if (!disk.isFile(from)) return false;
      linkOrCopy(disk, from, to);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw error;
    }
  }
  return archive.readManifest().generation === generation;
}

/** What a look at each file tells of damage: hashing all of them may take longer than what they are read for. */
function requireFileSizes(disk: Disk, files: readonly PublishedFile[], root: string): void {
  const other = files.find(({ path, bytes }) => disk.size(join(root, path)) !== bytes);
  if (other === undefined) return;
  throw new DamageError(`${other.path} is damaged: it has not the size that the manifest says. Run oddslake verify.`);
}
