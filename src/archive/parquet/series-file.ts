import { datasets } from '../format/datasets.ts';
import { createUnknown, type SeriesColumns } from '../format/series.ts';
import {
  hasRowIds,
  listTextColumns,
  listValueColumns,
  type SeriesDataset,
  timeNames,
} from '../format/series-datasets.ts';
import { findSymbolIndex } from '../format/tick-columns.ts';
import { openPartFile } from './column-reader.ts';
import type { RowGroupIndexes } from './file-pages.ts';
import { openPartFileWriter } from './writer.ts';

/** Opens a writer for one part, to which symbols are added in order. Deterministic: the same rows give the same bytes. */
export function openSeriesFileWriter(
  dataset: SeriesDataset,
  groupRows: number,
): { add(part: SeriesColumns): void; end(): Uint8Array } {
  const file = openPartFileWriter(datasets[dataset].columns, groupRows);
  const names = [...listValueColumns(dataset).map(({ name }) => name), ...timeNames];
  const textNames = listTextColumns(dataset).map(({ name }) => name);
  return {
    add(part) {
      const columns = [...part.values, ...timeNames.map((_, c) => part.times?.[c] ?? createUnknown(part.t.length))];
      const values = Object.fromEntries(names.map((name, c) => [name, columns[c]!]));
      const texts = Object.fromEntries(textNames.map((name, c) => [name, part.texts[c]!]));
      const seq = hasRowIds(dataset) ? { seq: numberRepeats(part) } : {};
      file.add({ symbolOffsets: part, values: { t: part.t, ...values, ...seq }, texts });
    },
    end: () => file.finish(),
  };
}

/** Numbers the rows of equal symbol and time from 0. */
function numberRepeats({ offsets, t }: SeriesColumns): Float64Array {
  const seq = new Float64Array(t.length);
  for (let s = 0; s + 1 < offsets.length; s++)
    for (let row = offsets[s]! + 1; row < offsets[s + 1]!; row++)
      seq[row] = t[row] === t[row - 1] ? seq[row - 1]! + 1 : 0;
  return seq;
}

/** Counts the rows of the same symbol and time before a row. */
export function countRepeats({ offsets, t }: Pick<SeriesColumns, 'offsets' | 't'>, row: number): number {
  const first = offsets[findSymbolIndex(offsets, row)]!;
  let count = 0;
  while (row - count > first && t[row - count - 1] === t[row]) count++;
  return count;
}

/** Decodes a part, or some of its row groups. @throws Error if it is not stored as our writers store the series */
export function decodeSeries(dataset: SeriesDataset, bytes: Uint8Array, groups?: RowGroupIndexes): SeriesColumns {
  const { symbols, offsets, readNumbers, readTexts, isAllNull } = openPartFile(dataset, bytes, groups);
  return {
    symbols,
    offsets,
    t: readNumbers('t'),
    values: listValueColumns(dataset).map(({ name }) => readNumbers(name)),
    texts: listTextColumns(dataset).map(({ name }) => readTexts(name)),
    times: timeNames.every(isAllNull) ? undefined : timeNames.map(readNumbers),
  };
}
