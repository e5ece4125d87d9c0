import type { Kysely, Transaction } from 'kysely';
import { LRUCache } from 'lru-cache';
import type { WorkspaceDatabase } from './database.ts';
import type { BacktestRow, ExportJobRow, JobState, Tables } from './tables.ts';

/** What every kind of job does alike: it waits for its turn, is taken by one runner, and changes hands by single updates. */
export interface JobQueue<Row> {
  /**
   * Adds a job, its `ordinal` being given here. `full` where its user has `waitingMax` that are not finished; `known` where
   * its owner sent this idempotency key before. Of the owner's finished jobs the newest `statementsMax` stay.
   */
  add(job: Row, waitingMax: number, keptMax: number): Promise<Row | 'full' | { known: Row }>;
  /** Whatever its state: whoever is at it finds that it is no longer its. */
  remove(id: string): Promise<void>;
  /** One that waits, which is then running and has these values: users take turns, and of each the oldest comes first. */
  take(runner: number, values?: (row: Row) => Partial<Row>): Promise<Row | null>;
  /** Changes one that this runner is at; false where it is no longer: it was removed. */
  update(id: string, runner: number, values: Partial<Row>): Promise<boolean>;
  /** Puts back all that was begun. */
  releaseAll(): Promise<void>;
}

/** What the queue looks at; the tables have more. */
type QueueColumn = 'id' | 'ordinal' | 'place' | 'state' | 'runner' | 'idempotency_key';
type OwnerColumn = 'key_id' | 'owner' | 'workspace';
type JobColumns = Pick<ExportJobRow & BacktestRow, QueueColumn | OwnerColumn>;
interface QueueTables {
  jobs: JobColumns;
}

export interface JobQueueOptions<Row> {
  readonly table: 'export_jobs' | 'backtests';
  /** The archive whose jobs these are. */
  readonly leaseId: string;
  /** The columns that say whose a job is; those with the same first one are of one user. */
  readonly ownerColumns: readonly [OwnerColumn, ...OwnerColumn[]];
  /**
   * Begins the addition of a job by a write: SQLite refuses one that comes after a read where another process has written in
   * between.
   */
  lockOwner(tx: Transaction<Tables>, job: Row): Promise<unknown>;
  /** What one has that nobody is at, beside its state. */
  readonly waitingColumns: Partial<Row>;
  parseRow(row: Row): Row;
}

/** A process that dies of a job would die of it for ever. */
export const attemptsMax = 3;

const openStates: readonly JobState[] = ['waiting', 'running'];
export const finalStates: readonly JobState[] = ['done', 'failed', 'cancelled'];

/** Finished jobs beyond those kept that go with one new job. */
export const deletedPerAddMax = 100;

/** Users whose turns are remembered, and that are looked at for the next one. */
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
  const changed = () => db.updateTable(name).where('place', '=', leaseId);
  const mine = (id: string, runner: number) =>
    changed().where('id', '=', id).where('state', '=', 'running').where('runner', '=', runner);
  const whole = (row: unknown): Row => parseRow(row as Row);
  const waitsAgain = { ...waitingColumns, state: 'waiting', runner: null } as Partial<JobColumns>;
  /** Those of the owner of a job, or by the first column alone those of its user. */
  const ofOwner = (of: SelectDatabase, job: Row, columns: readonly OwnerColumn[] = ownerColumns) => {
    let own = rows(of);
    for (const column of columns) own = own.where(column, '=', (job as unknown as JobColumns)[column]);
    return own;
  };
  async function knownAs(of: SelectDatabase, job: Row): Promise<Row | null> {
    if (job.idempotency_key === null) return null;
    const found = ofOwner(of, job).where('idempotency_key', '=', job.idempotency_key);
    const row = await found.selectAll().executeTakeFirst();
    return row === undefined ? null : whole(row);
  }
  async function addIn(tx: Transaction<QueueTables>, job: Row, waitingMax: number, keptMax: number) {
    await lockOwner(tx as unknown as Transaction<Tables>, job);
    const known = await knownAs(tx, job);
    if (known !== null) return { known };
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
  // When each user had the last turn, the greater the later.
  const served = new LRUCache<string, number>({ max: servedUsersMax });
  let turns = 0;

  /** The oldest job of whom has waited longest for a turn. */
  async function nextWaiting(): Promise<{ id: string; of: string; row: Row } | undefined> {
    const waiting = () => rows().where('state', '=', 'waiting');
    const oldest = waiting()
      .groupBy(user)
      .select(({ fn, ref }) => [ref(user).as('of'), fn.min('ordinal').as('first')]);
    const users = (await oldest.orderBy('first').limit(servedUsersMax).execute()).map((row) => String(row.of));
    const [next] = users.sort((a, b) => (served.peek(a) ?? 0) - (served.peek(b) ?? 0));
    if (next === undefined) return undefined;
    const row = await waiting().where(user, '=', next).orderBy('ordinal').limit(1).selectAll().executeTakeFirst();
    return row === undefined ? undefined : { id: row.id, of: next, row: whole(row) };
  }

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
    remove: async (id) => void (await db.deleteFrom(name).where('place', '=', leaseId).where('id', '=', id).execute()),
    async take(runner, values = () => ({})) {
      for (;;) {
        const next = await nextWaiting();
        if (next === undefined) return null;
        const taken = { ...waitingColumns, ...values(next.row), state: 'running', runner } as Partial<JobColumns>;
        const update = changed().where('id', '=', next.id).where('state', '=', 'waiting').set(taken);
        if (!hasUpdatedOne(await update.executeTakeFirst())) continue;
        served.set(next.of, ++turns);
        return { ...next.row, ...taken };
      }
    },
    update: async (id, runner, values) => hasUpdatedOne(await mine(id, runner).set(values).executeTakeFirst()),
    releaseAll: async () => void (await changed().where('state', '=', 'running').set(waitsAgain).execute()),
  };
}

/** A number that a query gives; drivers give 64-bit integers as text where they are careful. */
export const readCount = async (query: { executeTakeFirst(): Promise<{ n: unknown } | undefined> }): Promise<number> =>
  Number((await query.executeTakeFirst())?.n ?? 0);

const hasUpdatedOne = (result: { readonly numUpdatedRows: bigint } | undefined): boolean =>
  result?.numUpdatedRows === 1n;
