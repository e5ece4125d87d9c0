import type { ChartData } from './chart-data.ts';
import { toCandleColumns, toStepLine } from './lines.ts';
import type { View } from './view.ts';

type Column = readonly (number | null)[];

/** Columns of a chart: one table of ascending times for each symbol. */
interface ChartTable {
  readonly x: readonly number[];
  readonly columns: readonly { readonly role: 'line' | 'edge' | 'unseen'; readonly y: Column }[];
  readonly rows: ReturnType<typeof toCandleColumns>['rows'];
}

/** Computes the tables of a chart. The first symbol may be candles; others are lines. */
export function computeTables(loaded: ChartData, kind: View['chart']): ChartTable[] {
  if (loaded.kind === 'ticks') {
    return loaded.symbols.map(({ ticks, gaps, until }) => {
      const { x, y } = toStepLine(ticks, gaps, until);
      return { x, columns: [{ role: 'line', y }], rows: [] };
    });
  }
  return loaded.symbols.map(({ candles, gaps }, i) => {
    const { x, rows, high, low, close } = toCandleColumns(candles, gaps, loaded.interval.ms);
    const line = { role: 'line', y: close } as const;
    if (i > 0) return { x, columns: [line], rows };
    const role = kind === 'candles' ? 'unseen' : 'edge';
    const edges = [
      { role, y: high },
      { role, y: low },
    ] as const;
    return { x, columns: kind === 'candles' ? edges : [...edges, line], rows };
  });
}

/**
 * Indices of points without a neighbor, which a line would not show. A line continues through undefined values: they are
 * times of another symbol.
 */
export function findLonePoints(y: readonly (number | null | undefined)[]): number[] {
  const own = y.flatMap((p, i) => (p === undefined ? [] : [i]));
  return own.filter((i, k) => y[i] !== null && (y[own[k - 1]!] ?? null) === null && (y[own[k + 1]!] ?? null) === null);
}
