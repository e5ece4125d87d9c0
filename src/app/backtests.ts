import { join } from 'node:path';
import type { Archive } from '../archive/open-archive.ts';
import { UsageError } from '../core/errors.ts';
import { type FindKept, findStrategy } from '../reading/backtests/find-strategy.ts';
import { UnfitBacktest } from '../reading/backtests/invalid-backtest.ts';
import { type Found, runBacktest } from '../reading/backtests/run-backtest.ts';
import { claimOf, placeOf, randomWord } from '../reading/export-jobs/export-folder.ts';
import type { BacktestAsked } from '../research/backtest-request.ts';
import type { BacktestResult } from '../research/result.ts';
import { requireOwnPlace } from '../workspace/archive-lease.ts';
import { backtests, type ListedBacktest } from '../workspace/backtests.ts';
import { ownerOf } from '../workspace/owner.ts';
import { keepBacktest } from '../workspace/save-backtest.ts';
import { strategies } from '../workspace/strategies.ts';
import type { BacktestRow, OwnerColumns } from '../workspace/tables.ts';
import type { Workspace } from '../workspace/workspace.ts';
import type { Context } from './context.ts';
import { openConfiguredWorkspace } from './workspace.ts';

// Backtests as the operator of an archive runs and looks at them; users have the service for it.

/** Whose strategies are meant, and whose a kept backtest is. */
export interface ForUser {
  readonly user: string;
  readonly workspace: string | null;
}

export interface LocalRun {
  readonly asked: BacktestAsked;
  readonly whose: ForUser;
  /** Whether it becomes an object of that user's. */
  readonly keep: boolean;
}

/** The result, and what it is kept as; null where it is not. */
export interface LocalDone {
  readonly result: BacktestResult;
  readonly id: string | null;
}

/**
 * Runs a backtest for a user in this process.
 * @throws UnfitBacktest where it cannot be run as asked, an unknown name included
 */
export async function runLocally(
  context: Context,
  archive: Archive,
  { asked, whose, keep }: LocalRun,
  progress: (done: number, total: number) => void,
): Promise<LocalDone> {
  const { clock, random, settings, signal, threads } = context;
  const owner = ownerOf({ ...whose, kind: 'user', scopes: [] });
  // What is to be kept is found out to be so before the work.
  const found = await foundFor(context, archive, asked, owner, keep);
  const created_at = clock.nowMs();
  const result = await runBacktest(archive, asked, found, { random, signal, threads, progress });
  if (!keep) return { result, id: null };
  const id = `${created_at.toString(36)}${randomWord(random)}`;
  const row = {
    ...owner,
    id,
    created_at,
    asked: JSON.stringify(asked),
    strategy: JSON.stringify(found.strategy),
    strategy_version: found.version,
    finished_at: clock.nowMs(),
    value: result.value,
    result: JSON.stringify(result),
  };
  const { keptMax } = settings.service.research;
  await withDatabase(context, archive, ({ db }) => keepBacktest(db, placeOf(archive, random), row, keptMax));
  return { result, id };
}

async function foundFor(
  context: Context,
  archive: Archive,
  { entry_executable: named }: BacktestAsked,
  owner: OwnerColumns,
  keep: boolean,
): Promise<Found> {
  const find = async (findKept: FindKept): Promise<Found> => {
    const looked = await findStrategy(named, findKept);
    if ('faults' in looked) throw new UnfitBacktest(looked.faults);
    return looked.found;
  };
  if (keep || (named.strategy === null && mayHoldObjects(context, archive)))
    return withDatabase(context, archive, async ({ db }) => {
      if (keep && context.settings.service.databaseUrl !== null)
        await requireOwnPlace(db, claimOf(archive, context.random), context.clock.nowMs());
      return await find((name, version) => strategies(db).find(owner, name, version));
    });
  return find(async () => null);
}

/** Whether there is a database of the service: who only runs what everybody has should not make one. */
const mayHoldObjects = ({ settings }: Context, { disk, layout }: Archive): boolean =>
  settings.service.databaseUrl !== null || disk.size(join(layout.private, 'service.sqlite')) !== null;

/** The newest backtests that are kept, whoever's, and whether there are more. */
export async function listKept(
  context: Context,
  archive: Archive,
  rowsMax: number,
): Promise<{ rows: readonly ListedBacktest[]; more: boolean }> {
  if (!mayHoldObjects(context, archive)) return { rows: [], more: false };
  return withDatabase(context, archive, async ({ db }) => {
    const all = backtests(db, placeOf(archive, context.random));
    const { rows, next } = await all.list(null, { limit: rowsMax, before: null });
    return { rows, more: next !== null };
  });
}

/**
 * One that is kept, whoever's.
 * @throws UsageError where there is none
 */
export async function oneKept(context: Context, archive: Archive, id: string): Promise<BacktestRow> {
  const row = mayHoldObjects(context, archive)
    ? await withDatabase(context, archive, ({ db }) => backtests(db, placeOf(archive, context.random)).get(null, id))
    : null;
  if (row !== null) return row;
  throw new UsageError(`No backtest ${id} is kept in this archive. Run oddslake backtest list to see those that are.`);
}

async function withDatabase<T>(
  context: Context,
  archive: Archive,
  work: (workspace: Workspace) => Promise<T>,
): Promise<T> {
  const workspace = await openConfiguredWorkspace(context, archive, null);
  try {
    return await work(workspace);
  } finally {
    await workspace.close();
  }
}
