import { dirname, join } from 'node:path';
import { DamageError } from '../core/errors.ts';
import { type Archive, locate } from './archive.ts';
import type { DatasetName } from './datasets.ts';
import type { Manifest } from './manifest.ts';

/** Files of one generation that stay as they are while they are read, whatever is published meanwhile. */
export interface Pin {
  readonly manifest: Manifest;
  /** Absolute paths of a dataset's files. */
  paths(dataset: DatasetName): string[];
  release(): void;
}

/**
 * Pins the files of some datasets by hard links under .oddslake; a file that a publish replaces lives on in its link.
 * `id` tells readers apart; pins of processes that are gone are cleared.
 */
export function pin(archive: Archive, names: readonly DatasetName[], id: string): Pin {
  const { disk, layout } = archive;
  const pins = join(layout.private, 'pins');
  clearAbandoned(archive, pins);
  const root = join(pins, `${process.pid}-${id}`);
  for (let attempt = 1; ; attempt++) {
    const manifest = archive.manifest();
    const paths = (name: DatasetName): string[] => manifest.datasets[name].files.map((file) => join(root, file.path));
    if (linkAll(archive, manifest, names, root)) return { manifest, paths, release: () => disk.remove(root) };
    disk.remove(root);
    if (attempt === attemptsMax)
      throw new DamageError(`${layout.root} lacks files that its manifest lists. Run oddslake verify.`);
  }
}

/** Publishes that may go on beside one pin, before missing files are taken for damage. */
const attemptsMax = 20;

/** False where a file was replaced while it was being linked: the pin begins again with the new generation. */
function linkAll(archive: Archive, manifest: Manifest, names: readonly DatasetName[], root: string): boolean {
  const { disk } = archive;
  for (const name of names) {
    for (const file of manifest.datasets[name].files) {
      const to = join(root, file.path);
      disk.makeScratch(dirname(to));
      try {
        disk.link(locate(archive, file.path), to);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
        throw error;
      }
    }
  }
  return archive.manifest().generation === manifest.generation;
}

function clearAbandoned(archive: Archive, pins: string): void {
  for (const name of archive.disk.list(pins)) {
    try {
      process.kill(Number.parseInt(name, 10), 0);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ESRCH') archive.disk.remove(join(pins, name));
    }
  }
}
