import { timeNames } from '../../../src/archive/format/series-datasets.ts';
import type { CellValue } from '../../../src/archive/parquet/rows.ts';
import { keyOf } from './accepted-rows.ts';

// Rows of quotes and trades as plain cells, for the model and for what it is compared with.

export const seriesNames = ['quotes', 'trades'] as const;
export type SeriesName = (typeof seriesNames)[number];

/**
 * Cells in the order of the file, without the symbol and without seq: the first is t, that of trades is followed by the
 * identifier, which is `=` if the trade came without one.
 */
export interface SeriesRow {
  readonly symbol: string;
  readonly t: number;
  readonly cells: readonly CellValue[];
}

const withoutId = '=';

/** Replaces the identifier of a trade that came without one. */
const toId = (id: CellValue): CellValue => (typeof id === 'string' && id.startsWith('=') ? withoutId : id);

export const createRow = (dataset: SeriesName, symbol: string, cells: readonly CellValue[]): SeriesRow => ({
  symbol,
  t: cells[0] as number,
  cells: dataset === 'quotes' ? cells : [cells[0]!, toId(cells[1]!), ...cells.slice(2)],
});

/** Index of seq in the published rows of trades. */
export const seqColumn = 8;

/** A row of a published file of the dataset, without its finer times, which are not compared. */
export const toSeriesRow = (dataset: SeriesName, row: readonly CellValue[]): SeriesRow =>
  createRow(
    dataset,
    row[0] as string,
    row.slice(1, -timeNames.length).filter((_, i) => dataset === 'quotes' || i + 1 !== seqColumn),
  );

/**
 * The key of each row. Equal trades without identifiers are counted: those of one file, or all that are published, so that
 * of several files the larger number counts.
 */
export function* keyRows(
  dataset: SeriesName,
  rows: Iterable<SeriesRow>,
): Generator<readonly [key: string, row: SeriesRow]> {
  const counts = new Map<string, number>();
  for (const row of rows) {
    const { symbol, t, cells } = row;
    if (dataset === 'quotes' || cells[1] !== withoutId) {
      yield [keyOf(symbol, dataset === 'quotes' ? t : (cells[1] as string)), row];
      continue;
    }
    const content = keyOf(symbol, JSON.stringify(cells));
    const count = counts.get(content) ?? 0;
    counts.set(content, count + 1);
    yield [keyOf(content, count), row];
  }
}

/** The cells that decide between rows of equal precedence, in this order: the time, the numbers, then the texts. */
const decidingCells: Readonly<Record<SeriesName, readonly number[]>> = {
  quotes: [0, 1, 2, 3, 4],
  trades: [0, 2, 3, 5, 1, 4, 6, 7, 8],
};

/** Whether the content of a row is greater: what is missing is less than the rest, and texts are compared by their bytes. */
export function isGreater(dataset: SeriesName, a: SeriesRow, b: SeriesRow): boolean {
  for (const i of decidingCells[dataset]) {
    const [x, y] = [a.cells[i]!, b.cells[i]!];
    if (x === y) continue;
    if (x === null || y === null) return y === null;
    if (typeof x === 'string') return Buffer.compare(Buffer.from(x), Buffer.from(y as string)) > 0;
    return Number(x) > Number(y);
  }
  return false;
}
