import { join } from 'node:path';
import type { Archive } from '../archive/archive.ts';
import { writeFileAtomically } from '../archive/read/export-file.ts';
import { type StoredTrades, storeTrades } from '../backtest/data/stored-trades.ts';
import type { SortedTrades, TradesFormat } from '../backtest/data/trade-files.ts';
import { type ResolvedStrategy, resolveStrategy } from '../backtest/resolve-strategy.ts';
import { runBacktest } from '../backtest/run/run-backtest.ts';
import { UsageError } from '../base/errors.ts';
import type { Context } from '../context/context.ts';
import type { BacktestSpec } from '../contract/backtest-request.ts';
import type { BacktestResult } from '../contract/backtests.ts';
import { serviceLimits } from './http/connection-limits.ts';
import { readArchiveLease, readLeaseId, requireArchiveLease } from './jobs/archive-lease.ts';
import { prepareTradesTarget, removeOrphanTrades, removeTrades, toTradesColumns } from './jobs/trades-files.ts';
import { withWorkspaceOf } from './open-workspace.ts';
import { BacktestStore, type ListedBacktest } from './workspace/backtest-store.ts';
import { toOwnerColumns } from './workspace/owner.ts';
import { createStrategyStore } from './workspace/strategy-store.ts';
import { type BacktestRow, createObjectId, type OwnerColumns } from './workspace/tables.ts';

// Backtests run and inspected by the operator of an archive; users use the HTTP service.

/** The owner of strategies and saved backtests. */
interface BacktestOwner {
  readonly user: string;
  readonly workspace: string | null;
}

interface LocalBacktestRequest {
  readonly request: BacktestSpec;
  readonly owner: BacktestOwner;
  /** Whether the result is saved for the user. */
  readonly save: boolean;
  /** File for all trades, null for none. It must be writable; an existing file is replaced atomically. */
  readonly trades: { readonly file: string; readonly format: TradesFormat } | null;
}

interface LocalBacktestResult {
  readonly result: BacktestResult;
  /** ID of the saved backtest; null if it is not saved. */
  readonly id: string | null;
  /** The file with all trades; null if none was requested. */
  readonly trades: WrittenTrades | null;
}

/** A file with all trades of a backtest. */
export interface WrittenTrades {
  readonly file: string;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
}

/**
 * Runs a backtest for a user in this process.
 * @throws InvalidBacktestError if the request is invalid, including an unknown strategy
 */
export async function runLocalBacktest(
  context: Context,
  archive: Archive,
  { request, owner, save, trades: tradesTarget }: LocalBacktestRequest,
  progress: (done: number, total: number) => void,
): Promise<LocalBacktestResult> {
  const { clock, random, signal, threads } = context;
  const columns = toOwnerColumns({ ...owner, kind: 'user', scopes: [] });
  // Check before the run that the result can be saved.
  const resolved = await resolveLocalStrategy(context, archive, request, columns, save);
  const id = createObjectId(context);
  const created_at = clock.nowMs();
  const { savedBacktestsMax, tradesBytesMax } = serviceLimits;
  const target = { id, ...columns };
  const storeTarget = save
    ? await withBacktests(context, archive, (store) => prepareTradesTarget(archive, store, target, tradesBytesMax))
    : null;
  let trades: WrittenTrades | null = null;
  let stored: StoredTrades | null = null;
  const saveTrades = async (sorted: SortedTrades): Promise<void> => {
    if (tradesTarget !== null) {
      const { file, format } = tradesTarget;
      const written = await writeFileAtomically(archive.disk, file, id, sorted.encode(format));
      trades = { file, rows: sorted.count, ...written };
    }
    if (storeTarget !== null) stored = await storeTrades(archive.disk, storeTarget, id, sorted);
  };
  const hasTarget = tradesTarget !== null || save;
  const runContext = { random, signal, threads, progress, ...(hasTarget && { saveTrades }) };
  if (!save) return { result: await runBacktest(archive, request, resolved, runContext), id: null, trades };
  try {
    const result = await runBacktest(archive, request, resolved, runContext);
    const row = {
      ...columns,
      id,
      idempotency_key: null,
      body_sha256: null,
      created_at,
      started_at: created_at,
      request: JSON.stringify(request),
      strategy: JSON.stringify(resolved.strategy),
      strategy_version: resolved.version,
      finished_at: clock.nowMs(),
      value: result.value,
      result: JSON.stringify(result),
      ...toTradesColumns(stored),
    };
    await withBacktests(context, archive, async (store) => {
      // Those of backtests that earlier ones have replaced: there may be no service that removes them.
      await removeOrphanTrades(archive, store, clock.nowMs());
      await store.addFinished(row, savedBacktestsMax);
    });
    return { result, id, trades };
  } catch (error) {
    removeTrades(archive, id);
    throw error;
  }
}

async function resolveLocalStrategy(
  context: Context,
  archive: Archive,
  { entry_executable: executable }: BacktestSpec,
  owner: OwnerColumns,
  save: boolean,
): Promise<ResolvedStrategy> {
  if (save || (executable.strategy === null && hasServiceDatabase(context, archive)))
    return withWorkspaceOf(context, archive, async ({ db }) => {
      if (save && context.settings.service.databaseUrl !== null)
        await requireArchiveLease(db, readArchiveLease(archive, context.random), context.clock.nowMs());
      return await resolveStrategy(executable, (name, version) => createStrategyStore(db).find(owner, name, version));
    });
  return resolveStrategy(executable, async () => null);
}

const withBacktests = <T>(context: Context, archive: Archive, work: (store: BacktestStore) => Promise<T>): Promise<T> =>
  withWorkspaceOf(context, archive, ({ db }) => work(new BacktestStore(db, readLeaseId(archive, context.random))));

/** Whether the service's database exists: running a built-in strategy must not create one. */
const hasServiceDatabase = ({ settings }: Context, { disk, layout }: Archive): boolean =>
  settings.service.databaseUrl !== null || disk.size(join(layout.privateFolder, 'service.sqlite')) !== null;

/** The newest saved backtests of all users, and whether there are more. */
export async function listSavedBacktests(
  context: Context,
  archive: Archive,
  rowsMax: number,
): Promise<{ rows: readonly ListedBacktest[]; more: boolean }> {
  if (!hasServiceDatabase(context, archive)) return { rows: [], more: false };
  const { rows, next } = await withBacktests(context, archive, (store) =>
    store.list(null, { limit: rowsMax, before: null }),
  );
  return { rows, more: next !== null };
}

/**
 * A saved backtest of any user.
 * @throws UsageError if there is no such backtest
 */
export async function getSavedBacktest(context: Context, archive: Archive, id: string): Promise<BacktestRow> {
  const row = hasServiceDatabase(context, archive)
    ? await withBacktests(context, archive, (store) => store.get(null, id))
    : null;
  if (row !== null) return row;
  throw new UsageError(`This archive has no saved backtest ${id}. Run oddslake backtest list to see the saved ones.`);
}
