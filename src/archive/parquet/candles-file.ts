import type { CandleColumns } from '../../core/candles.ts';
import { encodePartFile } from './partition-file.ts';
import { rowGroupRows } from './rows.ts';
import { datasets } from './schema.ts';

/** Encodes the candles of one part, of whatever interval; at least one row. The same columns give the same bytes. */
export const encodeCandles = (candles: CandleColumns, groupRows = rowGroupRows): Uint8Array => {
  const { t, open, high, low, close, ticks, covered } = candles;
  return encodePartFile(candles, datasets.candles_1h, { t, open, high, low, close, ticks, covered }, groupRows);
};
