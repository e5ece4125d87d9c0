import type { WorkspaceDatabase } from './database.ts';
import { attemptsMax, createJobQueue, deletedPerAddMax, finalStates, type JobQueue, readCount } from './job-queue.ts';
import { nextOrdinal } from './owner.ts';
import { type BacktestRow, type OwnerColumns, type PageRequest, type RowPage, toRowPage } from './tables.ts';

/** The columns of a new backtest. */
export type NewBacktest = OwnerColumns &
  Pick<
    BacktestRow,
    'id' | 'idempotency_key' | 'body_sha256' | 'created_at' | 'request' | 'strategy' | 'strategy_version'
  >;

/** A backtest without the columns that lists omit, as its result may be long. */
export type ListedBacktest = Omit<BacktestRow, 'strategy' | 'result' | 'attempts' | 'body_sha256'>;

type BacktestCompletion =
  | {
      readonly state: 'done';
      readonly at: number;
      readonly batches: number;
      readonly value: number | null;
      readonly result: string;
    }
  | { readonly state: 'failed'; readonly at: number; readonly error: string };

/** The saved backtests of one archive, and their jobs. Without an owner: of all users. */
export interface BacktestStore extends Pick<JobQueue<BacktestRow>, 'remove'> {
  /** See `JobQueue.add`. */
  add(backtest: NewBacktest, waitingMax: number, keptMax: number): ReturnType<JobQueue<BacktestRow>['add']>;
  /** Null if it does not exist or has another owner. */
  get(owner: OwnerColumns | null, id: string): Promise<BacktestRow | null>;
  /** The owner's backtest with an idempotency key. */
  findByIdempotencyKey(owner: OwnerColumns, key: string): Promise<BacktestRow | null>;
  /** Newest first. */
  list(owner: OwnerColumns | null, page: PageRequest): Promise<RowPage<ListedBacktest>>;
  /** Takes a waiting job and marks it as running; users take turns, oldest job first. */
  take(runner: number, nowMs: number): Promise<BacktestRow | null>;
  /** Returns a started job to the queue; the attempt does not count. */
  release(id: string, runner: number): Promise<void>;
  /** Returns all started jobs to the queue; those with `attemptsMax` attempts fail. */
  releaseAll(nowMs: number): Promise<void>;
  /** False if the job no longer belongs to this runner, as it was removed. */
  progress(id: string, runner: number, done: number, total: number): Promise<boolean>;
  finish(id: string, runner: number, finished: BacktestCompletion): Promise<boolean>;
}

const crashedMessage = `The job was started ${attemptsMax} times, and each time the service ended first. Reduce the request: fewer symbols, a shorter time or fewer grid points.`;

const numericColumns = [
  'ordinal',
  'created_at',
  'strategy_version',
  'runner',
  'attempts',
  'started_at',
  'finished_at',
  'batches_done',
  'batches_total',
  'value',
] as readonly (keyof BacktestRow)[];

/** Drivers may return 64-bit integers as text. */
const parseRow = <Row extends Partial<BacktestRow>>(row: Row): Row => ({
  ...row,
  ...Object.fromEntries(numericColumns.map((name) => [name, row[name] === null ? null : Number(row[name])])),
});

const listedColumns = [
  ...(['id', 'ordinal', 'owner', 'workspace', 'idempotency_key', 'created_at', 'place', 'state', 'request'] as const),
  ...(['strategy_version', 'runner', 'started_at', 'finished_at', 'batches_done', 'batches_total'] as const),
  ...(['error', 'value'] as const),
];

/** @param place lease ID of the archive */
export function createBacktestStore(db: WorkspaceDatabase, leaseId: string): BacktestStore {
  const initialProgress = { started_at: null, batches_done: 0, batches_total: null };
  const queue = createJobQueue<BacktestRow>(db, {
    table: 'backtests',
    leaseId: leaseId,
    ownerColumns: ['owner', 'workspace'],
    waitingColumns: initialProgress,
    parseRow,
    // Ordinals of one owner are unique, and the jobs of one user are counted one after another.
    async lockOwner(tx, { owner, workspace }) {
      await nextOrdinal(tx, { owner, workspace: '' });
      if (workspace !== '') await nextOrdinal(tx, { owner, workspace });
    },
  });
  const rows = (of: OwnerColumns | null) => {
    const all = db.selectFrom('backtests').where('place', '=', leaseId);
    return of === null ? all : all.where('owner', '=', of.owner).where('workspace', '=', of.workspace);
  };
  const running = () => db.updateTable('backtests').where('place', '=', leaseId).where('state', '=', 'running');
  return {
    remove: queue.remove,
    add: (backtest, waitingMax, keptMax) =>
      queue.add({ ...waitingColumns, ...backtest, place: leaseId }, waitingMax, keptMax),
    async get(owner, id) {
      const row = await rows(owner).where('id', '=', id).selectAll().executeTakeFirst();
      return row === undefined ? null : parseRow(row);
    },
    async findByIdempotencyKey(owner, key) {
      const row = await rows(owner).where('idempotency_key', '=', key).selectAll().executeTakeFirst();
      return row === undefined ? null : parseRow(row);
    },
    async list(owner, { limit, before }) {
      const page = rows(owner)
        .$if(before !== null, (query) => query.where('ordinal', '<', before!))
        .orderBy('ordinal', 'desc')
        .orderBy('id')
        .limit(limit + 1);
      return toRowPage((await page.select(listedColumns).execute()).map(parseRow), limit);
    },
    take: (runner, nowMs) => queue.take(runner, ({ attempts }) => ({ attempts: attempts + 1, started_at: nowMs })),
    async release(id, runner) {
      await running()
        .where('id', '=', id)
        .where('runner', '=', runner)
        .set((eb) => ({ ...initialProgress, state: 'waiting', runner: null, attempts: eb('attempts', '-', 1) }))
        .execute();
    },
    async releaseAll(nowMs) {
      const failed = { state: 'failed', runner: null, finished_at: nowMs, error: crashedMessage } as const;
      await running().where('attempts', '>=', attemptsMax).set(failed).execute();
      await queue.releaseAll();
    },
    progress: (id, runner, done, total) => queue.update(id, runner, { batches_done: done, batches_total: total }),
    finish: (id, runner, { state, at, ...rest }) => {
      const ended = { state, runner: null, finished_at: at };
      if ('error' in rest) return queue.update(id, runner, { ...ended, error: rest.error });
      const { batches, value, result } = rest;
      return queue.update(id, runner, { ...ended, value, result, batches_done: batches, batches_total: batches });
    },
  };
}

const waitingColumns = {
  ordinal: 0,
  state: 'waiting' as const,
  runner: null,
  attempts: 0,
  started_at: null,
  finished_at: null,
  batches_done: 0,
  batches_total: null,
  error: null,
  value: null,
  result: null,
};

/** A backtest that was run outside of the service. */
type CompletedBacktest = Omit<NewBacktest, 'idempotency_key' | 'body_sha256'> & {
  readonly finished_at: number;
  readonly value: number | null;
  /** JSON of src/backtest/result.ts. */
  readonly result: string;
};

/**
 * Saves a finished backtest; of the owner's finished ones the newest `keptMax` are kept. It is never stored as waiting: a
 * service would take it for a job and run it again.
 */
export async function saveBacktest(
  db: WorkspaceDatabase,
  leaseId: string,
  done: CompletedBacktest,
  keptMax: number,
): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await nextOrdinal(tx, done);
    const all = tx.selectFrom('backtests').where('place', '=', leaseId);
    const latest = await readCount(all.select(({ fn }) => fn.max('ordinal').as('n')));
    const row: BacktestRow = {
      body_sha256: null,
      runner: null,
      attempts: 0,
      started_at: done.created_at,
      batches_done: 0,
      batches_total: null,
      error: null,
      ...done,
      idempotency_key: null,
      place: leaseId,
      state: 'done',
      ordinal: latest + 1,
    };
    await tx.insertInto('backtests').values(row).execute();
    const old = all
      .where('owner', '=', done.owner)
      .where('workspace', '=', done.workspace)
      .where('state', 'in', finalStates)
      .orderBy('ordinal', 'desc')
      .offset(keptMax)
      .limit(deletedPerAddMax);
    const ids = (await old.select('id').execute()).map(({ id }) => id);
    if (ids.length > 0) await tx.deleteFrom('backtests').where('id', 'in', ids).execute();
  });
}
