import type { Kysely, Transaction } from 'kysely';
import { LRUCache } from 'lru-cache';
import { nextOrdinal } from './owner.ts';
import type { BacktestRow, JobState, OwnerColumns, Tables } from './tables.ts';
import type { WorkspaceDatabase } from './workspace-database.ts';

/** The columns of a new backtest. */
export type NewBacktest = OwnerColumns &
  Pick<
    BacktestRow,
    'id' | 'idempotency_key' | 'body_sha256' | 'created_at' | 'request' | 'strategy' | 'strategy_version'
  >;

/** The queue of one archive's backtests. A job waits, is taken by one runner, and changes state in single updates. */
export interface JobQueue {
  /**
   * Adds a job and assigns its `ordinal`. Returns `full` if its user has `waitingMax` unfinished jobs, and `known` if its
   * owner sent this idempotency key before. Of the owner's finished jobs the newest `keptMax` are kept.
   */
  add(job: NewBacktest, waitingMax: number, keptMax: number): Promise<BacktestRow | 'full' | { known: BacktestRow }>;
  /** Adds the result of a job that was run elsewhere; of the owner's finished jobs the newest `keptMax` are kept. */
  addFinished(job: NewBacktest & Partial<BacktestRow>, keptMax: number): Promise<void>;
  /** Removes a job in any state; its runner notices at the next update. */
  remove(id: string): Promise<void>;
  /** Takes a waiting job and marks it as running; users take turns, oldest job first. */
  take(runner: number, nowMs: number): Promise<BacktestRow | null>;
  /** False if the job was removed or no longer belongs to this runner. */
  progress(id: string, runner: number, done: number, total: number): Promise<boolean>;
  /** Stores the result. False if the job was removed or no longer belongs to this runner. */
  finish(id: string, runner: number, result: JobResult<BacktestRow>, nowMs: number): Promise<boolean>;
  /** Returns a started job to the queue; the attempt does not count. */
  release(id: string, runner: number): Promise<void>;
  /** Returns all started jobs to the queue; those with `attemptsMax` attempts fail. */
  releaseAll(nowMs: number): Promise<void>;
}

/** The columns set when a job ends; for a failed job, its error. */
export type JobResult<Row> = Partial<Row> | { readonly error: string };

/** Limit of attempts: a job that crashes the process would otherwise crash it forever. */
const attemptsMax = 3;

const openStates: readonly JobState[] = ['waiting', 'running'];
const finalStates: readonly JobState[] = ['done', 'failed'];

/** Maximum number of finished jobs removed when a job is added. */
const deletedPerAddMax = 100;

/** Maximum number of users whose turns are remembered, and of users considered for the next turn. */
const servedUsersMax = 1000;

const waitingColumns = {
  state: 'waiting',
  runner: null,
  started_at: null,
  batches_done: 0,
  batches_total: null,
} as const;

type SelectDatabase = Pick<Kysely<Tables>, 'selectFrom'>;

/** @param leaseId lease ID of the archive */
export function createJobQueue(db: WorkspaceDatabase, leaseId: string): JobQueue {
  const rows = (of: SelectDatabase = db) => of.selectFrom('backtests').where('lease_id', '=', leaseId);
  const updateJobs = (state: JobState) =>
    db.updateTable('backtests').where('lease_id', '=', leaseId).where('state', '=', state);
  const updateOwn = (id: string, runner: number) =>
    updateJobs('running').where('id', '=', id).where('runner', '=', runner);
  async function updateOne(id: string, runner: number, values: Partial<BacktestRow>): Promise<boolean> {
    const { numUpdatedRows } = await updateOwn(id, runner).set(values).executeTakeFirst();
    return numUpdatedRows === 1n;
  }
  const ofOwner = (of: SelectDatabase, { owner, workspace }: OwnerColumns) =>
    rows(of).where('owner', '=', owner).where('workspace', '=', workspace);

  async function findKnown(of: SelectDatabase, job: NewBacktest): Promise<BacktestRow | null> {
    if (job.idempotency_key === null) return null;
    const known = ofOwner(of, job).where('idempotency_key', '=', job.idempotency_key);
    return (await known.selectAll().executeTakeFirst()) ?? null;
  }

  async function insert(
    tx: Transaction<Tables>,
    job: NewBacktest & Partial<BacktestRow>,
    state: JobState,
  ): Promise<BacktestRow> {
    const { latest } = await rows(tx)
      .select(({ fn }) => fn.max<number | null>('ordinal').as('latest'))
      .executeTakeFirstOrThrow();
    const assigned = { lease_id: leaseId, state, ordinal: (latest ?? 0) + 1 };
    const row = { ...waitingColumns, attempts: 0, ...job, ...assigned } as BacktestRow;
    return await tx.insertInto('backtests').values(row).returningAll().executeTakeFirstOrThrow();
  }

  async function removeOldJobs(tx: Transaction<Tables>, job: NewBacktest, keptMax: number): Promise<void> {
    const old = ofOwner(tx, job)
      .where('state', 'in', finalStates)
      .orderBy('ordinal', 'desc')
      .offset(keptMax)
      .limit(deletedPerAddMax);
    const ids = (await old.select('id').execute()).map(({ id }) => id);
    if (ids.length > 0) await tx.deleteFrom('backtests').where('id', 'in', ids).execute();
  }

  async function addIn(tx: Transaction<Tables>, job: NewBacktest, waitingMax: number, keptMax: number) {
    await lockOwner(tx, job);
    const known = await findKnown(tx, job);
    if (known !== null) return { known };
    const { unfinished } = await rows(tx)
      .where('owner', '=', job.owner)
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
  async function findNextWaiting(): Promise<{ readonly id: string; readonly owner: string } | null> {
    const all = () => rows().where('state', '=', 'waiting');
    const oldest = all()
      .groupBy('owner')
      .select(({ fn }) => ['owner', fn.min('ordinal').as('first')]);
    const users = (await oldest.orderBy('first').limit(servedUsersMax).execute()).map(({ owner }) => owner);
    const [owner] = users.sort((a, b) => (served.peek(a) ?? 0) - (served.peek(b) ?? 0));
    if (owner === undefined) return null;
    const job = await all().where('owner', '=', owner).orderBy('ordinal').limit(1).select('id').executeTakeFirst();
    return job === undefined ? null : { id: job.id, owner };
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
        await lockOwner(tx, job);
        await insert(tx, job, 'done');
        await removeOldJobs(tx, job, keptMax);
      }),
    remove: async (id) =>
      void (await db.deleteFrom('backtests').where('lease_id', '=', leaseId).where('id', '=', id).execute()),
    async take(runner, nowMs) {
      for (;;) {
        const next = await findNextWaiting();
        if (next === null) return null;
        const taken = await updateJobs('waiting')
          .where('id', '=', next.id)
          .set(({ eb }) => ({ state: 'running', runner, started_at: nowMs, attempts: eb('attempts', '+', 1) }))
          .returningAll()
          .executeTakeFirst();
        if (taken === undefined) continue;
        served.set(next.owner, ++turns);
        return taken;
      }
    },
    progress: (id, runner, batches_done, batches_total) => updateOne(id, runner, { batches_done, batches_total }),
    finish: (id, runner, result, nowMs) =>
      updateOne(id, runner, {
        finished_at: nowMs,
        ...result,
        state: 'error' in result ? 'failed' : 'done',
        runner: null,
      }),
    async release(id, runner) {
      await updateOwn(id, runner)
        .set(({ eb }) => ({ ...waitingColumns, attempts: eb('attempts', '-', 1) }))
        .execute();
    },
    async releaseAll(nowMs) {
      const error = `The job was started ${attemptsMax} times, and each time the service ended first. Reduce the request: fewer symbols, a shorter time or fewer grid points.`;
      await updateJobs('running')
        .where('attempts', '>=', attemptsMax)
        .set({ finished_at: nowMs, state: 'failed', runner: null, error })
        .execute();
      await updateJobs('running').set(waitingColumns).execute();
    },
  };
}

/**
 * The first write of the transaction that adds a job. It serializes saves, so that the ordinals of an owner are unique and
 * the jobs of a user are counted without a race. It precedes all reads, because SQLite rejects a write after a read if
 * another process has written in between.
 */
async function lockOwner(tx: Transaction<Tables>, { owner, workspace }: OwnerColumns): Promise<void> {
  await nextOrdinal(tx, { owner, workspace: '' });
  if (workspace !== '') await nextOrdinal(tx, { owner, workspace });
}
