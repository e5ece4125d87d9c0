import type { Transaction } from 'kysely';
import { LRUCache } from 'lru-cache';
import type { WorkspaceDatabase } from './database.ts';
import type { ExportJobRow, JobState, Tables } from './tables.ts';

/** What is asked of a new job. */
export type NewJob = Pick<
  ExportJobRow,
  'id' | 'key_id' | 'idempotency_key' | 'dataset' | 'symbols' | 'from_ms' | 'to_ms' | 'format' | 'created_at'
>;

export interface Finished {
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
export interface ExportJobs {
  /**
   * Adds a job. `full` where the key has `waitingMax` that are not finished; `known` where it sent this idempotency key
   * before. Of the key's finished jobs the newest `keptMax` stay.
   */
  add(job: NewJob, waitingMax: number, keptMax: number): Promise<ExportJobRow | 'full' | { known: ExportJobRow }>;
  /** Null where there is none, or it is another key's, or its time is over. */
  get(keyId: string, id: string, nowMs: number): Promise<ExportJobRow | null>;
  /** Newest first. */
  list(keyId: string, limit: number, nowMs: number): Promise<{ jobs: ExportJobRow[]; total: number }>;
  /** Ends one that is waiting or running; false where it was neither. */
  cancel(id: string, nowMs: number, expiresAt: number): Promise<boolean>;
  remove(id: string): Promise<void>;
  /** Bytes of all files. */
  bytes(): Promise<number>;
  /** When the first of the files is removed; null where there is none. */
  firstExpiry(): Promise<number | null>;
  /** One that waits, which is then running: keys take turns, and of each the oldest comes first. */
  take(runner: number): Promise<ExportJobRow | null>;
  /** False where the job is no longer this runner's: it was cancelled. */
  progress(id: string, runner: number, done: number, total: number): Promise<boolean>;
  finish(id: string, runner: number, finished: Finished): Promise<boolean>;
  /** Puts back what a runner had begun. */
  release(id: string, runner: number): Promise<void>;
  /** Puts back all that was begun. */
  releaseAll(): Promise<void>;
  /** Removes those whose time is over. */
  expire(nowMs: number): Promise<void>;
  /** Ids of those that have a file or are making one. */
  withFiles(): Promise<string[]>;
}

const numbers = [
  ...['ordinal', 'from_ms', 'to_ms', 'created_at', 'finished_at', 'expires_at', 'runner', 'rows_done'],
  ...['rows_total', 'bytes', 'rows', 'generation'],
] as readonly (keyof ExportJobRow)[];

/** Drivers give 64-bit integers as text where they are careful. */
const read = (row: ExportJobRow): ExportJobRow => ({
  ...row,
  ...Object.fromEntries(numbers.map((name) => [name, row[name] === null ? null : Number(row[name])])),
});

const open: readonly JobState[] = ['waiting', 'running'];
const over: readonly JobState[] = ['done', 'failed', 'cancelled'];

/** Finished jobs beyond those kept that go with one new job. */
const oldMax = 100;

/** Keys whose turns are remembered, and that are looked at for the next one. */
const keysMax = 1000;

type Reader = Pick<WorkspaceDatabase, 'selectFrom'>;

/** @param place the archive whose jobs these are */
export function exportJobs(db: WorkspaceDatabase, place: string): ExportJobs {
  const rows = (of: Reader = db) => of.selectFrom('export_jobs').where('place', '=', place);
  const changed = () => db.updateTable('export_jobs').where('place', '=', place);
  const gone = () => db.deleteFrom('export_jobs').where('place', '=', place);
  const count = async (query: { executeTakeFirst(): Promise<{ n: unknown } | undefined> }): Promise<number> =>
    Number((await query.executeTakeFirst())?.n ?? 0);
  async function knownAs(of: Reader, { key_id: keyId, idempotency_key: key }: NewJob): Promise<ExportJobRow | null> {
    if (key === null) return null;
    const found = rows(of).where('key_id', '=', keyId).where('idempotency_key', '=', key).selectAll();
    const row = await found.executeTakeFirst();
    return row === undefined ? null : read(row);
  }
  async function addIn(tx: Transaction<Tables>, job: NewJob, waitingMax: number, keptMax: number) {
    // A write first: SQLite refuses one that comes after a read where another process has written in between.
    await tx.deleteFrom('export_jobs').where('id', '=', job.id).execute();
    const known = await knownAs(tx, job);
    if (known !== null) return { known };
    const own = rows(tx).where('key_id', '=', job.key_id);
    if ((await count(own.where('state', 'in', open).select(({ fn }) => fn.countAll().as('n')))) >= waitingMax)
      return 'full';
    const latest = await count(rows(tx).select(({ fn }) => fn.max('ordinal').as('n')));
    const row: ExportJobRow = { ...empty, ...job, place, ordinal: latest + 1, state: 'waiting', rows_done: 0 };
    await tx.insertInto('export_jobs').values(row).execute();
    const old = own.where('state', 'in', over).orderBy('ordinal', 'desc').offset(keptMax).limit(oldMax).select('id');
    const ids = (await old.execute()).map(({ id }) => id);
    if (ids.length > 0) await tx.deleteFrom('export_jobs').where('id', 'in', ids).execute();
    return row;
  }
  // When each key had its last turn, the greater the later.
  const served = new LRUCache<string, number>({ max: keysMax });
  let turns = 0;

  /** The oldest job of whom has waited longest for a turn. */
  async function nextWaiting(): Promise<ExportJobRow | undefined> {
    const waiting = () => rows().where('state', '=', 'waiting');
    const oldest = waiting()
      .groupBy('key_id')
      .select(['key_id', ({ fn }) => fn.min('ordinal').as('first')]);
    const keys = await oldest.orderBy('first').limit(keysMax).execute();
    const [next] = keys.sort((a, b) => (served.peek(a.key_id) ?? 0) - (served.peek(b.key_id) ?? 0));
    if (next === undefined) return undefined;
    return waiting().where('key_id', '=', next.key_id).orderBy('ordinal').limit(1).selectAll().executeTakeFirst();
  }

  const mine = (id: string, runner: number) =>
    changed().where('id', '=', id).where('state', '=', 'running').where('runner', '=', runner);
  return {
    async add(job, waitingMax, keptMax) {
      try {
        return await db.transaction().execute((tx) => addIn(tx, job, waitingMax, keptMax));
      } catch (error) {
        // Of two that send one idempotency key at the same moment to two processes, the index lets one in.
        const known = await knownAs(db, job);
        if (known === null) throw error;
        return { known };
      }
    },
    async get(keyId, id, nowMs) {
      const row = await rows().where('id', '=', id).where('key_id', '=', keyId).selectAll().executeTakeFirst();
      if (row === undefined) return null;
      const job = read(row);
      return job.expires_at !== null && job.expires_at <= nowMs ? null : job;
    },
    async list(keyId, limit, nowMs) {
      const own = rows()
        .where('key_id', '=', keyId)
        .where(({ or, eb }) => or([eb('expires_at', 'is', null), eb('expires_at', '>', nowMs)]));
      const found = await own.orderBy('ordinal', 'desc').orderBy('id').limit(limit).selectAll().execute();
      return { jobs: found.map(read), total: await count(own.select(({ fn }) => fn.countAll().as('n'))) };
    },
    cancel: async (id, nowMs, expiresAt) =>
      isOne(
        await changed()
          .where('id', '=', id)
          .where('state', 'in', open)
          .set({ state: 'cancelled', runner: null, finished_at: nowMs, expires_at: expiresAt })
          .executeTakeFirst(),
      ),
    remove: async (id) => void (await gone().where('id', '=', id).execute()),
    bytes: () => count(rows().select(({ fn }) => fn.sum('bytes').as('n'))),
    async firstExpiry() {
      const files = rows().where('bytes', 'is not', null);
      const found = await files.select(({ fn }) => fn.min('expires_at').as('n')).executeTakeFirst();
      return found?.n === null || found === undefined ? null : Number(found.n);
    },
    async take(runner) {
      for (;;) {
        const next = await nextWaiting();
        if (next === undefined) return null;
        const taken = await changed()
          .where('id', '=', next.id)
          .where('state', '=', 'waiting')
          .set({ state: 'running', runner, rows_done: 0, rows_total: null })
          .executeTakeFirst();
        if (!isOne(taken)) continue;
        served.set(next.key_id, ++turns);
        return { ...read(next), state: 'running', runner };
      }
    },
    progress: async (id, runner, done, total) =>
      isOne(await mine(id, runner).set({ rows_done: done, rows_total: total }).executeTakeFirst()),
    finish: async (id, runner, { state, finishedAt, expiresAt, file, error }) =>
      isOne(
        await mine(id, runner)
          .set({ state, runner: null, finished_at: finishedAt, expires_at: expiresAt, error: error ?? null })
          .set(file === undefined ? {} : { ...file, rows_done: file.rows, rows_total: file.rows })
          .executeTakeFirst(),
      ),
    release: async (id, runner) => void (await mine(id, runner).set(again).execute()),
    releaseAll: async () => void (await changed().where('state', '=', 'running').set(again).execute()),
    expire: async (nowMs) => void (await gone().where('expires_at', '<=', nowMs).execute()),
    withFiles: async () =>
      (await rows().where('state', 'in', ['running', 'done']).select('id').execute()).map(({ id }) => id),
  };
}

const again = { state: 'waiting', runner: null, rows_done: 0, rows_total: null } as const;

const empty = {
  ...{ finished_at: null, expires_at: null, runner: null, rows_total: null, bytes: null, sha256: null },
  ...{ rows: null, generation: null, error: null },
};

const isOne = (result: { readonly numUpdatedRows: bigint } | undefined): boolean => result?.numUpdatedRows === 1n;
