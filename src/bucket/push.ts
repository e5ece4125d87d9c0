import { join } from 'node:path';
import { type Archive, readCheckedManifestBytes } from '../archive/archive.ts';
import { type Disk, sha256 } from '../archive/disk/file-system.ts';
import { datasetNames } from '../archive/format/datasets.ts';
import { listManifestFiles, type PublishedFile, sumFileSizes } from '../archive/format/manifest.ts';
import { hasHadGeneration } from '../archive/journal/generations.ts';
import { type WriteLock, waitForLock } from '../archive/journal/lock.ts';
import type { PushSummary } from '../archive/journal/run-summary.ts';
import { decodeManifest } from '../archive/parsed-manifest.ts';
import { recordPushed } from '../archive/publish/adopt-generation.ts';
import { type GenerationPin, pinGeneration, requireFileBytes } from '../archive/read/pin-generation.ts';
import { exitCodes, OddslakeError, UsageError } from '../base/errors.ts';
import { forEachConcurrent } from '../base/for-each-concurrent.ts';
import { formatCount } from '../base/format-quantity.ts';
import type { Clock, Log } from '../base/ports.ts';
import {
  formatRemoteManifest,
  manifestsFolder,
  parseManifestSequence,
  parseRemoteManifest,
  type ReadManifest,
  type RemoteManifest,
  readRemoteManifest,
  remoteManifestPath,
  toDataPath,
  toFileId,
  toManifestPath,
} from './bucket-manifest.ts';
import { type FinishResult, finishPush, isPushFinished, mayHaveLeft, recordBegun } from './finish-push.ts';
import { type ObjectHead, type ObjectStore, StoreError, type WriteCondition } from './object-store.ts';
import { type PushPlan, planPush } from './plan-push.ts';
import { addReplaced, type RetentionRules } from './plan-retention.ts';
import { probeServer } from './probe-server.ts';
import { type BucketSurvey, surveyBucket } from './retention.ts';

export interface PushOptions {
  readonly retention: RetentionRules;
  /** Whether only this machine pushes there, so that a server without conditional writes will do. */
  readonly isSingleWriter: boolean;
  /** Whether an older or diverged generation may be pushed on top. */
  readonly restores: boolean;
  /** Random; distinguishes pushes. */
  readonly id: string;
  readonly log: Log;
  readonly onProgress?: (done: number, total: number) => void;
  /** Ends the push. If its reason is an OddslakeError, a push that has swapped the manifest counts as done nevertheless. */
  readonly signal?: AbortSignal;
}

export interface PushResult extends PushSummary {
  readonly warnings: readonly string[];
}

/**
 * Takes the lock under which one push of an archive runs at a time on a machine. Without conditional writes
 * (`bucket.single_writer`), the slower of two pushes at once would put an earlier generation back. Waits up to `waitMs`. The
 * system releases the lock of a process that is killed.
 * @throws OddslakeError (busy) if another push still holds the lock
 */
export async function takePushLock(
  { layout }: Archive,
  waitMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<WriteLock> {
  const path = join(layout.privateFolder, 'push-lock.sqlite');
  const lock = await waitForLock(path, waitMs, clock, signal);
  if (lock !== null) return lock;
  throw new OddslakeError(
    exitCodes.busy,
    `Another push of this archive is still running after ${Math.round(waitMs / 1000)} s (${path}). Push again when it has ended.`,
  );
}

/** Files that are uploaded at a time. Each is in memory while it is. */
const uploadsConcurrent = 8;

/** How often a push starts again because another one came first. */
const lostRacesMax = 5;

/** Attempts to create an object that the server both refuses to create and does not have. */
const createAttemptsMax = 3;

/** What a push has done so far. It starts again if another one comes first. */
interface PushCounts {
  uploaded: { files: number; bytes: number };
  reused: number;
  /** Objects that were uploaded again, because something else had removed them. */
  replaced: number;
  removed: number;
  readonly warnings: string[];
  /** What this push has created, by file ID, with the server's time then: it is used again if another push comes first. */
  readonly created: Map<string, { readonly key: string; readonly etag: string; readonly atMs: number | null }>;
}

function addFinished(counts: PushCounts, { removed, warnings }: FinishResult): void {
  counts.removed += removed;
  counts.warnings.push(...warnings);
}

/**
 * Pushes the published generation of an archive. Objects are created under names that no manifest has yet; then one
 * conditional write swaps manifest.json, which is the commit point; then views.sql follows and old objects are removed. A
 * push that ends anywhere before its swap has changed nothing for readers, and the next one uses what it uploaded. What
 * fails after the swap is a warning, and the next push does it.
 * @throws UsageError if the bucket has another archive or a generation that this one does not descend from
 * @throws DamageError if a local file is damaged
 * @throws OddslakeError if an object is damaged, or other pushes kept coming first
 */
export async function pushArchive(archive: Archive, store: ObjectStore, options: PushOptions): Promise<PushResult> {
  const counts: PushCounts = {
    uploaded: { files: 0, bytes: 0 },
    reused: 0,
    replaced: 0,
    removed: 0,
    warnings: [],
    created: new Map(),
  };
  const seen = new Set<string>();
  for (let attempt = 1; attempt <= lostRacesMax; attempt++) {
    const remote = await readRemoteManifest(store);
    seen.add(remote?.text ?? '');
    const result = await pushOnto(remote, archive, store, options, counts);
    if (result !== null) return result;
    options.log.info({ attempt }, 'another push came first; starting again');
  }
  if (seen.size === 1)
    throw new StoreError(
      'unexpected',
      `${store.url} refuses to replace ${remoteManifestPath}, although no other push has: does the server, or a proxy, change ETags?`,
    );
  throw new OddslakeError(
    exitCodes.busy,
    `Other pushes to ${store.url} came first ${lostRacesMax} times. Its readers see their manifest; push again.`,
  );
}

/** Returns null if another push came first. */
async function pushOnto(
  remote: ReadManifest | null,
  archive: Archive,
  store: ObjectStore,
  options: PushOptions,
  counts: PushCounts,
): Promise<PushResult | null> {
  const manifestBytes = readCheckedManifestBytes(archive);
  if (remote !== null && remote.bucket.manifest_sha256 === sha256(manifestBytes)) {
    const survey = (): Promise<BucketSurvey> =>
      surveyBucket(store, remote, remote.bucket.sequence, true, options.retention);
    if (!isPushFinished(archive, store, remote))
      addFinished(counts, await finishPush(archive, store, remote, survey, options));
    recordPushed(archive, store.url, remote.bucket.manifest_sha256);
    return createResult(store, remote, counts, counts.uploaded.files === 0 ? 'unchanged' : 'pushed');
  }
  if (archive.readManifest().generation === 0)
    throw new UsageError(`${archive.layout.root} has no published generation yet, so there is nothing to push.`);
  // Refused before the objects are listed, which may be many.
  requirePushable(archive, store, remote, { manifest: archive.readManifest(), manifestBytes }, options);
  const next = (remote?.bucket.sequence ?? 0) + 1;
  const survey = await surveyBucket(store, remote, next, mayHaveLeft(archive, store), options.retention);
  // Objects that something else has removed are uploaded again, so their files are pinned too.
  const stored = new Set(remote?.files.filter(({ key }) => survey.objects?.has(key) ?? true).map(toFileId));
  const pinned = pinGeneration(archive, datasetNames, `${options.id}-push`, (file) => !stored.has(toFileId(file)));
  try {
    return await pushPinned(remote, pinned, survey, archive, store, options, counts);
  } finally {
    pinned.release();
  }
}

/** Plans the push of a local generation. @throws UsageError if the bucket must not get it */
function requirePushable(
  { state }: Archive,
  store: ObjectStore,
  remote: ReadManifest | null,
  { manifest, manifestBytes }: Pick<GenerationPin, 'manifest' | 'manifestBytes'>,
  { restores }: PushOptions,
): Exclude<PushPlan, { kind: 'refuse' }> {
  const hasHadRemote =
    remote === null ? null : hasHadGeneration(state.db, remote.manifest.generation, remote.bucket.manifest_sha256);
  const plan = planPush(remote, { manifest, sha256: sha256(manifestBytes), hasHadRemote }, restores);
  if (plan.kind === 'refuse') throw new UsageError(`Nothing was pushed to ${store.url}: ${plan.reason}`);
  return plan;
}

async function pushPinned(
  remote: ReadManifest | null,
  pinned: GenerationPin,
  { objects: listed, state, removable }: BucketSurvey,
  archive: Archive,
  store: ObjectStore,
  options: PushOptions,
  counts: PushCounts,
): Promise<PushResult | null> {
  const plan = requirePushable(archive, store, remote, pinned, options);
  // A publish came in between: it is compared again.
  if (plan.kind === 'unchanged') return null;
  const { sequence, kept } = plan;
  const isConditional = remote?.bucket.conditional_writes ?? (await prepareBucket(store, listed, options, counts));
  if (remote !== null) requireConditionalWrites(store, isConditional, options.isSingleWriter);
  const objects = new Map<string, { key: string; etag: string }>();
  for (const [id, { key, etag }] of kept) if (listed?.has(key) ?? true) objects.set(id, { key, etag });
  for (const [id, { key, etag, atMs }] of counts.created)
    if (!kept.has(id) && atMs !== null && store.serverTimeMs()! - atMs < options.retention.keepMs / 2)
      objects.set(id, { key, etag });
  const missing = listManifestFiles(pinned.manifest).filter((file) => !objects.has(toFileId(file)));
  recordBegun(archive, store);
  options.onProgress?.(0, missing.length);
  let done = 0;
  await forEachConcurrent(uploadsConcurrent, missing, async (file) => {
    options.signal?.throwIfAborted();
    const id = toFileId(file);
    // Under the same name, so that the kept manifests that name it are whole again too.
    const key = kept.get(id)?.key ?? toDataPath(file, sequence);
    const isThere = listed?.has(key) === true;
    const etag = await createFileObject(archive, store, pinned, file, key, isThere, isConditional, counts);
    if (kept.has(id)) counts.replaced++;
    objects.set(id, { key, etag });
    options.onProgress?.(++done, missing.length);
  });
  const keys = new Set([...objects.values()].map(({ key }) => key));
  const earlier = remote === null ? [] : addReplaced(state.earlier, remote, keys);
  const section = { sequence, conditional_writes: isConditional, ...state, earlier };
  const text = formatRemoteManifest(decodeManifest(pinned.manifestBytes), section, objects);
  const bytes = Buffer.from(text);
  await createObject(store, toManifestPath(sequence, text), bytes, sha256(bytes), 'application/json', isConditional);
  if (!(await swapManifest(store, remote, text, isConditional))) return null;
  const swapped = parseRemoteManifest(text, store.url);
  recordPushed(archive, store.url, swapped.bucket.manifest_sha256);
  addFinished(counts, await finishPush(archive, store, swapped, async () => ({ removable }), options));
  return createResult(store, swapped, counts, 'pushed');
}

function createResult(
  store: ObjectStore,
  { manifest, bucket, files }: RemoteManifest,
  counts: PushCounts,
  outcome: PushResult['outcome'],
): PushResult {
  const { generation } = manifest;
  const { sequence } = bucket;
  const { uploaded, reused, replaced, removed } = counts;
  const size = { files: files.length, bytes: sumFileSizes(files).bytes };
  const requests = { ...store.counts };
  const { url } = store;
  const warnings = [...counts.warnings];
  if (replaced > 0)
    warnings.push(
      `manifest.json of the bucket named ${formatCount(replaced, 'missing object')}, which this push has uploaded again: something other than oddslake removes objects there`,
    );
  return { url, outcome, generation, sequence, ...size, uploaded, reused, removed, requests, warnings };
}

/**
 * Before the first push: checks what the server supports. Returns whether writes can be conditional.
 * @throws OddslakeError if there was a manifest.json: a push that does not know it might go back
 */
async function prepareBucket(
  store: ObjectStore,
  listed: BucketSurvey['objects'],
  options: PushOptions,
  counts: PushCounts,
): Promise<boolean> {
  for (const path of listed?.keys() ?? []) {
    // The first one may be of an interrupted push.
    if ((parseManifestSequence(path) ?? 0) > 1)
      throw createBucketDamageError(
        `${store.url}/${remoteManifestPath} is missing, although ${path} was pushed. Copy the last object of ${manifestsFolder} there, and push again.`,
      );
  }
  await requireOutsideOfArchives(store);
  const { hasConditionalWrites, hasChecksums } = await probeServer(store, options.id);
  requireConditionalWrites(store, hasConditionalWrites, options.isSingleWriter);
  const warning =
    'the server keeps no SHA-256 of objects: verify compares lengths and recorded hashes only, unless --download is given';
  // A push that starts again comes here again.
  if (!hasChecksums && !counts.warnings.includes(warning)) counts.warnings.push(warning);
  return hasConditionalWrites;
}

/** @throws UsageError if a prefix above has an archive: its listings would contain the objects of this one */
async function requireOutsideOfArchives(store: ObjectStore): Promise<void> {
  const [, ...folders] = store.url.replace('s3://', '').split('/');
  for (let depth = folders.length - 1; depth >= 0; depth--) {
    const path = `/${[...folders.slice(0, depth), remoteManifestPath].join('/')}`;
    // A policy may permit nothing outside of the prefix.
    const found = await store.get(path).catch((error: unknown) => {
      if (error instanceof StoreError && error.failure === 'credential') return null;
      throw error;
    });
    if (found !== null && Buffer.from(found.bytes).includes('"conditional_writes"'))
      throw new UsageError(`${store.url} is inside of the archive of ${path} in this bucket. Use a prefix beside it.`);
  }
}

/** Damage in the bucket. The archive itself may be intact, so it is no DamageError. */
const createBucketDamageError = (message: string): OddslakeError => new OddslakeError(exitCodes.damaged, message);

/** Makes sure that a file has its object, and returns the object's ETag. A damaged local file is never uploaded. */
async function createFileObject(
  archive: Archive,
  store: ObjectStore,
  pinned: GenerationPin,
  file: PublishedFile,
  path: string,
  isThere: boolean,
  isConditional: boolean,
  counts: PushCounts,
): Promise<string> {
  if (isThere) {
    const head = await store.head(path);
    if (head !== null) {
      requireObjectIntact(store, path, head, file);
      counts.reused++;
      return head.etag;
    }
  }
  const bytes = await readFile(archive.disk, `${pinned.root}/${file.path}`);
  try {
    requireFileBytes(bytes, file);
  } catch (error) {
    // A job records the damage of these files.
    archive.refusedPaths.add(file.path);
    throw error;
  }
  const type = 'application/vnd.apache.parquet';
  const { etag, isNew } = await createObject(store, path, bytes, file.sha256, type, isConditional);
  if (isNew) {
    counts.created.set(toFileId(file), { key: path, etag, atMs: store.serverTimeMs() });
    counts.uploaded.files++;
    counts.uploaded.bytes += bytes.length;
  } else counts.reused++;
  return etag;
}

/** Reads a file without blocking the uploads of others. */
async function readFile(disk: Disk, path: string): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of disk.readStream(path)) chunks.push(chunk);
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
}

/**
 * Creates an object whose name contains its hash, unless it is there.
 * @throws OddslakeError if an object of that name has other contents
 */
async function createObject(
  store: ObjectStore,
  path: string,
  bytes: Uint8Array,
  hash: string,
  contentType: string,
  isConditional: boolean,
): Promise<{ readonly etag: string; readonly isNew: boolean }> {
  for (let attempt = 1; attempt <= createAttemptsMax; attempt++) {
    const created = await store.put(path, bytes, hash, isConditional ? 'absent' : 'always', contentType);
    if (created !== null) return { etag: created.etag, isNew: true };
    // It is there: by a request whose response was lost, or by another push.
    const head = await store.head(path);
    if (head === null) continue;
    requireObjectIntact(store, path, head, { bytes: bytes.length, sha256: hash });
    return { etag: head.etag, isNew: false };
  }
  throw new OddslakeError(
    exitCodes.unexpected,
    `${store.url} refuses to create ${path}, but does not have it. Check the server.`,
  );
}

/** Compares length and hash of an object. The recorded hash counts if the server keeps none. */
function requireObjectIntact(
  { url }: ObjectStore,
  path: string,
  head: ObjectHead,
  expected: { bytes: number; sha256: string },
): void {
  if (head.bytes === expected.bytes && (head.sha256 ?? head.recordedSha256) === expected.sha256) return;
  throw createBucketDamageError(
    `${url}/${path} has other contents than its name says (${head.bytes} bytes, expected ${expected.bytes}). Remove it, and push again; readers do not use it unless oddslake verify ${url} names it.`,
  );
}

/** Swaps manifest.json: the commit point of a push. False if another push came first. */
async function swapManifest(
  store: ObjectStore,
  remote: ReadManifest | null,
  text: string,
  isConditional: boolean,
): Promise<boolean> {
  const bytes = Buffer.from(text);
  let condition: WriteCondition = remote === null ? 'absent' : { etag: remote.etag };
  if (!isConditional) {
    // One machine pushes. This catches a mistake in the settings of another one, unless both write at the same moment.
    const now = await readRemoteManifest(store);
    if (now?.text !== remote?.text) return false;
    condition = 'always';
  }
  const swapped = await store.put(remoteManifestPath, bytes, sha256(bytes), condition, 'application/json');
  // If it is refused, it may be ours: by a request whose response was lost, or by another push of the same generation.
  return swapped !== null || (await readRemoteManifest(store))?.text === text;
}

/** @throws UsageError if a push by several machines at once could lose one of them */
function requireConditionalWrites(store: ObjectStore, isSupported: boolean, isSingleWriter: boolean): void {
  if (isSupported || isSingleWriter) return;
  throw new UsageError(
    `${store.url} is on a server without conditional writes: of two pushes at once, one could be lost. If only this machine pushes there, set bucket.single_writer to true.`,
  );
}
