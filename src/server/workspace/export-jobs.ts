import type { WorkspaceDatabase } from './database.ts';
import { createJobQueue, type JobKind, type JobQueue } from './job-queue.ts';
import type { ExportJobRow } from './tables.ts';

/** The columns of a new job. */
export type NewExportJob = Pick<
  ExportJobRow,
  | 'id'
  | 'key_id'
  | 'idempotency_key'
  | 'dataset'
  | 'symbols'
  | 'from_ms'
  | 'to_ms'
  | 'format'
  | 'csv_safe'
  | 'created_at'
>;

/** The export jobs of one archive; a key is a user. */
export interface ExportJobStore extends JobQueue<ExportJobRow, NewExportJob> {
  /** Null if the job does not exist, has another key, or has expired. */
  get(keyId: string, id: string, nowMs: number): Promise<ExportJobRow | null>;
  /** Newest first. */
  list(keyId: string, limit: number, nowMs: number): Promise<{ jobs: ExportJobRow[]; total: number }>;
  /** Sum of the sizes of all files. */
  sumBytes(): Promise<number>;
  /** When the first file expires; null if there are no files. */
  findFirstExpiry(): Promise<number | null>;
  /** Removes expired jobs. */
  expire(nowMs: number): Promise<void>;
  /** IDs of jobs that have a file or are writing one. */
  listWithFiles(): Promise<string[]>;
}

/**
 * @param leaseId lease ID of the archive
 * @param keepMs time that a finished job is kept
 */
export function createExportJobStore(db: WorkspaceDatabase, leaseId: string, keepMs: number): ExportJobStore {
  const exportKind: JobKind<ExportJobRow, NewExportJob> = {
    table: 'export_jobs',
    ownerColumns: ['key_id'],
    waitingColumns: { rows_done: 0, rows_total: null },
    toStartedColumns: () => ({}),
    toProgressColumns: (rows_done, rows_total) => ({ rows_done, rows_total }),
    toFinishedColumns: (nowMs) => ({ finished_at: nowMs, expires_at: nowMs + keepMs }),
    advice: 'fewer symbols, or a shorter time',
    lockOwner: (tx, { id }) => tx.deleteFrom('export_jobs').where('id', '=', id).execute(),
  };
  const rows = () => db.selectFrom('export_jobs').where('place', '=', leaseId);
  const ofKey = (keyId: string, nowMs: number) =>
    rows()
      .where('key_id', '=', keyId)
      .where(({ or, eb }) => or([eb('expires_at', 'is', null), eb('expires_at', '>', nowMs)]));
  return {
    ...createJobQueue(db, leaseId, exportKind),
    get: async (keyId, id, nowMs) =>
      (await ofKey(keyId, nowMs).where('id', '=', id).selectAll().executeTakeFirst()) ?? null,
    async list(keyId, limit, nowMs) {
      const own = ofKey(keyId, nowMs);
      const jobs = await own.orderBy('ordinal', 'desc').orderBy('id').limit(limit).selectAll().execute();
      const { total } = await own.select(({ fn }) => fn.countAll<number>().as('total')).executeTakeFirstOrThrow();
      return { jobs, total };
    },
    async sumBytes() {
      const { bytes } = await rows()
        .select(({ fn }) => fn.sum<number | null>('bytes').as('bytes'))
        .executeTakeFirstOrThrow();
      return bytes ?? 0;
    },
    async findFirstExpiry() {
      const files = rows().where('bytes', 'is not', null);
      const { first } = await files
        .select(({ fn }) => fn.min<number | null>('expires_at').as('first'))
        .executeTakeFirstOrThrow();
      return first;
    },
    expire: async (nowMs) =>
      void (await db.deleteFrom('export_jobs').where('place', '=', leaseId).where('expires_at', '<=', nowMs).execute()),
    listWithFiles: async () =>
      (await rows().where('state', 'in', ['running', 'done']).select('id').execute()).map(({ id }) => id),
  };
}
