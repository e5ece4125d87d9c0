import type { Static } from 'typebox';
import { formatCount, formatPlainNumber } from '../../../base/format-quantity.ts';
import type { HistoricalConflictsResponse } from '../../../contract/historical-series.ts';
import { fetchRows } from './api.ts';
import { renderCode } from './code-panel.ts';
import { html, renderLoaded, renderScrolledTable } from './dom.ts';
import { formatTime } from './format.ts';
import type { TabContext } from './symbol-facts.ts';
import type { TimeRange } from './view.ts';

type Conflict = Static<typeof HistoricalConflictsResponse>['conflicts'][number];

/** Maximum number of conflicts that are marked and listed. */
const shownMax = 500;

/** The first conflicts of a range, also for marks in a chart. */
export const fetchConflicts = (symbol: string, range: TimeRange, signal: AbortSignal) =>
  fetchRows<Conflict>('conflicts', { symbol, ...range }, shownMax, signal);

export const renderConflictsPanel = ({ symbol, range, view, signal }: TabContext): HTMLElement =>
  renderLoaded('Loading conflicts…', async () => {
    const { rows: conflicts, isCut } = await fetchConflicts(symbol, range, signal);
    const parameters = { ...(isCut && { limit: conflicts.length }) };
    const selection = { name: 'conflicts', symbols: [symbol], ...range, timeColumns: ['seen_at'], parameters };
    const count = `${isCut ? 'the first ' : ''}${formatCount(conflicts.length, 'price')}`;
    const summary =
      conflicts.length === 0
        ? 'The archive has no conflicts in this range.'
        : `Dropped because another price of the same time has precedence: ${count}. The chart marks each with a cross.`;
    return [
      html`<p class="note">${summary}</p>`,
      conflicts.length > 0 && renderConflicts(conflicts),
      renderCode('these conflicts', selection, view.code ?? 'duckdb'),
    ];
  });

const renderConflicts = (conflicts: readonly Conflict[]): HTMLElement =>
  renderScrolledTable(
    'Conflicts',
    ['Time (UTC)', 'Kept', 'Dropped', 'Other price seen'],
    conflicts.map(({ t, kept, dropped, seen_at }) => [
      formatTime(t),
      formatPlainNumber(kept),
      formatPlainNumber(dropped),
      formatTime(seen_at - (seen_at % 1000)),
    ]),
  );
