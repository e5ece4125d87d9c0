import type { CandleColumns } from '../../core/candles.ts';
import { batchesOf, doubleData, int32Data, symbolData, timeData } from './column-data.ts';
import { datasets } from './datasets.ts';
import { encodeBatches, rowGroupRows } from './parquet.ts';

/** Encodes the candles of one part, of whatever interval; at least one row. The same columns give the same bytes. */
export function encodeCandles(candles: CandleColumns, groupRows = rowGroupRows): Uint8Array {
  const { t, open, high, low, close, ticks, covered } = candles;
  const batches = batchesOf(t.length, groupRows, (from, to) => [
    symbolData(candles, from, to),
    timeData(t.subarray(from, to)),
    ...[open, high, low, close].map((prices) => doubleData(prices.slice(from, to))),
    int32Data(ticks.slice(from, to)),
    doubleData(covered.slice(from, to)),
  ]);
  return encodeBatches(datasets.candles_1h, batches, undefined, groupRows);
}
