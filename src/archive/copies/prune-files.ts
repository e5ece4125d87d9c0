import { partOf } from '../../core/partition.ts';
import type { Manifest, PublishedFile } from '../manifest.ts';
import type { DatasetName } from '../parquet/schema.ts';

interface Shape {
  /** The columns it is sorted by (CONTRACT, section 3). */
  readonly keys: readonly string[];
  /** The columns between which a row's time lies; `closed`: the moment of `last` still belongs to it. */
  readonly span: { readonly first: string; readonly last: string; readonly closed: boolean } | null;
  /** Whether a day's files are split by symbol. */
  readonly split: boolean;
}

const moment = { first: 't', last: 't', closed: true };

/** How the rows of each dataset are ordered, placed in time and split over files. */
export const shapes: Record<DatasetName, Shape> = {
  ticks: { keys: ['symbol', 't'], span: moment, split: true },
  symbols: { keys: ['symbol'], span: null, split: false },
  markets: {
    keys: ['canonical_id', 'symbol', 'first_seen'],
    span: { first: 'first_seen', last: 'last_seen', closed: true },
    split: false,
  },
  orderbooks: { keys: ['symbol', 't', 'side', 'level'], span: moment, split: true },
  candles_1h: { keys: ['symbol', 't'], span: moment, split: true },
  candles_1d: { keys: ['symbol', 't'], span: moment, split: true },
  coverage: {
    keys: ['dataset', 'symbol', 't_from'],
    span: { first: 't_from', last: 't_to', closed: false },
    split: false,
  },
  conflicts: { keys: ['symbol', 't', 'seen_at', 'dropped'], span: moment, split: false },
};

/**
 * Tells the files of a dataset that may hold rows of some symbols (none: all) in a window of epoch milliseconds, an end
 * that is null being open; the manifest alone is looked at.
 */
export function mayHold(
  { parts }: Pick<Manifest, 'parts'>,
  dataset: DatasetName,
  symbols: readonly string[],
  { from, to }: { readonly from: number | null; readonly to: number | null },
): (file: PublishedFile) => boolean {
  const places = symbols.map((symbol) => `/part-${String(partOf(symbol, parts)).padStart(2, '0')}.parquet`);
  const bySymbol = shapes[dataset].split && symbols.length > 0;
  return (file) =>
    (from === null || file.t_max === null || file.t_max >= from) &&
    (to === null || file.t_min === null || file.t_min < to) &&
    (!bySymbol || places.some((place) => file.path.endsWith(place)));
}
