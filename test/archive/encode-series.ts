import type { SeriesColumns } from '../../src/archive/format/series.ts';
import type { SeriesDataset } from '../../src/archive/format/series-datasets.ts';
import { openSeriesFileWriter } from '../../src/archive/parquet/series-file.ts';
import { rowGroupRows } from '../../src/archive/parquet/writer.ts';

/** Encodes a part of a series, at least one row. */
export function encodeSeries(dataset: SeriesDataset, part: SeriesColumns, groupRows = rowGroupRows): Uint8Array {
  const file = openSeriesFileWriter(dataset, groupRows);
  file.add(part);
  return file.end();
}
