import type { Type } from 'typebox';
import type { BacktestResult, KeptBacktest, ListedBacktest as Listed } from '../contract/backtests.ts';
import { paths } from '../contract/paths.ts';
import type { ListedBacktest } from '../workspace/backtests.ts';
import type { BacktestRow } from '../workspace/tables.ts';

/** Where a backtest that is kept is told of, relative to the service. */
export const toBacktestUrl = ({ id }: Pick<BacktestRow, 'id'>): string => `${paths.backtest}/${id}`;

/** One as lists have it. */
export const toListedBacktest = (row: ListedBacktest): Type.Static<typeof Listed> => ({
  id: row.id,
  state: row.state,
  asked: JSON.parse(row.asked),
  strategy_version: row.strategy_version,
  value: row.value,
  progress: { batches_done: row.batches_done, batches_total: row.batches_total },
  created_at: row.created_at,
  started_at: row.started_at,
  finished_at: row.finished_at,
  error: row.error,
});

/** One with its result. */
export const toSavedBacktest = (row: BacktestRow): Type.Static<typeof KeptBacktest> => ({
  ...toListedBacktest(row),
  result: row.result === null ? null : (JSON.parse(row.result) as Type.Static<typeof BacktestResult>),
});
