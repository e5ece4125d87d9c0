import type { Kysely, Transaction } from 'kysely';
import { LRUCache } from 'lru-cache';
import type { WorkspaceDatabase } from './database.ts';
import type { BacktestRow, ExportJobRow, JobState, Tables } from './tables.ts';

/** A queue of jobs of one kind. A job waits, is taken by one runner, and changes state by single updates. */
export interface JobQueue<Row> {
  /**
   * Adds a job and assigns its `ordinal`. Returns `full` if its user has `waitingMax` unfinished jobs, and `known` if its
   * owner sent this idempotency key before. Of the owner's finished jobs the newest `keptMax` are kept.
   */
  add(job: Row, waitingMax: number, keptMax: number): Promise<Row | 'full' | { known: Row }>;
  /** Removes a job in any state; its runner notices at the next update. */
  remove(id: string): Promise<void>;
  /** Takes a waiting job, marks it as running and sets `values`; users take turns, oldest job first. */
  take(runner: number, values?: (row: Row) => Partial<Row>): Promise<Row | null>;
  /** Updates a job of this runner; false if it no longer belongs to the runner, as it was removed. */
  update(id: string, runner: number, values: Partial<Row>): Promise<boolean>;
  /** Returns all started jobs to the queue. */
  releaseAll(): Promise<void>;
}

/** The columns that the queue uses; the tables have more. */
type QueueColumn = 'id' | 'ordinal' | 'place' | 'state' | 'runner' | 'idempotency_key';
type OwnerColumn = 'key_id' | 'owner' | 'workspace';
type JobColumns = Pick<ExportJobRow & BacktestRow, QueueColumn | OwnerColumn>;
interface QueueTables {
  jobs: JobColumns;
}

interface JobQueueOptions<Row> {
  readonly table: 'export_jobs' | 'backtests';
  /** Lease ID of the archive. */
  readonly leaseId: string;
  /** The columns of the owner; jobs with the same first column are of one user. */
  readonly ownerColumns: readonly [OwnerColumn, ...OwnerColumn[]];
  /**
   * Starts the transaction that adds a job with a write: SQLite rejects a write after a read if another process has
   * written in between.
   */
  lockOwner(tx: Transaction<Tables>, job: Row): Promise<unknown>;
  /** Values of a waiting job, besides its state. */
  readonly waitingColumns: Partial<Row>;
  parseRow(row: Row): Row;
}

/** Limit of attempts: a job that crashes the process would otherwise crash it forever. */
export const attemptsMax = 3;

const openStates: readonly JobState[] = ['waiting', 'running'];
export const finalStates: readonly JobState[] = ['done', 'failed', 'cancelled'];

/** Maximum number of finished jobs removed when a job is added. */
export const deletedPerAddMax = 100;

/** Users whose turns are remembered, and that are considered for the next turn. */
const servedUsersMax = 1000;

type SelectDatabase = Pick<Kysely<QueueTables>, 'selectFrom'>;

export function createJobQueue<Row extends Pick<JobColumns, QueueColumn>>(
  workspace: WorkspaceDatabase,
  { table, leaseId, ownerColumns, lockOwner, waitingColumns, parseRow }: JobQueueOptions<Row>,
): JobQueue<Row> {
  // The columns above have the same names and types in every table of jobs.
  const db = workspace as unknown as Kysely<QueueTables>;
  const name = table as string as 'jobs';
  const user = ownerColumns[0];
  const rows = (of: SelectDatabase = db) => of.selectFrom(name).where('place', '=', leaseId);
  const updateJobs = () => db.updateTable(name).where('place', '=', leaseId);
  const runningJob = (id: string, runner: number) =>
    updateJobs().where('id', '=', id).where('state', '=', 'running').where('runner', '=', runner);
  const toRow = (row: unknown): Row => parseRow(row as Row);
  const waitingValues = { ...waitingColumns, state: 'waiting', runner: null } as Partial<JobColumns>;
  /** Jobs of a job's owner, or with only the first column those of its user. */
  const ofOwner = (of: SelectDatabase, job: Row, columns: readonly OwnerColumn[] = ownerColumns) => {
    let own = rows(of);
    for (const column of columns) own = own.where(column, '=', (job as unknown as JobColumns)[column]);
    return own;
  };
  async function knownAs(of: SelectDatabase, job: Row): Promise<Row | null> {
    if (job.idempotency_key === null) return null;
    const matching = ofOwner(of, job).where('idempotency_key', '=', job.idempotency_key);
    const row = await matching.selectAll().executeTakeFirst();
    return row === undefined ? null : toRow(row);
  }
  async function addIn(tx: Transaction<QueueTables>, job: Row, waitingMax: number, keptMax: number) {
    await lockOwner(tx as unknown as Transaction<Tables>, job);
    const existing = await knownAs(tx, job);
    if (existing !== null) return { known: existing };
    const unfinished = ofOwner(tx, job, [user]).where('state', 'in', openStates);
    if ((await readCount(unfinished.select(({ fn }) => fn.countAll().as('n')))) >= waitingMax) return 'full';
    const latest = await readCount(rows(tx).select(({ fn }) => fn.max('ordinal').as('n')));
    const row = { ...job, ordinal: latest + 1 };
    await tx
      .insertInto(name)
      .values(row as unknown as JobColumns)
      .execute();
    const old = ofOwner(tx, job)
      .where('state', 'in', finalStates)
      .orderBy('ordinal', 'desc')
      .offset(keptMax)
      .limit(deletedPerAddMax);
    const ids = (await old.select('id').execute()).map(({ id }) => id);
    if (ids.length > 0) await tx.deleteFrom(name).where('id', 'in', ids).execute();
    return row;
  }
  // Number of each user's last turn; greater is later.
  const served = new LRUCache<string, number>({ max: servedUsersMax });
  let turns = 0;

  /** The oldest job of the user whose last turn is longest ago. */
  async function nextWaiting(): Promise<{ id: string; of: string; row: Row } | undefined> {
    const waiting = () => rows().where('state', '=', 'waiting');
    const oldest = waiting()
      .groupBy(user)
      .select(({ fn, ref }) => [ref(user).as('of'), fn.min('ordinal').as('first')]);
    const users = (await oldest.orderBy('first').limit(servedUsersMax).execute()).map((row) => String(row.of));
    const [next] = users.sort((a, b) => (served.peek(a) ?? 0) - (served.peek(b) ?? 0));
    if (next === undefined) return undefined;
    const row = await waiting().where(user, '=', next).orderBy('ordinal').limit(1).selectAll().executeTakeFirst();
    return row === undefined ? undefined : { id: row.id, of: next, row: toRow(row) };
  }

  return {
    async add(job, waitingMax, keptMax) {
      try {
        return await db.transaction().execute((tx) => addIn(tx, job, waitingMax, keptMax));
      } catch (error) {
        // If two processes add the same idempotency key at the same time, the index rejects one.
        const existing = await knownAs(db, job);
        if (existing === null) throw error;
        return { known: existing };
      }
    },
    remove: async (id) => void (await db.deleteFrom(name).where('place', '=', leaseId).where('id', '=', id).execute()),
    async take(runner, values = () => ({})) {
      for (;;) {
        const next = await nextWaiting();
        if (next === undefined) return null;
        const taken = { ...waitingColumns, ...values(next.row), state: 'running', runner } as Partial<JobColumns>;
        const update = updateJobs().where('id', '=', next.id).where('state', '=', 'waiting').set(taken);
        if (!hasUpdatedOne(await update.executeTakeFirst())) continue;
        served.set(next.of, ++turns);
        return { ...next.row, ...taken };
      }
    },
    update: async (id, runner, values) => hasUpdatedOne(await runningJob(id, runner).set(values).executeTakeFirst()),
    releaseAll: async () => void (await updateJobs().where('state', '=', 'running').set(waitingValues).execute()),
  };
}

/** The number that a query returns; drivers may return 64-bit integers as text. */
export const readCount = async (query: { executeTakeFirst(): Promise<{ n: unknown } | undefined> }): Promise<number> =>
  Number((await query.executeTakeFirst())?.n ?? 0);

const hasUpdatedOne = (result: { readonly numUpdatedRows: bigint } | undefined): boolean =>
  result?.numUpdatedRows === 1n;
