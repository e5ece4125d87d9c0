import { createJobQueue, type JobQueue } from './job-queue.ts';
import { type BacktestRow, type OwnerColumns, type PageRequest, type RowPage, toRowPage } from './tables.ts';
import type { WorkspaceDatabase } from './workspace-database.ts';

/** A backtest without its result, which may be large. */
export type ListedBacktest = Omit<BacktestRow, 'strategy' | 'result' | 'attempts' | 'body_sha256'>;

/** The saved backtests of one archive, and their jobs. Without an owner: of all users. */
export interface BacktestStore extends JobQueue {
  /** Null if it does not exist or has another owner. */
  get(owner: OwnerColumns | null, id: string): Promise<BacktestRow | null>;
  /** The same without the result. */
  getListed(owner: OwnerColumns, id: string): Promise<ListedBacktest | null>;
  /** The owner's backtest with an idempotency key. */
  findByIdempotencyKey(owner: OwnerColumns, key: string): Promise<BacktestRow | null>;
  /** Newest first. */
  list(owner: OwnerColumns | null, page: PageRequest): Promise<RowPage<ListedBacktest>>;
  /** Total size of the files with the trades of a user, in all workspaces. */
  sumTradesBytes(user: string): Promise<number>;
  /** IDs of backtests that have a file with their trades, or are running and may write one. */
  listWithTrades(): Promise<string[]>;
}

const listedColumns = [
  ...([
    'id',
    'ordinal',
    'owner',
    'workspace',
    'idempotency_key',
    'created_at',
    'lease_id',
    'state',
    'request',
  ] as const),
  ...(['strategy_version', 'runner', 'started_at', 'finished_at', 'batches_done', 'batches_total'] as const),
  ...(['error', 'value', 'trades_rows', 'trades_bytes', 'trades_sha256'] as const),
];

/** @param leaseId lease ID of the archive */
export function createBacktestStore(db: WorkspaceDatabase, leaseId: string): BacktestStore {
  const rows = (of: OwnerColumns | null) => {
    const all = db.selectFrom('backtests').where('lease_id', '=', leaseId);
    return of === null ? all : all.where('owner', '=', of.owner).where('workspace', '=', of.workspace);
  };
  return {
    ...createJobQueue(db, leaseId),
    get: async (owner, id) => (await rows(owner).where('id', '=', id).selectAll().executeTakeFirst()) ?? null,
    getListed: async (owner, id) =>
      (await rows(owner).where('id', '=', id).select(listedColumns).executeTakeFirst()) ?? null,
    findByIdempotencyKey: async (owner, key) =>
      (await rows(owner).where('idempotency_key', '=', key).selectAll().executeTakeFirst()) ?? null,
    async list(owner, { limit, before }) {
      const page = rows(owner)
        .$if(before !== null, (query) => query.where('ordinal', '<', before!))
        .orderBy('ordinal', 'desc')
        .orderBy('id')
        .limit(limit + 1);
      return toRowPage(await page.select(listedColumns).execute(), limit);
    },
    async sumTradesBytes(user) {
      const { bytes } = await rows(null)
        .where('owner', '=', user)
        .select(({ fn }) => fn.sum<number | null>('trades_bytes').as('bytes'))
        .executeTakeFirstOrThrow();
      return bytes ?? 0;
    },
    async listWithTrades() {
      const mayHaveFile = rows(null).where(({ or, eb }) =>
        or([eb('state', '=', 'running'), eb('trades_bytes', 'is not', null)]),
      );
      return (await mayHaveFile.select('id').execute()).map(({ id }) => id);
    },
  };
}
