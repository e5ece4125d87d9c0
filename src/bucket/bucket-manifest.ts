import { sha256 } from '../archive/disk/file-system.ts';
import { listManifestFiles, type Manifest, type PublishedFile, parseManifest } from '../archive/format/manifest.ts';
import { exitCodes, OddslakeError, UsageError } from '../base/errors.ts';
import type { ObjectStore } from './object-store.ts';

// Paths of the objects of an archive in a bucket, below its prefix, and the manifest there. docs/BUCKET.md describes both.

/** The version of the layout in a bucket. */
const bucketFormat = 1;

export const remoteManifestPath = 'manifest.json';
export const remoteViewsPath = 'views.sql';
export const remoteReadmePath = 'README.md';
const dataFolder = 'data/';
export const manifestsFolder = 'manifests/';
/** The prefix of the objects that a probe writes and removes. */
export const probeFolder = '.probe/';

/** A manifest that was replaced and is still held, or whose objects are. */
export interface EarlierManifest {
  /** Its path in manifests/. */
  readonly manifest: string;
  /** When the next one replaced it, epoch ms by the server's clock; null if it is the last: then it is the time of manifest.json. */
  readonly replaced_at: number | null;
  /** Paths of the objects that it was the last one to name, and that are held. */
  readonly dropped: readonly string[];
}

/** What the manifest in a bucket states beyond that of the archive. */
export interface BucketSection {
  readonly format: number;
  /** Counts the manifests that were swapped in, from 1. It never goes back, even if an older generation is restored. */
  readonly sequence: number;
  /** SHA-256 of the archive's own manifest.json. */
  readonly manifest_sha256: string;
  /** Whether the server supports conditional writes. If not, only one machine may push (`bucket.single_writer`). */
  readonly conditional_writes: boolean;
  /** Sequence of the manifest that was the current one when all objects were last listed; 0: never. */
  readonly listed: number;
  /** Paths of the markers of tables then. */
  readonly tables: readonly string[];
  /** The oldest first. With the files, they name every object that is needed. */
  readonly earlier: readonly EarlierManifest[];
}

/** A published file and the object that holds it. */
export interface StoredFile extends PublishedFile {
  /** Path below the prefix. */
  readonly key: string;
  /** For conditional reads only; it is no hash of the file. */
  readonly etag: string;
}

export interface RemoteManifest {
  /** Its exact text, which is that of an object in manifests/ too. */
  readonly text: string;
  /** That of the archive. */
  readonly manifest: Manifest;
  readonly bucket: BucketSection;
  readonly files: readonly StoredFile[];
}

/** A file is identified by its path and its content. */
export const toFileId = ({ path, sha256: hash }: Pick<PublishedFile, 'path' | 'sha256'>): string => `${hash} ${path}`;

/**
 * The path of a file's object: that of the file, the start of its hash, and the sequence of the manifest that is to be the first
 * to name it. An object is never changed, so that what has been read of it stays valid. A name that a manifest drops is in no
 * later one, as a file that comes back gets an object of a later sequence: what is to be removed needs no second look.
 */
export const toDataPath = ({ path, sha256: hash }: Pick<PublishedFile, 'path' | 'sha256'>, sequence: number): string =>
  `${dataFolder}${path.replace(/\.parquet$/, '')}-${hash.slice(0, 16)}-r${sequence}.parquet`;

const dataPathPattern = /^data\/([a-z0-9_]+)\/(?:date=\d{4}-\d\d-\d\d\/)?part-\d+-[0-9a-f]{16}-r(\d+)\.parquet$/;

/** The dataset and the sequence in the path of a file's object; null for any other path: it is never removed. */
export function parseDataPath(path: string): { readonly dataset: string; readonly sequence: number } | null {
  const [, dataset, sequence] = dataPathPattern.exec(path) ?? [];
  return dataset === undefined ? null : { dataset, sequence: Number(sequence) };
}

/** The path of a manifest that is kept: its sequence and the start of its hash. */
export const toManifestPath = (sequence: number, text: string): string =>
  `${manifestsFolder}${String(sequence).padStart(6, '0')}-${sha256(Buffer.from(text)).slice(0, 12)}.json`;

/** The sequence in the path of a kept manifest; null for any other path. */
export function parseManifestSequence(path: string): number | null {
  const digits = /^manifests\/(\d{6,15})-[0-9a-f]{12}\.json$/.exec(path)?.[1];
  return digits === undefined ? null : Number(digits);
}

/**
 * What the step that maintains a table declares by the name of an object, before the table names objects of a manifest: the
 * current version of the dataset's table may name them.
 */
export interface TableMarker {
  readonly dataset: string;
  /** Path of the manifest. */
  readonly manifest: string;
}

/** What the path of a marker declares; null for any other path. */
export function parseTableMarker(path: string): TableMarker | null {
  const match = /^tables\/([a-z0-9_]+)\/(\d{6,15}-[0-9a-f]{12}\.json)$/.exec(path);
  return match === null ? null : { dataset: match[1]!, manifest: `${manifestsFolder}${match[2]}` };
}

type ManifestDocument = Record<string, unknown> & {
  readonly datasets: Readonly<Record<string, { readonly files: readonly PublishedFile[] }>>;
};

/**
 * Formats the manifest of a bucket: that of the archive, with the object of each file. The archive's own text can be
 * restored from it byte for byte.
 * @param objects by file ID
 * @throws UsageError if it could not be restored, as from a manifest that was edited
 */
export function formatRemoteManifest(
  archiveText: string,
  section: Omit<BucketSection, 'format' | 'manifest_sha256'>,
  objects: ReadonlyMap<string, { readonly key: string; readonly etag: string }>,
): string {
  const document = JSON.parse(archiveText) as ManifestDocument;
  const bucket: BucketSection = { format: bucketFormat, manifest_sha256: sha256(Buffer.from(archiveText)), ...section };
  const addObject = (file: PublishedFile): PublishedFile => ({ ...file, ...objects.get(toFileId(file))! });
  const text = formatDocument({ ...mapFiles(document, addObject), bucket });
  if (restoreArchiveText(text) === archiveText) return text;
  throw new UsageError('manifest.json of the archive has an unusual form. Publish once, then push again.');
}

/** The text of the archive's manifest.json, from that in a bucket. */
export function restoreArchiveText(remoteText: string): string {
  const { bucket: _bucket, ...document } = JSON.parse(remoteText) as ManifestDocument;
  return formatDocument(
    mapFiles(document as ManifestDocument, (file) => {
      const { key: _key, etag: _etag, ...published } = file as StoredFile;
      return published;
    }),
  );
}

const mapFiles = (document: ManifestDocument, change: (file: PublishedFile) => PublishedFile): ManifestDocument => ({
  ...document,
  datasets: Object.fromEntries(
    Object.entries(document.datasets).map(([name, dataset]) => [
      name,
      { ...dataset, files: dataset.files.map(change) },
    ]),
  ),
});

const formatDocument = (document: object): string => `${JSON.stringify(document, null, 1)}\n`;

/**
 * Parses the manifest of a bucket.
 * @param url its address, for errors
 * @throws OddslakeError if it is not one (exit code 6), UsageError if it has another format or is not of a bucket
 */
export function parseRemoteManifest(text: string, url: string): RemoteManifest {
  const manifest = parseManifest(text, url) as Manifest & { readonly bucket?: Partial<BucketSection> };
  const { bucket } = manifest;
  if (bucket === undefined)
    throw new UsageError(`${url} is the manifest of an archive that was copied there, not pushed. Use another prefix.`);
  if (typeof bucket.format === 'number' && bucket.format !== bucketFormat)
    throw new UsageError(
      `${url} has bucket format ${bucket.format}, and this oddslake reads and writes only ${bucketFormat}: use the oddslake that wrote it, or another prefix.`,
    );
  const files = listManifestFiles(manifest) as StoredFile[];
  const isComplete =
    Number.isSafeInteger(bucket.sequence) &&
    typeof bucket.manifest_sha256 === 'string' &&
    typeof bucket.conditional_writes === 'boolean' &&
    Number.isSafeInteger(bucket.listed) &&
    Array.isArray(bucket.tables) &&
    Array.isArray(bucket.earlier) &&
    bucket.earlier.every(
      ({ manifest, dropped }) => parseManifestSequence(manifest) !== null && dropped.every(parseDataPath),
    ) &&
    files.every(({ key, etag }) => typeof key === 'string' && parseDataPath(key) !== null && typeof etag === 'string');
  if (!isComplete) throw createDamagedError(url);
  if (sha256(Buffer.from(restoreArchiveText(text))) !== bucket.manifest_sha256) throw createDamagedError(url);
  return { text, manifest, bucket: bucket as BucketSection, files };
}

const createDamagedError = (url: string): OddslakeError =>
  new OddslakeError(
    exitCodes.damaged,
    `${url} is damaged: it is not a manifest that oddslake pushed. Its earlier ones are in ${manifestsFolder}.`,
  );

/** A manifest as it was read, with the ETag that a swap expects. */
export interface ReadManifest extends RemoteManifest {
  readonly etag: string;
  /** When it was swapped in, epoch ms by the server's clock; null if the server does not say. */
  readonly modifiedAt: number | null;
}

/** Reads the manifest of a bucket; null if there is none. */
export async function readRemoteManifest(store: ObjectStore): Promise<ReadManifest | null> {
  const found = await store.get(remoteManifestPath);
  if (found === null) return null;
  const text = Buffer.from(found.bytes).toString('utf8');
  const { etag, modifiedAt } = found;
  return { ...parseRemoteManifest(text, `${store.url}/${remoteManifestPath}`), etag, modifiedAt };
}
