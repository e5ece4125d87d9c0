import type { WorkspaceDatabase } from './database.ts';
import { attemptsMax, createJobQueue, type JobQueue, readCount } from './job-queue.ts';
import type { ExportJobRow } from './tables.ts';

/** What is asked of a new job. */
export type NewExportJob = Pick<
  ExportJobRow,
  'id' | 'key_id' | 'idempotency_key' | 'dataset' | 'symbols' | 'from_ms' | 'to_ms' | 'format' | 'created_at'
>;

export interface ExportJobCompletion {
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
  /** As a queue adds one; a key is a user. */
  add(job: NewExportJob, waitingMax: number, keptMax: number): ReturnType<JobQueue<ExportJobRow>['add']>;
  /** Null where there is none, or it is another key's, or its time is over. */
  get(keyId: string, id: string, nowMs: number): Promise<ExportJobRow | null>;
  /** Newest first. */
  list(keyId: string, limit: number, nowMs: number): Promise<{ jobs: ExportJobRow[]; total: number }>;
  /** Bytes of all files. */
  sumBytes(): Promise<number>;
  /** When the first of the files is removed; null where there is none. */
  findFirstExpiry(): Promise<number | null>;
  /** One that waits, which is then running: keys take turns, and of each the oldest comes first. */
  take(runner: number): Promise<ExportJobRow | null>;
  /** Puts back, in good order, what a runner had begun. */
  release(id: string, runner: number): Promise<void>;
  /** Puts back all that was begun; what came to no end in `attemptsMax` attempts has failed. */
  releaseAll(nowMs: number, expiresAt: number): Promise<void>;
  /** False where the job is no longer this runner's: it was removed. */
  progress(id: string, runner: number, done: number, total: number): Promise<boolean>;
  finish(id: string, runner: number, finished: ExportJobCompletion): Promise<boolean>;
  /** Removes those whose time is over. */
  expire(nowMs: number): Promise<void>;
  /** Ids of those that have a file or are making one. */
  listWithFiles(): Promise<string[]>;
}

const crashedMessage = `It was begun ${attemptsMax} times, and each time the service ended before it did. Ask for less: fewer symbols, or a shorter time.`;

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

/** Drivers give 64-bit integers as text where they are careful. */
const parseRow = (row: ExportJobRow): ExportJobRow => ({
  ...row,
  ...Object.fromEntries(numericColumns.map((name) => [name, row[name] === null ? null : Number(row[name])])),
});

/** @param place the archive whose jobs these are */
export function createExportJobStore(db: WorkspaceDatabase, place: string): ExportJobStore {
  const rows = () => db.selectFrom('export_jobs').where('place', '=', place);
  const unbegun = { rows_done: 0, rows_total: null };
  const queue = createJobQueue<ExportJobRow>(db, {
    table: 'export_jobs',
    leaseId: place,
    ownerColumns: ['key_id'],
    waitingColumns: unbegun,
    parseRow,
    lockOwner: (tx, { id }) => tx.deleteFrom('export_jobs').where('id', '=', id).execute(),
  });
  const running = () => db.updateTable('export_jobs').where('place', '=', place).where('state', '=', 'running');
  return {
    remove: queue.remove,
    add: (job, waitingMax, keptMax) => queue.add({ ...waitingColumns, ...job, place }, waitingMax, keptMax),
    async get(keyId, id, nowMs) {
      const row = await rows().where('id', '=', id).where('key_id', '=', keyId).selectAll().executeTakeFirst();
      if (row === undefined) return null;
      const job = parseRow(row);
      return job.expires_at !== null && job.expires_at <= nowMs ? null : job;
    },
    async list(keyId, limit, nowMs) {
      const own = rows()
        .where('key_id', '=', keyId)
        .where(({ or, eb }) => or([eb('expires_at', 'is', null), eb('expires_at', '>', nowMs)]));
      const found = await own.orderBy('ordinal', 'desc').orderBy('id').limit(limit).selectAll().execute();
      return { jobs: found.map(parseRow), total: await readCount(own.select(({ fn }) => fn.countAll().as('n'))) };
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
        .set((eb) => ({ ...unbegun, state: 'waiting', runner: null, attempts: eb('attempts', '-', 1) }))
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
      void (await db.deleteFrom('export_jobs').where('place', '=', place).where('expires_at', '<=', nowMs).execute()),
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
