import { join } from 'node:path';
import { moveFile, tryLink } from '../../archive/disk/file-system.ts';
import { tryLock, type WriteLock } from '../../archive/journal/lock.ts';
import type { Archive } from '../../archive/open-archive.ts';
import type { Random } from '../../base/ports.ts';
import type { ArchiveLease } from '../workspace/archive-lease.ts';
import type { ExportJobStore } from '../workspace/export-jobs.ts';
import type { ExportJobRow } from '../workspace/tables.ts';

// The files of export jobs, in a folder of their own below .oddslake.

const exportFolder = '.oddslake/exports';
const leaseFileName = 'place';

type ExportFileName = Pick<ExportJobRow, 'id' | 'format'>;

/** The file of a job, relative to the archive's root. */
export const toExportPath = ({ id, format }: ExportFileName): string => `${exportFolder}/${id}.${format}`;

/** What tells this archive's jobs from those of others in one database; it goes with the files. */
export function readLeaseId({ disk, layout }: Archive, random: Random): string {
  const at = join(layout.root, exportFolder);
  const file = toLeaseFilePath(layout);
  if (disk.size(file) === null) {
    disk.makeFolder(at);
    const draft = join(layout.privateFolder, `next-${leaseFileName}-${process.pid}-${generateRandomId(random)}`);
    disk.write(draft, Buffer.from(generateRandomId(random) + generateRandomId(random)));
    try {
      // The folder may be a link to another file system.
      if (!tryLink(disk, draft, file)) moveFile(disk, draft, file);
    } catch (error) {
      // Another process was quicker: its word holds.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    } finally {
      disk.remove(draft);
    }
  }
  // Whoever made it may have been killed before its name was durable: jobs would be left that no archive knows as its own.
  disk.syncFolder(at);
  return Buffer.from(disk.read(file)).toString('utf8');
}

/** The same, and what tells the archive from its copies: the file that the word is in is another one in each of them. */
export const readArchiveLease = (archive: Archive, random: Random): ArchiveLease => ({
  leaseId: readLeaseId(archive, random),
  archiveFile: archive.disk.stamp(toLeaseFilePath(archive.layout))!,
});

const toLeaseFilePath = ({ root }: Archive['layout']): string => join(root, exportFolder, leaseFileName);

/** Ten of 0-9 and a-z. */
export const generateRandomId = (random: Random): string =>
  Math.floor(random() * 36 ** 10)
    .toString(36)
    .padStart(10, '0');

/** Removes the file of a job; one that is not there is none to remove. */
export const removeExport = ({ disk, layout }: Archive, job: ExportFileName): void =>
  disk.remove(join(layout.root, toExportPath(job)));

/** The right to make and remove these files, which one process at a time has; null where another one has it. */
export function tryExportLock({ disk, layout }: Archive): WriteLock | null {
  disk.makeFolder(layout.privateFolder);
  return tryLock(join(layout.privateFolder, 'exports.lock'));
}

/** Removes what no job has any more, and what was begun and not ended. Holder of the lock only, while it is at no job. */
export async function removeOrphanExports({ disk, layout }: Archive, jobs: ExportJobStore): Promise<void> {
  const at = join(layout.root, exportFolder);
  const names = disk.list(at);
  const kept = new Set(await jobs.listWithFiles());
  for (const name of names) {
    const [, id] = /^([^.]+)\.[a-z]+$/.exec(name) ?? [];
    if (name !== leaseFileName && (id === undefined || !kept.has(id))) disk.remove(join(at, name));
  }
}
