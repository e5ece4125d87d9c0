import { fetchJson, isAbortError, toErrorMessage } from './api.ts';
import type { ConflictMark } from './chart-paint.ts';
import { renderCode } from './code-panel.ts';
import { createElement, renderError, renderLoading, renderScrolledTable } from './dom.ts';
import { formatCount, formatPrice, formatTime } from './format.ts';
import type { TabContext } from './symbol-facts.ts';
import type { TimeRange } from './view.ts';

interface Conflict extends ConflictMark {
  readonly seen_at: number;
}

const path = '/api/v1/historical/conflicts';
/** Maximum number of conflicts that are marked and listed. */
const shownMax = 500;

interface ConflictsResponse {
  readonly conflicts: readonly Conflict[];
  readonly next_cursor: string | null;
}

/** The first conflicts of a range, for marks in a chart. */
export async function fetchConflicts(
  symbol: string,
  { from, to }: TimeRange,
  signal: AbortSignal,
): Promise<ConflictsResponse> {
  return await fetchJson<ConflictsResponse>(path, { symbol, from, to, limit: shownMax }, signal);
}

/** Whether the archive has conflicts of a symbol. */
export async function hasConflicts(symbol: string, signal: AbortSignal): Promise<boolean> {
  const { count } = await fetchJson<{ count: number }>(path, { symbol, limit: 1 }, signal);
  return count > 0;
}

/** Renders the conflicts of the range. */
export function renderConflictsPanel({ symbol, range, view, signal }: TabContext): HTMLElement {
  const root = createElement('div', {}, renderLoading('Loading conflicts…'));
  const load = async (): Promise<void> => {
    try {
      const { conflicts, next_cursor } = await fetchConflicts(symbol, range, signal);
      const isCut = next_cursor !== null;
      const selection = {
        ...{ name: 'conflicts', path, symbols: [symbol], from: range.from, to: range.to, timeColumns: ['seen_at'] },
        ...(isCut && { parameters: { limit: conflicts.length } }),
      };
      const count = `${isCut ? 'the first ' : ''}${formatCount(conflicts.length, 'price')}`;
      root.replaceChildren(
        createElement(
          'p',
          { class: 'note' },
          conflicts.length === 0
            ? 'The archive has no conflicts in this range.'
            : `Dropped because another price of the same time has precedence: ${count}. The chart marks each with a cross.`,
        ),
        conflicts.length === 0 ? '' : renderConflicts(conflicts),
        renderCode('these conflicts', selection, view.code ?? 'duckdb'),
      );
    } catch (error) {
      if (!isAbortError(error)) root.replaceChildren(renderError(toErrorMessage(error), () => void load()));
    }
  };
  void load();
  return root;
}

const renderConflicts = (conflicts: readonly Conflict[]): HTMLElement =>
  renderScrolledTable(
    'Conflicts',
    ['Time (UTC)', 'Kept', 'Dropped', 'Other price seen'],
    conflicts.map(({ t, kept, dropped, seen_at }) => [
      formatTime(t),
      formatPrice(kept),
      formatPrice(dropped),
      formatTime(seen_at - (seen_at % 1000)),
    ]),
  );
