import { type Disk, sha256 } from '../archive/disk/file-system.ts';
import { type PublishedFile, parseManifest, readOwner, sumFileSizes } from '../archive/format/manifest.ts';
import { openArchive } from '../archive/open-archive.ts';
import { adoptGeneration } from '../archive/publish/adopt-generation.ts';
import { DamageError, UsageError } from '../base/errors.ts';
import type { Clock } from '../base/ports.ts';
import {
  type RemoteManifest,
  readRemoteManifest,
  restoreArchiveText,
  type StoredFile,
  toFileId,
} from './bucket-manifest.ts';
import type { ObjectStore, RequestCounts } from './object-store.ts';

export interface PullOptions {
  readonly disk: Disk;
  readonly writer: string;
  readonly clock: Clock;
  readonly waitMs: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, total: number) => void;
}

export interface PullResult {
  readonly url: string;
  /** Absolute path of the archive. */
  readonly folder: string;
  readonly outcome: 'pulled' | 'unchanged';
  readonly generation: number;
  readonly sequence: number;
  readonly files: number;
  readonly bytes: number;
  readonly downloaded: { readonly files: number; readonly bytes: number };
  readonly requests: RequestCounts;
}

/** Files that are downloaded at a time. Each is in memory while it is. */
export const downloadsConcurrent = 8;

/**
 * Makes `folder` a local archive of the generation in a bucket: a new archive, or an earlier pull that gets only the files
 * that differ. Every file is checked against its hash; all of them appear in one step, as with a publish.
 * @throws UsageError if the folder has other files or an archive that was not pulled from there
 * @throws DamageError if an object is missing or differs
 */
export async function pullArchive(store: ObjectStore, folder: string, options: PullOptions): Promise<PullResult> {
  const remote = await requireRemoteManifest(store);
  const { manifest, bucket, files } = remote;
  const { disk, writer, clock, waitMs } = options;
  const { upstream, sources } = readOwner(manifest);
  using archive = openArchive(
    {
      root: disk.realPath(folder),
      create: true,
      upstream: sources.length === 0 ? upstream : null,
      sources,
      writer,
      waitMs,
    },
    disk,
  );
  const objects = new Map(files.map((file) => [toFileId(file), file]));
  const { fetched, isChanged } = await adoptGeneration(
    archive,
    { text: restoreArchiveText(remote.text), manifest: parseLocalManifest(remote), origin: store.url },
    {
      fetchFile: (file) => downloadFile(store, objects.get(toFileId(file))!),
      concurrency: downloadsConcurrent,
      clock,
      waitMs,
      ...(options.signal !== undefined && { signal: options.signal }),
      ...(options.onProgress !== undefined && { onProgress: options.onProgress }),
    },
  );
  return {
    url: store.url,
    folder: archive.layout.root,
    outcome: isChanged ? 'pulled' : 'unchanged',
    generation: manifest.generation,
    sequence: bucket.sequence,
    files: files.length,
    bytes: sumFileSizes(files).bytes,
    downloaded: { files: fetched.length, bytes: sumFileSizes(fetched).bytes },
    requests: { ...store.counts },
  };
}

/** The manifest of the archive, without what that of the bucket adds. */
export const parseLocalManifest = ({ text }: RemoteManifest): RemoteManifest['manifest'] =>
  parseManifest(restoreArchiveText(text), 'the manifest of the bucket');

/** Reads the manifest of a bucket. @throws UsageError if there is none */
export async function requireRemoteManifest(store: ObjectStore): Promise<RemoteManifest> {
  const remote = await readRemoteManifest(store);
  if (remote !== null) return remote;
  throw new UsageError(`There is no archive at ${store.url}. Check the address, or push one there: oddslake push.`);
}

/** Downloads an object and checks its hash; once more, if it differs. @throws DamageError if it is missing or differs again */
export async function downloadFile(store: ObjectStore, file: StoredFile): Promise<Uint8Array> {
  let found = await store.get(file.key);
  if (found !== null && !isIntact(found.bytes, file)) found = await store.get(file.key);
  if (found !== null && isIntact(found.bytes, file)) return found.bytes;
  const fault = found === null ? 'is missing' : 'differs from the manifest';
  throw new DamageError(
    `${store.url}/${file.key} ${fault}. To upload it again from an intact archive: oddslake verify ${store.url} --repair`,
  );
}

const isIntact = (bytes: Uint8Array, file: PublishedFile): boolean =>
  bytes.length === file.bytes && sha256(bytes) === file.sha256;
