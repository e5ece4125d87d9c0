import { join } from 'node:path';
import { moveFile, tryLink } from '../../archive/disk/file-system.ts';
import { tryLock, type WriteLock } from '../../archive/journal/lock.ts';
import type { Archive } from '../../archive/open-archive.ts';
import type { Random } from '../../base/ports.ts';
import type { ArchiveLease } from '../workspace/archive-lease.ts';
import type { ExportJobStore } from '../workspace/export-jobs.ts';
import type { ExportJobRow } from '../workspace/tables.ts';

// The files of export jobs, in their own folder below .oddslake.

const exportFolder = '.oddslake/exports';
const leaseFileName = 'place';

type ExportFileName = Pick<ExportJobRow, 'id' | 'format'>;

/** Path of a job's file, relative to the root of the archive. */
export const toExportPath = ({ id, format }: ExportFileName): string => `${exportFolder}/${id}.${format}`;

/** The lease ID that distinguishes this archive's jobs from those of others in one database. It is stored with the files. */
export function readLeaseId({ disk, layout }: Archive, random: Random): string {
  const folder = join(layout.root, exportFolder);
  const file = toLeaseFilePath(layout);
  if (disk.size(file) === null) {
    disk.makeFolder(folder);
    const draft = join(layout.privateFolder, `next-${leaseFileName}-${process.pid}-${generateRandomId(random)}`);
    disk.write(draft, Buffer.from(generateRandomId(random) + generateRandomId(random)));
    try {
      // The folder may be a link to another file system, where hard links fail.
      if (!tryLink(disk, draft, file)) moveFile(disk, draft, file);
    } catch (error) {
      // Another process wrote its ID first.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    } finally {
      disk.remove(draft);
    }
  }
  // The process that wrote the file may have been killed before its name was durable. A lost ID would orphan its jobs.
  disk.syncFolder(folder);
  return Buffer.from(disk.read(file)).toString('utf8');
}

/** The lease ID, and the identity of the file that stores it, which differs in every copy of the archive. */
export const readArchiveLease = (archive: Archive, random: Random): ArchiveLease => ({
  leaseId: readLeaseId(archive, random),
  archiveFile: archive.disk.stamp(toLeaseFilePath(archive.layout))!,
});

const toLeaseFilePath = ({ root }: Archive['layout']): string => join(root, exportFolder, leaseFileName);

/** Ten characters of 0-9 and a-z. */
export const generateRandomId = (random: Random): string =>
  Math.floor(random() * 36 ** 10)
    .toString(36)
    .padStart(10, '0');

/** Removes the file of a job, if it exists. */
export const removeExport = ({ disk, layout }: Archive, job: ExportFileName): void =>
  disk.remove(join(layout.root, toExportPath(job)));

/** The lock for writing and removing export files; null if another process holds it. */
export function tryExportLock({ disk, layout }: Archive): WriteLock | null {
  disk.makeFolder(layout.privateFolder);
  return tryLock(join(layout.privateFolder, 'exports.lock'));
}

/** Removes files without a job and unfinished files. Call it with the lock held and no job running. */
export async function removeOrphanExports({ disk, layout }: Archive, jobs: ExportJobStore): Promise<void> {
  const folder = join(layout.root, exportFolder);
  const names = disk.list(folder);
  const idsWithFiles = new Set(await jobs.listWithFiles());
  for (const name of names) {
    const [, id] = /^([^.]+)\.[a-z]+$/.exec(name) ?? [];
    if (name !== leaseFileName && (id === undefined || !idsWithFiles.has(id))) disk.remove(join(folder, name));
  }
}
