import type { WorkspaceDatabase } from './database.ts';
import { attemptsMax, createJobQueue, type JobQueue, readCount } from './job-queue.ts';
import type { ExportJobRow } from './tables.ts';

/** The columns of a new job. */
export type NewExportJob = Pick<
  ExportJobRow,
  'id' | 'key_id' | 'idempotency_key' | 'dataset' | 'symbols' | 'from_ms' | 'to_ms' | 'format' | 'created_at'
>;

interface ExportJobCompletion {
  readonly state: 'done' | 'failed';
  readonly finishedAt: number;
  readonly expiresAt: number;
  readonly file?: {
    readonly bytes: number;
    readonly sha256: string;
    readonly rows: number;
    readonly generation: number;
  };
  readonly error?: string;
}

/** The export jobs of one archive. */
export interface ExportJobStore extends Pick<JobQueue<ExportJobRow>, 'remove'> {
  /** See `JobQueue.add`; a key is a user. */
  add(job: NewExportJob, waitingMax: number, keptMax: number): ReturnType<JobQueue<ExportJobRow>['add']>;
  /** Null if the job does not exist, has another key, or has expired. */
  get(keyId: string, id: string, nowMs: number): Promise<ExportJobRow | null>;
  /** Newest first. */
  list(keyId: string, limit: number, nowMs: number): Promise<{ jobs: ExportJobRow[]; total: number }>;
  /** Sum of the sizes of all files. */
  sumBytes(): Promise<number>;
  /** When the first file expires; null if there are no files. */
  findFirstExpiry(): Promise<number | null>;
  /** Takes a waiting job and marks it as running; keys take turns, oldest job first. */
  take(runner: number): Promise<ExportJobRow | null>;
  /** Returns a started job to the queue; the attempt does not count. */
  release(id: string, runner: number): Promise<void>;
  /** Returns all started jobs to the queue; those with `attemptsMax` attempts fail. */
  releaseAll(nowMs: number, expiresAt: number): Promise<void>;
  /** False if the job no longer belongs to this runner, as it was removed. */
  progress(id: string, runner: number, done: number, total: number): Promise<boolean>;
  finish(id: string, runner: number, finished: ExportJobCompletion): Promise<boolean>;
  /** Removes expired jobs. */
  expire(nowMs: number): Promise<void>;
  /** IDs of jobs that have a file or are writing one. */
  listWithFiles(): Promise<string[]>;
}

const crashedMessage = `The job was started ${attemptsMax} times, and each time the service ended first. Reduce the request: fewer symbols, or a shorter time.`;

const numericColumns = [
  'ordinal',
  'from_ms',
  'to_ms',
  'created_at',
  'finished_at',
  'expires_at',
  'runner',
  'attempts',
  'rows_done',
  'rows_total',
  'bytes',
  'rows',
  'generation',
] as readonly (keyof ExportJobRow)[];

/** Drivers may return 64-bit integers as text. */
const parseRow = (row: ExportJobRow): ExportJobRow => ({
  ...row,
  ...Object.fromEntries(numericColumns.map((name) => [name, row[name] === null ? null : Number(row[name])])),
});

/** @param place lease ID of the archive */
export function createExportJobStore(db: WorkspaceDatabase, leaseId: string): ExportJobStore {
  const rows = () => db.selectFrom('export_jobs').where('place', '=', leaseId);
  const initialProgress = { rows_done: 0, rows_total: null };
  const queue = createJobQueue<ExportJobRow>(db, {
    table: 'export_jobs',
    leaseId: leaseId,
    ownerColumns: ['key_id'],
    waitingColumns: initialProgress,
    parseRow,
    lockOwner: (tx, { id }) => tx.deleteFrom('export_jobs').where('id', '=', id).execute(),
  });
  const running = () => db.updateTable('export_jobs').where('place', '=', leaseId).where('state', '=', 'running');
  return {
    remove: queue.remove,
    add: (job, waitingMax, keptMax) => queue.add({ ...waitingColumns, ...job, place: leaseId }, waitingMax, keptMax),
    async get(keyId, id, nowMs) {
      const row = await rows().where('id', '=', id).where('key_id', '=', keyId).selectAll().executeTakeFirst();
      if (row === undefined) return null;
      const job = parseRow(row);
      return job.expires_at !== null && job.expires_at <= nowMs ? null : job;
    },
    async list(keyId, limit, nowMs) {
      const ofKey = rows()
        .where('key_id', '=', keyId)
        .where(({ or, eb }) => or([eb('expires_at', 'is', null), eb('expires_at', '>', nowMs)]));
      const found = await ofKey.orderBy('ordinal', 'desc').orderBy('id').limit(limit).selectAll().execute();
      return { jobs: found.map(parseRow), total: await readCount(ofKey.select(({ fn }) => fn.countAll().as('n'))) };
    },
    sumBytes: () => readCount(rows().select(({ fn }) => fn.sum('bytes').as('n'))),
    async findFirstExpiry() {
      const files = rows().where('bytes', 'is not', null);
      const found = await files.select(({ fn }) => fn.min('expires_at').as('n')).executeTakeFirst();
      return found?.n === null || found === undefined ? null : Number(found.n);
    },
    take: (runner) => queue.take(runner, ({ attempts }) => ({ attempts: attempts + 1 })),
    async release(id, runner) {
      await running()
        .where('id', '=', id)
        .where('runner', '=', runner)
        .set((eb) => ({ ...initialProgress, state: 'waiting', runner: null, attempts: eb('attempts', '-', 1) }))
        .execute();
    },
    async releaseAll(nowMs, expiresAt) {
      const ended = { runner: null, finished_at: nowMs, expires_at: expiresAt, error: crashedMessage };
      await running()
        .where('attempts', '>=', attemptsMax)
        .set({ ...ended, state: 'failed' })
        .execute();
      await queue.releaseAll();
    },
    progress: (id, runner, done, total) => queue.update(id, runner, { rows_done: done, rows_total: total }),
    finish: (id, runner, { state, finishedAt, expiresAt, file, error }) =>
      queue.update(id, runner, {
        state,
        runner: null,
        finished_at: finishedAt,
        expires_at: expiresAt,
        error: error ?? null,
        ...(file === undefined ? {} : { ...file, rows_done: file.rows, rows_total: file.rows }),
      }),
    expire: async (nowMs) =>
      void (await db.deleteFrom('export_jobs').where('place', '=', leaseId).where('expires_at', '<=', nowMs).execute()),
    listWithFiles: async () =>
      (await rows().where('state', 'in', ['running', 'done']).select('id').execute()).map(({ id }) => id),
  };
}

const waitingColumns = {
  ordinal: 0,
  state: 'waiting' as const,
  rows_done: 0,
  finished_at: null,
  expires_at: null,
  runner: null,
  attempts: 0,
  rows_total: null,
  bytes: null,
  sha256: null,
  rows: null,
  generation: null,
  error: null,
};
