import type { Kysely, Transaction } from 'kysely';
import { LRUCache } from 'lru-cache';
import { nextOrdinal } from './owner.ts';
import {
  type BacktestRow,
  type JobState,
  type OwnerColumns,
  type PageRequest,
  type RowPage,
  type Tables,
  toRowPage,
} from './tables.ts';
import type { WorkspaceDatabase } from './workspace-database.ts';

export type NewBacktest = OwnerColumns &
  Pick<
    BacktestRow,
    'id' | 'idempotency_key' | 'body_sha256' | 'created_at' | 'request' | 'strategy' | 'strategy_version'
  >;

/** A backtest without its result, which may be large. */
export type ListedBacktest = Omit<BacktestRow, 'strategy' | 'result' | 'attempts' | 'body_sha256'>;

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

const listedColumns = [
  ...(['id', 'ordinal', 'owner', 'workspace', 'idempotency_key', 'created_at', 'lease_id', 'state'] as const),
  ...(['request', 'strategy_version', 'runner', 'started_at', 'finished_at', 'batches_done'] as const),
  ...(['batches_total', 'error', 'value', 'trades_rows', 'trades_bytes', 'trades_sha256'] as const),
];

type SelectDatabase = Pick<Kysely<Tables>, 'selectFrom'>;

/**
 * The saved backtests of one archive, and the queue of their jobs. A job waits, is taken by one runner, and changes state in
 * single updates. Without an owner: of all users.
 */
export class BacktestStore {
  private readonly db: WorkspaceDatabase;
  private readonly leaseId: string;
  /** Number of each user's last turn; greater is later. */
  private readonly served = new LRUCache<string, number>({ max: servedUsersMax });
  private turns = 0;

  /** @param leaseId lease ID of the archive */
  constructor(db: WorkspaceDatabase, leaseId: string) {
    this.db = db;
    this.leaseId = leaseId;
  }

  /** Null if it does not exist or has another owner. */
  async get(owner: OwnerColumns | null, id: string): Promise<BacktestRow | null> {
    return (await this.rows(owner).where('id', '=', id).selectAll().executeTakeFirst()) ?? null;
  }

  /** The same without the result. */
  async getListed(owner: OwnerColumns, id: string): Promise<ListedBacktest | null> {
    return (await this.rows(owner).where('id', '=', id).select(listedColumns).executeTakeFirst()) ?? null;
  }

  /** The owner's backtest with an idempotency key. */
  async findByIdempotencyKey(
    owner: OwnerColumns,
    key: string,
    of: SelectDatabase = this.db,
  ): Promise<BacktestRow | null> {
    const known = this.rows(owner, of).where('idempotency_key', '=', key);
    return (await known.selectAll().executeTakeFirst()) ?? null;
  }

  /** Newest first. */
  async list(owner: OwnerColumns | null, { limit, before }: PageRequest): Promise<RowPage<ListedBacktest>> {
    const page = this.rows(owner)
      .$if(before !== null, (query) => query.where('ordinal', '<', before!))
      .orderBy('ordinal', 'desc')
      .orderBy('id')
      .limit(limit + 1);
    return toRowPage(await page.select(listedColumns).execute(), limit);
  }

  /** Total size of the files with the trades of a user, in all workspaces. */
  async sumTradesBytes(user: string): Promise<number> {
    const { bytes } = await this.rows(null)
      .where('owner', '=', user)
      .select(({ fn }) => fn.sum<number | null>('trades_bytes').as('bytes'))
      .executeTakeFirstOrThrow();
    return bytes ?? 0;
  }

  /** IDs of backtests that have a file with their trades, or are running and may write one. */
  async listWithTrades(): Promise<string[]> {
    const mayHaveFile = this.rows(null).where(({ or, eb }) =>
      or([eb('state', '=', 'running'), eb('trades_bytes', 'is not', null)]),
    );
    return (await mayHaveFile.select('id').execute()).map(({ id }) => id);
  }

  /**
   * Adds a job and assigns its `ordinal`. Returns `full` if its user has `waitingMax` unfinished jobs, and `known` if its
   * owner sent this idempotency key before. Of the owner's finished jobs the newest `keptMax` are kept.
   */
  async add(
    job: NewBacktest,
    waitingMax: number,
    keptMax: number,
  ): Promise<BacktestRow | 'full' | { known: BacktestRow }> {
    try {
      return await this.db.transaction().execute((tx) => this.addIn(tx, job, waitingMax, keptMax));
    } catch (error) {
      // If two processes add the same idempotency key at the same time, the index rejects one.
      const known = await this.findKnown(this.db, job);
      if (known === null) throw error;
      return { known };
    }
  }

  /** Adds the result of a job that was run elsewhere; of the owner's finished jobs the newest `keptMax` are kept. */
  async addFinished(job: NewBacktest & Partial<BacktestRow>, keptMax: number): Promise<void> {
    await this.db.transaction().execute(async (tx) => {
      await lockOwner(tx, job);
      await this.insert(tx, job, 'done');
      await this.removeOldJobs(tx, job, keptMax);
    });
  }

  /** Removes a job in any state; its runner notices at the next update. */
  async remove(id: string): Promise<void> {
    await this.db.deleteFrom('backtests').where('lease_id', '=', this.leaseId).where('id', '=', id).execute();
  }

  /** Takes a waiting job and marks it as running; users take turns, oldest job first. */
  async take(runner: number, nowMs: number): Promise<BacktestRow | null> {
    for (;;) {
      const next = await this.findNextWaiting();
      if (next === null) return null;
      const taken = await this.updateJobs('waiting')
        .where('id', '=', next.id)
        .set(({ eb }) => ({ state: 'running', runner, started_at: nowMs, attempts: eb('attempts', '+', 1) }))
        .returningAll()
        .executeTakeFirst();
      if (taken === undefined) continue;
      this.served.set(next.owner, ++this.turns);
      return taken;
    }
  }

  /** False if the job was removed or no longer belongs to this runner. */
  progress(id: string, runner: number, batches_done: number, batches_total: number): Promise<boolean> {
    return this.updateOne(id, runner, { batches_done, batches_total });
  }

  /** Stores the result. False if the job was removed or no longer belongs to this runner. */
  finish(id: string, runner: number, result: JobResult<BacktestRow>, nowMs: number): Promise<boolean> {
    const state = 'error' in result ? 'failed' : 'done';
    return this.updateOne(id, runner, { finished_at: nowMs, ...result, state, runner: null });
  }

  /** Returns a started job to the queue; the attempt does not count. */
  async release(id: string, runner: number): Promise<void> {
    await this.updateOwn(id, runner)
      .set(({ eb }) => ({ ...waitingColumns, attempts: eb('attempts', '-', 1) }))
      .execute();
  }

  /** Returns all started jobs to the queue; those with `attemptsMax` attempts fail. */
  async releaseAll(nowMs: number): Promise<void> {
    const error = `The job was started ${attemptsMax} times, and each time the service ended first. Reduce the request: fewer symbols, a shorter time or fewer grid points.`;
    await this.updateJobs('running')
      .where('attempts', '>=', attemptsMax)
      .set({ finished_at: nowMs, state: 'failed', runner: null, error })
      .execute();
    await this.updateJobs('running').set(waitingColumns).execute();
  }

  private rows(of: OwnerColumns | null, db: SelectDatabase = this.db) {
    const all = db.selectFrom('backtests').where('lease_id', '=', this.leaseId);
    return of === null ? all : all.where('owner', '=', of.owner).where('workspace', '=', of.workspace);
  }

  private updateJobs(state: JobState) {
    return this.db.updateTable('backtests').where('lease_id', '=', this.leaseId).where('state', '=', state);
  }

  private updateOwn(id: string, runner: number) {
    return this.updateJobs('running').where('id', '=', id).where('runner', '=', runner);
  }

  private async updateOne(id: string, runner: number, values: Partial<BacktestRow>): Promise<boolean> {
    const { numUpdatedRows } = await this.updateOwn(id, runner).set(values).executeTakeFirst();
    return numUpdatedRows === 1n;
  }

  private async findKnown(of: SelectDatabase, job: NewBacktest): Promise<BacktestRow | null> {
    return job.idempotency_key === null ? null : await this.findByIdempotencyKey(job, job.idempotency_key, of);
  }

  private async addIn(tx: Transaction<Tables>, job: NewBacktest, waitingMax: number, keptMax: number) {
    await lockOwner(tx, job);
    const known = await this.findKnown(tx, job);
    if (known !== null) return { known };
    const { unfinished } = await this.rows(null, tx)
      .where('owner', '=', job.owner)
      .where('state', 'in', openStates)
      .select(({ fn }) => fn.countAll<number>().as('unfinished'))
      .executeTakeFirstOrThrow();
    if (unfinished >= waitingMax) return 'full';
    const row = await this.insert(tx, job, 'waiting');
    await this.removeOldJobs(tx, job, keptMax);
    return row;
  }

  private async insert(
    tx: Transaction<Tables>,
    job: NewBacktest & Partial<BacktestRow>,
    state: JobState,
  ): Promise<BacktestRow> {
    const { latest } = await this.rows(null, tx)
      .select(({ fn }) => fn.max<number | null>('ordinal').as('latest'))
      .executeTakeFirstOrThrow();
    const assigned = { lease_id: this.leaseId, state, ordinal: (latest ?? 0) + 1 };
    const row = { ...waitingColumns, attempts: 0, ...job, ...assigned } as BacktestRow;
    return await tx.insertInto('backtests').values(row).returningAll().executeTakeFirstOrThrow();
  }

  private async removeOldJobs(tx: Transaction<Tables>, job: NewBacktest, keptMax: number): Promise<void> {
    const old = this.rows(job, tx)
      .where('state', 'in', finalStates)
      .orderBy('ordinal', 'desc')
      .offset(keptMax)
      .limit(deletedPerAddMax);
    const ids = (await old.select('id').execute()).map(({ id }) => id);
    if (ids.length > 0) await tx.deleteFrom('backtests').where('id', 'in', ids).execute();
  }

  /** The oldest job of the user whose last turn is longest ago. */
  private async findNextWaiting(): Promise<{ readonly id: string; readonly owner: string } | null> {
    const all = () => this.rows(null).where('state', '=', 'waiting');
    const oldest = all()
      .groupBy('owner')
      .select(({ fn }) => ['owner', fn.min('ordinal').as('first')]);
    const users = (await oldest.orderBy('first').limit(servedUsersMax).execute()).map(({ owner }) => owner);
    const [owner] = users.sort((a, b) => (this.served.peek(a) ?? 0) - (this.served.peek(b) ?? 0));
    if (owner === undefined) return null;
    const job = await all().where('owner', '=', owner).orderBy('ordinal').limit(1).select('id').executeTakeFirst();
    return job === undefined ? null : { id: job.id, owner };
  }
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
