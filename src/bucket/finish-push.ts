import type { Archive } from '../archive/archive.ts';
import { sha256 } from '../archive/disk/file-system.ts';
import type { DatasetName } from '../archive/format/datasets.ts';
import { getMeta, setMeta } from '../archive/journal/database.ts';
import { formatDaysText, formatViewsFile, quoteSqlString } from '../archive/publish/views-sql.ts';
import { OddslakeError } from '../base/errors.ts';
import type { Log } from '../base/ports.ts';
import { type RemoteManifest, remoteReadmePath, remoteViewsPath, type StoredFile } from './bucket-manifest.ts';
import type { ListedObject, ObjectStore, WriteCondition } from './object-store.ts';
import type { RetentionRules } from './plan-retention.ts';
import { listDataObjects, removeExpired } from './retention.ts';

interface FinishOptions {
  readonly retention: RetentionRules;
  readonly log: Log;
  readonly signal?: AbortSignal;
}

export interface FinishResult {
  /** Objects that the retention removed. */
  readonly removed: number;
  readonly warnings: readonly string[];
}

/** The key of what this archive has recorded about its last push to an address. */
const toPushedKey = ({ url }: ObjectStore): string => `pushed:${url}`;

/** Whether this archive recorded that everything after the swap of this manifest was done. */
export const isPushFinished = ({ state }: Archive, store: ObjectStore, { text }: RemoteManifest): boolean =>
  getMeta(state.db, toPushedKey(store)) === sha256(Buffer.from(text));

/**
 * Does what follows a swap of manifest.json: README.md, views.sql and the retention. Another push may be doing the same, or may
 * have swapped a later manifest. The generation is pushed already, so a failure is a warning. It is not recorded as done then,
 * and the next push does it.
 * @param data the objects in data/, listed before the swap; null to list them now
 * @throws the reason of the signal, unless it is an OddslakeError such as a time limit
 */
export async function finishPush(
  archive: Archive,
  store: ObjectStore,
  remote: RemoteManifest,
  data: ReadonlyMap<string, ListedObject> | null,
  { retention, log, signal }: FinishOptions,
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
  if (getMeta(db, key) === undefined)
    await attempt(`${remoteReadmePath} was not written`, () => createReadme(store, remote));
  await attempt(`${remoteViewsPath} was not replaced`, () => replaceViews(store, remote));
  await attempt('old objects were not removed', async () => {
    const removal = await removeExpired(store, remote, data ?? (await listDataObjects(store)), retention);
    removed = removal.removed;
    warnings.push(...removal.warnings);
  });
  if (isFinished)
    await attempt('the push was not recorded as finished', () => setMeta(db, key, sha256(Buffer.from(remote.text))));
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

/** Replaces views.sql, unless it is of a later manifest. */
async function replaceViews(store: ObjectStore, remote: RemoteManifest): Promise<void> {
  const { sequence, conditional_writes: isConditional } = remote.bucket;
  const bytes = Buffer.from(formatRemoteViews(store.url, remote));
  for (let attempt = 1; attempt <= lostRacesMax; attempt++) {
    const found = await store.get(remoteViewsPath);
    if (found !== null) {
      const text = Buffer.from(found.bytes).toString('utf8');
      if (parseViewsSequence(text) > sequence || bytes.equals(found.bytes)) return;
    }
    const current: WriteCondition = found === null ? 'absent' : { etag: found.etag };
    const condition = isConditional ? current : 'always';
    if ((await store.put(remoteViewsPath, bytes, sha256(bytes), condition, 'application/sql')) !== null) return;
  }
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
