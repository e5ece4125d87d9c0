import { type Column, type DatasetName, datasets } from './datasets.ts';

/**
 * The datasets whose rows are a symbol, a time, numbers and texts, and that are stored by the generic code of `series.ts`.
 * Ticks are of this form too; their own code is faster, and shares the merge rule.
 */
export type SeriesDataset = 'quotes' | 'trades';

export const seriesDatasets: readonly SeriesDataset[] = ['quotes', 'trades'];

/** The series that candles are computed from (`candle-series.ts`), besides ticks. */
export const candleSeries: readonly SeriesDataset[] = ['quotes', 'trades'];

/** The dataset that keeps the dropped rows of a series. */
export const conflictDatasets = {
  quotes: 'quote_conflicts',
  trades: 'trade_conflicts',
} as const satisfies Record<SeriesDataset, DatasetName>;

/**
 * The number columns of a series without its times, in file order; booleans are 0 and 1 in memory. Without `seq`, which is
 * counted when a file is written.
 */
export const listValueColumns = (dataset: SeriesDataset): readonly Column[] =>
  listFactColumns(dataset).filter(({ type }) => type !== 'string');

/** The text columns of a series without its symbol, in file order. */
export const listTextColumns = (dataset: SeriesDataset): readonly Column[] =>
  listFactColumns(dataset).filter(({ type }) => type === 'string');

/** The finer times of a row of each series, in file order. */
export const timeNames = ['event_at', 'received_at'] as const;

export const isTimeName = (name: string): boolean => timeNames.some((one) => one === name);

/** The columns of a series besides its times, symbol and `seq`, in file order: what is compared. Its conflicts have them too. */
export const listFactColumns = (dataset: SeriesDataset): readonly Column[] =>
  (datasets[dataset].columns as readonly Column[])
    .slice(2)
    .filter(({ name, type }) => name !== 'seq' && type !== 'timestamp_us');

/** Whether several rows of a series may have one symbol and time: then its first text column identifies them. */
export const hasRowIds = (dataset: SeriesDataset): boolean =>
  (datasets[dataset].key as readonly string[]).includes('t') === false;

/** The numbers and texts of a row, in file order. */
export function toFactCells(
  dataset: SeriesDataset,
  numbers: ArrayLike<number>,
  texts: readonly (string | null)[],
): (string | number | boolean | null)[] {
  let number = 0;
  let text = 0;
  return listFactColumns(dataset).map(({ type }) => {
    if (type === 'string') return texts[text++]!;
    const value = numbers[number++]!;
    if (Number.isNaN(value)) return null;
    return type === 'boolean' ? value !== 0 : value;
  });
}
