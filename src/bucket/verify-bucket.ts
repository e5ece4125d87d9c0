import type { Archive } from '../archive/archive.ts';
import { sha256 } from '../archive/disk/file-system.ts';
import { listManifestFiles, sumFileSizes } from '../archive/format/manifest.ts';
import { readPublishedFile } from '../archive/read-published-file.ts';
import { DamageError } from '../base/errors.ts';
import { forEachConcurrent } from '../base/for-each-concurrent.ts';
import { type StoredFile, toFileId } from './bucket-manifest.ts';
import type { ObjectHead, ObjectStore, RequestCounts } from './object-store.ts';
import { downloadsConcurrent, requireRemoteManifest } from './pull.ts';

interface BucketFinding {
  /** Path of the object below the prefix. */
  readonly key: string;
  readonly kind: 'missing' | 'length mismatch' | 'checksum mismatch';
  /** The published file. */
  readonly path: string;
  /** Set by a repair: whether the object was uploaded again, or no intact file was found. */
  readonly repair?: 'uploaded' | 'lost';
}

export interface BucketVerifyResult {
  readonly url: string;
  readonly generation: number;
  readonly sequence: number;
  readonly files: number;
  readonly bytes: number;
  /** Objects of which the server has no SHA-256: their length and the hash recorded at the upload were compared. */
  readonly weak: number;
  readonly findings: readonly BucketFinding[];
  readonly requests: RequestCounts;
}

interface BucketVerifyOptions {
  /** Whether objects are downloaded and hashed here. */
  readonly downloads: boolean;
  /** The archive to upload damaged objects from; null: no repair. */
  readonly repairsFrom: Archive | null;
  readonly onProgress?: (done: number, total: number) => void;
}

/** Requests at a time for heads. */
const headsConcurrent = 32;

/**
 * Compares each object of the current generation with the manifest: by the SHA-256 that the server computed when it stored
 * the object, or by a download. A repair uploads objects again from an intact local file of the same content.
 */
export async function verifyBucket(store: ObjectStore, options: BucketVerifyOptions): Promise<BucketVerifyResult> {
  const { manifest, bucket, files } = await requireRemoteManifest(store);
  const findings: BucketFinding[] = [];
  let weak = 0;
  let done = 0;
  options.onProgress?.(0, files.length);
  await forEachConcurrent(options.downloads ? downloadsConcurrent : headsConcurrent, files, async (file) => {
    const { kind, isWeak } = await checkObject(store, file, options.downloads);
    if (kind !== null) findings.push({ key: file.key, kind, path: file.path });
    if (isWeak) weak++;
    options.onProgress?.(++done, files.length);
  });
  findings.sort((a, b) => (a.key < b.key ? -1 : 1));
  const { repairsFrom } = options;
  const repaired = repairsFrom === null ? findings : await repairObjects(store, repairsFrom, files, findings);
  const { bytes } = sumFileSizes(files);
  const { generation } = manifest;
  const { url, counts } = store;
  const { sequence } = bucket;
  return { url, generation, sequence, files: files.length, bytes, weak, findings: repaired, requests: { ...counts } };
}

interface ObjectCheck {
  readonly kind: BucketFinding['kind'] | null;
  readonly isWeak: boolean;
}

async function checkObject(store: ObjectStore, file: StoredFile, downloads: boolean): Promise<ObjectCheck> {
  const found = await (downloads ? hashObject(store, file.key) : store.head(file.key));
  if (found === null) return { kind: 'missing', isWeak: false };
  const hash = found.sha256 ?? found.recordedSha256;
  const isWeak = found.sha256 === null;
  if (found.bytes !== file.bytes) return { kind: 'length mismatch', isWeak };
  return { kind: hash === file.sha256 ? null : 'checksum mismatch', isWeak };
}

async function hashObject(store: ObjectStore, key: string): Promise<Omit<ObjectHead, 'etag'> | null> {
  const found = await store.get(key);
  return found && { bytes: found.bytes.length, sha256: sha256(found.bytes), recordedSha256: null };
}

/** Uploads damaged objects again, from files of the archive that are intact and have the same content. */
async function repairObjects(
  store: ObjectStore,
  archive: Archive,
  files: readonly StoredFile[],
  findings: readonly BucketFinding[],
): Promise<BucketFinding[]> {
  const byKey = new Map(files.map((file) => [file.key, file]));
  const local = new Map(listManifestFiles(archive.readManifest()).map((file) => [toFileId(file), file]));
  const repaired: BucketFinding[] = [];
  for (const finding of findings) {
    const file = local.get(toFileId(byKey.get(finding.key)!));
    const bytes = file === undefined ? null : readIntactFile(archive, file);
    // Replaces an object of that name, which nobody could read anyway.
    if (bytes !== null) await store.put(finding.key, bytes, file!.sha256, 'always', 'application/vnd.apache.parquet');
    repaired.push({ ...finding, repair: bytes === null ? 'lost' : 'uploaded' });
  }
  return repaired;
}

function readIntactFile(archive: Archive, file: Parameters<typeof readPublishedFile>[1]): Uint8Array | null {
  try {
    return readPublishedFile(archive, file);
  } catch (error) {
    if (error instanceof DamageError) return null;
    throw error;
  }
}
