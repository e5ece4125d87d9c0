import { formatCount } from '../core/format-quantity.ts';
import { formatIsoUtc } from '../core/time.ts';
import { formatObjective } from '../report/backtest-figures.ts';
import type { BacktestSpec } from '../research/backtest-request.ts';
import type { ListedBacktest } from '../workspace/backtests.ts';
import { renderTable } from './table.ts';
import type { TerminalStyle } from './terminal-style.ts';

/** A kept backtest as `backtest list --json` has it. Times are epoch milliseconds. */
export interface BacktestListEntry
  extends Pick<ListedBacktest, 'id' | 'owner' | 'workspace' | 'state' | 'value' | 'error' | 'created_at'> {
  readonly name: string;
  readonly version: number | null;
  readonly objective: BacktestSpec['objective'];
  readonly finished_at: number | null;
}

export function toBacktestListEntry(row: ListedBacktest): BacktestListEntry {
  const asked = JSON.parse(row.asked) as BacktestSpec;
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
export function formatBacktestList(rows: readonly BacktestListEntry[], more: boolean, style: TerminalStyle): string {
  if (rows.length === 0) return 'no backtest is kept yet: oddslake backtest run NAME --save keeps one\n';
  const cells: Record<string, (row: BacktestListEntry) => string> = {
    id: ({ id }) => id,
    state: ({ state }) => state,
    strategy: ({ name, version }) => (version === null ? name : `${name} ${version}`),
    value: ({ objective, value }) => formatObjective(objective, value),
    objective: ({ objective }) => objective,
    made: ({ created_at }) => formatIsoUtc(created_at - (created_at % 60_000)).replace(':00Z', 'Z'),
    user: ({ owner, workspace }) => (workspace === '' ? owner : `${owner} in ${workspace}`),
  };
  const names = Object.keys(cells);
  const kindOf = (name: string) =>
    name === 'value' ? 'number' : name === 'strategy' || name === 'user' ? 'text' : 'fixed';
  const columns = names.map((name) => ({ name, kind: kindOf(name) }) as const);
  const shown = rows.map((row) => names.map((name) => cells[name]!(row)));
  const counted = more
    ? `the newest ${formatCount(rows.length, 'backtest')}; --rows shows more`
    : formatCount(rows.length, 'backtest');
  return renderTable({ columns, rows: shown, isComplete: true, plan: null }, style, {
    counted,
    advice: 'widen the terminal',
  });
}
