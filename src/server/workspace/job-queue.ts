import type { Kysely, Transaction } from 'kysely';
import { LRUCache } from 'lru-cache';
import type { WorkspaceDatabase } from './database.ts';
import type { BacktestRow, ExportJobRow, JobState, Tables } from './tables.ts';

/**
 * A queue of one archive's jobs of one kind. A job waits, is taken by one runner, and changes state in single updates.
 * `New` has the columns of a new job.
 */
export interface JobQueue<Row, New> {
  /**
   * Adds a job and assigns its `ordinal`. Returns `full` if its user has `waitingMax` unfinished jobs, and `known` if its
   * owner sent this idempotency key before. Of the owner's finished jobs the newest `keptMax` are kept.
   */
  add(job: New, waitingMax: number, keptMax: number): Promise<Row | 'full' | { known: Row }>;
  /** Adds the result of a job that was run elsewhere; of the owner's finished jobs the newest `keptMax` are kept. */
  addFinished(job: New & Partial<Row>, keptMax: number): Promise<void>;
  /** Removes a job in any state; its runner notices at the next update. */
  remove(id: string): Promise<void>;
  /** Takes a waiting job and marks it as running; users take turns, oldest job first. */
  take(runner: number, nowMs: number): Promise<Row | null>;
  /** False if the job was removed or no longer belongs to this runner. */
  progress(id: string, runner: number, done: number, total: number): Promise<boolean>;
  /** Stores the result. False if the job was removed or no longer belongs to this runner. */
  finish(id: string, runner: number, result: JobResult<Row>, nowMs: number): Promise<boolean>;
  /** Returns a started job to the queue; the attempt does not count. */
  release(id: string, runner: number): Promise<void>;
  /** Returns all started jobs to the queue; those with `attemptsMax` attempts fail. */
  releaseAll(nowMs: number): Promise<void>;
}

/** The columns set when a job ends; for a failed job, its error. */
export type JobResult<Row> = Partial<Row> | { readonly error: string };

/** A kind of job: its table, and what differs between the kinds. */
export interface JobKind<Row, New> {
  readonly table: 'export_jobs' | 'backtests';
  /** The columns of the owner; jobs with the same first column are of one user. */
  readonly ownerColumns: readonly [OwnerColumn, ...OwnerColumn[]];
  /** Values of a waiting job, besides its state. */
  readonly waitingColumns: Partial<Row>;
  toStartedColumns(nowMs: number): Partial<Row>;
  toProgressColumns(done: number, total: number): Partial<Row>;
  toFinishedColumns(nowMs: number): Partial<Row>;
  /** How to make a request smaller, for the error of a job that crashes its process. */
  readonly advice: string;
  /**
   * The first write of the transaction that adds a job. It precedes all reads, because SQLite rejects a write after a
   * read if another process has written in between.
   */
  lockOwner(tx: Transaction<Tables>, job: New): Promise<unknown>;
}

/** The columns that the queue uses; the tables have more. */
type QueueColumn = 'id' | 'ordinal' | 'place' | 'state' | 'runner' | 'attempts' | 'error' | 'idempotency_key';
type OwnerColumn = 'key_id' | 'owner' | 'workspace';
type JobColumns = Pick<ExportJobRow & BacktestRow, QueueColumn | OwnerColumn>;
interface QueueTables {
  jobs: JobColumns;
}

/** Limit of attempts: a job that crashes the process would otherwise crash it forever. */
const attemptsMax = 3;

const openStates: readonly JobState[] = ['waiting', 'running'];
const finalStates: readonly JobState[] = ['done', 'failed', 'cancelled'];

/** Maximum number of finished jobs removed when a job is added. */
const deletedPerAddMax = 100;

/** Maximum number of users whose turns are remembered, and of users considered for the next turn. */
const servedUsersMax = 1000;

type SelectDatabase = Pick<Kysely<QueueTables>, 'selectFrom'>;

/** @param leaseId lease ID of the archive */
export function createJobQueue<Row extends Pick<JobColumns, QueueColumn>, New>(
  workspace: WorkspaceDatabase,
  leaseId: string,
  kind: JobKind<Row, New>,
): JobQueue<Row, New> {
  // The columns above have the same names and types in every table of jobs.
  const db = workspace as unknown as Kysely<QueueTables>;
  const name = kind.table as string as 'jobs';
  const user = kind.ownerColumns[0];
  const rows = (of: SelectDatabase = db) => of.selectFrom(name).where('place', '=', leaseId);
  const updateJobs = (state: JobState) => db.updateTable(name).where('place', '=', leaseId).where('state', '=', state);
  const updateOwn = (id: string, runner: number) =>
    updateJobs('running').where('id', '=', id).where('runner', '=', runner);
  async function updateOne(id: string, runner: number, values: Partial<Row>): Promise<boolean> {
    const { numUpdatedRows } = await updateOwn(id, runner)
      .set(values as Partial<JobColumns>)
      .executeTakeFirst();
    return numUpdatedRows === 1n;
  }
  const waiting = { ...kind.waitingColumns, state: 'waiting', runner: null } as Partial<JobColumns>;

  /** Jobs of a job's owner; with only the first owner column, jobs of its user. */
  const ofOwner = (of: SelectDatabase, job: New, columns: readonly OwnerColumn[] = kind.ownerColumns) => {
    let own = rows(of);
    for (const column of columns) own = own.where(column, '=', (job as JobColumns)[column]);
    return own;
  };

  async function findKnown(of: SelectDatabase, job: New): Promise<Row | null> {
    const { idempotency_key: key } = job as JobColumns;
    if (key === null) return null;
    const known = await ofOwner(of, job).where('idempotency_key', '=', key).selectAll().executeTakeFirst();
    return (known as Row | undefined) ?? null;
  }

  async function insert(tx: Transaction<QueueTables>, job: New, state: JobState): Promise<Row> {
    const { latest } = await rows(tx)
      .select(({ fn }) => fn.max<number | null>('ordinal').as('latest'))
      .executeTakeFirstOrThrow();
    const assigned = { place: leaseId, state, ordinal: (latest ?? 0) + 1 };
    const row = { ...kind.waitingColumns, attempts: 0, ...job, ...assigned } as unknown as JobColumns;
    return (await tx.insertInto(name).values(row).returningAll().executeTakeFirstOrThrow()) as unknown as Row;
  }

  async function removeOldJobs(tx: Transaction<QueueTables>, job: New, keptMax: number): Promise<void> {
    const old = ofOwner(tx, job)
      .where('state', 'in', finalStates)
      .orderBy('ordinal', 'desc')
      .offset(keptMax)
      .limit(deletedPerAddMax);
    const ids = (await old.select('id').execute()).map(({ id }) => id);
    if (ids.length > 0) await tx.deleteFrom(name).where('id', 'in', ids).execute();
  }

  async function addIn(tx: Transaction<QueueTables>, job: New, waitingMax: number, keptMax: number) {
    await kind.lockOwner(tx as unknown as Transaction<Tables>, job);
    const known = await findKnown(tx, job);
    if (known !== null) return { known };
    const { unfinished } = await ofOwner(tx, job, [user])
      .where('state', 'in', openStates)
      .select(({ fn }) => fn.countAll<number>().as('unfinished'))
      .executeTakeFirstOrThrow();
    if (unfinished >= waitingMax) return 'full';
    const row = await insert(tx, job, 'waiting');
    await removeOldJobs(tx, job, keptMax);
    return row;
  }

  // Number of each user's last turn; greater is later.
  const served = new LRUCache<string, number>({ max: servedUsersMax });
  let turns = 0;

  /** The oldest job of the user whose last turn is longest ago. */
  async function findNextWaiting(): Promise<{ readonly id: string; readonly of: string } | null> {
    const all = () => rows().where('state', '=', 'waiting');
    const oldest = all()
      .groupBy(user)
      .select(({ fn, ref }) => [ref(user).as('of'), fn.min('ordinal').as('first')]);
    const users = (await oldest.orderBy('first').limit(servedUsersMax).execute()).map((row) => String(row.of));
    const [of] = users.sort((a, b) => (served.peek(a) ?? 0) - (served.peek(b) ?? 0));
    if (of === undefined) return null;
    const job = await all().where(user, '=', of).orderBy('ordinal').limit(1).select('id').executeTakeFirst();
    return job === undefined ? null : { id: job.id, of };
  }

  return {
    async add(job, waitingMax, keptMax) {
      try {
        return await db.transaction().execute((tx) => addIn(tx, job, waitingMax, keptMax));
      } catch (error) {
        // If two processes add the same idempotency key at the same time, the index rejects one.
        const known = await findKnown(db, job);
        if (known === null) throw error;
        return { known };
      }
    },
    addFinished: (job, keptMax) =>
      db.transaction().execute(async (tx) => {
        await kind.lockOwner(tx as unknown as Transaction<Tables>, job);
        await insert(tx, job, 'done');
        await removeOldJobs(tx, job, keptMax);
      }),
    remove: async (id) => void (await db.deleteFrom(name).where('place', '=', leaseId).where('id', '=', id).execute()),
    async take(runner, nowMs) {
      for (;;) {
        const next = await findNextWaiting();
        if (next === null) return null;
        const started = { ...kind.toStartedColumns(nowMs), state: 'running', runner } as Partial<JobColumns>;
        const taken = await updateJobs('waiting')
          .where('id', '=', next.id)
          .set(({ eb }) => ({ ...started, attempts: eb('attempts', '+', 1) }))
          .returningAll()
          .executeTakeFirst();
        if (taken === undefined) continue;
        served.set(next.of, ++turns);
        return taken as unknown as Row;
      }
    },
    progress: (id, runner, done, total) => updateOne(id, runner, kind.toProgressColumns(done, total)),
    finish: (id, runner, result, nowMs) =>
      updateOne(id, runner, {
        ...kind.toFinishedColumns(nowMs),
        ...result,
        state: 'error' in result ? 'failed' : 'done',
        runner: null,
      }),
    async release(id, runner) {
      await updateOwn(id, runner)
        .set(({ eb }) => ({ ...waiting, attempts: eb('attempts', '-', 1) }))
        .execute();
    },
    async releaseAll(nowMs) {
      const error = `The job was started ${attemptsMax} times, and each time the service ended first. Reduce the request: ${kind.advice}.`;
      const failed = { ...kind.toFinishedColumns(nowMs), state: 'failed', runner: null, error } as Partial<JobColumns>;
      await updateJobs('running').where('attempts', '>=', attemptsMax).set(failed).execute();
      await updateJobs('running').set(waiting).execute();
    },
  };
}
