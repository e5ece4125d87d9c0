import { many } from '../core/format-quantity.ts';
import { isoUtc } from '../core/time.ts';
import { objectiveText } from '../report/backtest-figures.ts';
import type { BacktestAsked } from '../research/backtest-request.ts';
import type { ListedBacktest } from '../workspace/backtests.ts';
import { renderTable } from './table.ts';
import type { TableStyle } from './terminal-style.ts';

/** A kept backtest as `backtest list --json` has it. Times are epoch milliseconds. */
export interface BacktestLine
  extends Pick<ListedBacktest, 'id' | 'owner' | 'workspace' | 'state' | 'value' | 'error' | 'created_at'> {
  readonly name: string;
  readonly version: number | null;
  readonly objective: BacktestAsked['objective'];
  readonly finished_at: number | null;
}

export function backtestLine(row: ListedBacktest): BacktestLine {
  const asked = JSON.parse(row.asked) as BacktestAsked;
  const { id, owner, workspace, state, value, error, created_at, finished_at } = row;
  return {
    id,
    owner,
    workspace,
    state,
    name: asked.entry_executable.name,
    version: row.strategy_version,
    objective: asked.objective,
    value,
    error,
    created_at,
    finished_at,
  };
}

/** A list of kept backtests for a person, or how to keep the first one. */
export function backtestsText(rows: readonly BacktestLine[], more: boolean, style: TableStyle): string {
  if (rows.length === 0) return 'no backtest is kept yet: oddslake backtest run NAME --save keeps one\n';
  const cells: Record<string, (row: BacktestLine) => string> = {
    id: ({ id }) => id,
    state: ({ state }) => state,
    strategy: ({ name, version }) => (version === null ? name : `${name} ${version}`),
    value: ({ objective, value }) => objectiveText(objective, value),
    objective: ({ objective }) => objective,
    made: ({ created_at }) => isoUtc(created_at - (created_at % 60_000)).replace(':00Z', 'Z'),
    user: ({ owner, workspace }) => (workspace === '' ? owner : `${owner} in ${workspace}`),
  };
  const names = Object.keys(cells);
  const kindOf = (name: string) =>
    name === 'value' ? 'number' : name === 'strategy' || name === 'user' ? 'text' : 'fixed';
  const columns = names.map((name) => ({ name, kind: kindOf(name) }) as const);
  const shown = rows.map((row) => names.map((name) => cells[name]!(row)));
  const counted = more
    ? `the newest ${many(rows.length, 'backtest')}; --rows shows more`
    : many(rows.length, 'backtest');
  return renderTable({ columns, rows: shown, complete: true, plan: null }, style, {
    counted,
    advice: 'widen the terminal',
  });
}
