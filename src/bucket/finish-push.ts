import type { Archive } from '../archive/archive.ts';
import { sha256 } from '../archive/disk/file-system.ts';
import type { DatasetName } from '../archive/format/datasets.ts';
import { getMeta, setMeta } from '../archive/journal/database.ts';
import { formatDaysText, formatViewsFile, quoteSqlString } from '../archive/publish/views-sql.ts';
import { OddslakeError } from '../base/errors.ts';
import type { Log } from '../base/ports.ts';
import {
  parseDataPath,
  type RemoteManifest,
  remoteReadmePath,
  remoteViewsPath,
  type StoredFile,
} from './bucket-manifest.ts';
import { type ObjectStore, StoreError } from './object-store.ts';
import type { BucketSurvey } from './retention.ts';

interface FinishOptions {
  readonly log: Log;
  readonly signal?: AbortSignal;
}

export interface FinishResult {
  /** Objects that the retention removed. */
  readonly removed: number;
  readonly warnings: readonly string[];
}

/**
 * The key of what this archive has recorded about its last push to an address: the SHA-256 of the manifest that it finished,
 * then the ETag of views.sql, and then `begun` if it has begun another one since.
 */
const toPushedKey = ({ url }: ObjectStore): string => `pushed:${url}`;

const readPushed = ({ state }: Archive, store: ObjectStore): readonly string[] =>
  getMeta(state.db, toPushedKey(store))?.split(' ') ?? [];

/** Whether this archive recorded that everything after the swap of this manifest was done, and has begun no other push since. */
export const isPushFinished = (archive: Archive, store: ObjectStore, { text }: RemoteManifest): boolean =>
  readPushed(archive, store)[0] === sha256(Buffer.from(text)) && !mayHaveLeft(archive, store);

/** Whether a push from here may have left objects that no manifest names. */
export function mayHaveLeft(archive: Archive, store: ObjectStore): boolean {
  const [hash, , begun] = readPushed(archive, store);
  return hash === undefined || begun !== undefined;
}

/** Records it. */
export function recordBegun(archive: Archive, store: ObjectStore): void {
  const [hash, etag, begun] = readPushed(archive, store);
  if (hash !== undefined && begun === undefined) setMeta(archive.state.db, toPushedKey(store), `${hash} ${etag} begun`);
}

/**
 * Does what follows a swap of manifest.json: README.md, views.sql and the retention. Another push may be doing the same, or may
 * have swapped a later manifest. The generation is pushed already, so a failure is a warning. It is not recorded as done then,
 * and the next push does it.
 * @param survey finds what the retention removes
 * @throws the reason of the signal, unless it is an OddslakeError such as a time limit
 */
export async function finishPush(
  archive: Archive,
  store: ObjectStore,
  remote: RemoteManifest,
  survey: () => Promise<Pick<BucketSurvey, 'removable'>>,
  { log, signal }: FinishOptions,
): Promise<FinishResult> {
  const { db } = archive.state;
  const key = toPushedKey(store);
  const warnings: string[] = [];
  let removed = 0;
  let isFinished = true;
  const attempt = async (failure: string, step: () => void | Promise<void>): Promise<void> => {
    if (signal?.aborted === true && !isFinished) return;
    try {
      await step();
    } catch (error) {
      if (signal?.aborted === true && !(signal.reason instanceof OddslakeError)) throw signal.reason;
      isFinished = false;
      log.debug({ err: error }, failure);
      warnings.push(`${failure}; the next push does it: ${(error as Error).message}`);
    }
  };
  // An archive that has pushed there before has written it.
  const [pushed, etagBefore = ''] = readPushed(archive, store);
  if (pushed === undefined) await attempt(`${remoteReadmePath} was not written`, () => createReadme(store, remote));
  let etag = '';
  await attempt(`${remoteViewsPath} was not replaced`, async () => {
    etag = await replaceViews(store, remote, etagBefore);
  });
  await attempt('old objects were not removed', async () => {
    const { removable } = await survey();
    try {
      await store.remove(removable);
      removed = removable.filter(parseDataPath).length;
    } catch (error) {
      if (!(error instanceof StoreError) || error.failure !== 'credential') throw error;
      warnings.push('nothing was removed: the policy of this credential does not permit it');
    }
  });
  const record = `${sha256(Buffer.from(remote.text))} ${etag}`;
  if (isFinished) await attempt('the push was not recorded as finished', () => setMeta(db, key, record));
  return { removed, warnings };
}

/** Writes README.md, unless it is there. */
async function createReadme(store: ObjectStore, { bucket }: RemoteManifest): Promise<void> {
  const bytes = Buffer.from(formatRemoteReadme(store.url));
  const condition = bucket.conditional_writes ? 'absent' : 'always';
  await store.put(remoteReadmePath, bytes, sha256(bytes), condition, 'text/markdown; charset=utf-8');
}

/** How often views.sql is read again because another push has replaced it. */
const lostRacesMax = 5;

/**
 * Replaces views.sql, unless it is of a later manifest. Returns its ETag, or '' if it is unknown.
 * @param known that of an earlier manifest's, which is replaced without a look at it; '' if it is unknown
 */
async function replaceViews(store: ObjectStore, remote: RemoteManifest, known: string): Promise<string> {
  const { sequence, conditional_writes: isConditional } = remote.bucket;
  const bytes = Buffer.from(formatRemoteViews(store.url, remote));
  let etag: string | undefined = isConditional && known !== '' ? known : undefined;
  for (let attempt = 1; attempt <= lostRacesMax; attempt++) {
    if (etag === undefined) {
      const found = await store.get(remoteViewsPath);
      const text = Buffer.from(found?.bytes ?? []).toString('utf8');
      if (found !== null && (parseViewsSequence(text) > sequence || bytes.equals(found.bytes))) return found.etag;
      etag = found?.etag;
    }
    const condition = isConditional ? (etag === undefined ? 'absent' : { etag }) : 'always';
    const written = await store.put(remoteViewsPath, bytes, sha256(bytes), condition, 'application/sql');
    if (written !== null) return written.etag;
    etag = undefined;
  }
  return '';
}

const sequencePattern = /^-- Sequence (\d+)\b/;

/** The sequence of the manifest that a views.sql is of; 0 if it states none. */
export const parseViewsSequence = (text: string): number => Number(sequencePattern.exec(text)?.[1] ?? 0);

/** Formats views.sql: the views of the archive over the objects of one generation. */
export function formatRemoteViews(url: string, { manifest, bucket }: RemoteManifest): string {
  const toSql = (file: StoredFile): string => `\n  ${quoteSqlString(`${url}/${file.key}`)}`;
  return formatViewsFile(manifest, {
    intro: `-- Sequence ${bucket.sequence}, generation ${manifest.generation} of the archive at ${url}.
-- Views for DuckDB 1.5 or newer, over the objects of this generation. With credentials for the bucket:
--   INSTALL httpfs; CREATE SECRET (TYPE s3, PROVIDER credential_chain); .read views.sql
-- They keep working after later pushes, as long as the bucket keeps the objects. Read the file again for newer data.`,
    formatFiles: (name: DatasetName) => `[${(manifest.datasets[name].files as StoredFile[]).map(toSql).join(',')}]`,
    manifestText: formatDaysText(manifest),
  });
}

/** README.md of a bucket. It is written once. */
const formatRemoteReadme = (url: string): string => `# An archive of oddslake in object storage

- \`manifest.json\` names the files of one generation: \`datasets.ticks.files[].key\` is the path below ${url}/.
- \`data/\` has the objects. They never change. Objects of other generations are among them: **do not read data/ with a
  pattern**, read the keys of the manifest.
- \`manifests/\` has earlier manifests. Their objects stay as long as the retention of \`oddslake push\` keeps them.
- \`views.sql\` has a view of each dataset for DuckDB.

\`\`\`python
import json
import polars as pl
from pyarrow import fs
s3, root = fs.FileSystem.from_uri("${url}")
manifest = json.loads(s3.open_input_file(f"{root}/manifest.json").read())  # if it raises ValueError: again
keys = [f"s3://{root}/{file['key']}" for file in manifest["datasets"]["ticks"]["files"]]
ticks = pl.scan_parquet(keys, hive_partitioning=True)
\`\`\`

\`oddslake pull ${url} DIR\` makes a local archive of it.
`;
