import type { NewBacktest } from './backtests.ts';
import type { WorkspaceDatabase } from './database.ts';
import { deletedPerAddMax, finalStates, readCount } from './job-queue.ts';
import { nextOrdinal } from './owner.ts';
import type { BacktestRow } from './tables.ts';

/** A backtest that was run outside of the service. */
export type CompletedBacktest = Omit<NewBacktest, 'idempotency_key' | 'body_sha256'> & {
  readonly finished_at: number;
  readonly value: number | null;
  /** JSON, as src/research/result.ts has it. */
  readonly result: string;
};

/**
 * Keeps it as done among the owner's own, of whose finished ones the newest `keptMax` stay. It never waits there: a service
 * would take it for a job, and run it again.
 */
export async function saveBacktest(
  db: WorkspaceDatabase,
  place: string,
  done: CompletedBacktest,
  keptMax: number,
): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await nextOrdinal(tx, done);
    const all = tx.selectFrom('backtests').where('place', '=', place);
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
      place,
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
