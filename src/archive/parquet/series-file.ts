import type { Data, Utf8 } from 'apache-arrow';
import { datasets } from '../format/datasets.ts';
import type { SeriesColumns } from '../format/series.ts';
import { hasRowIds, listTextColumns, listValueColumns, type SeriesDataset } from '../format/series-datasets.ts';
import { concatTexts, type TextColumn, toTextColumn } from '../format/text-columns.ts';
import { findSymbolIndex } from '../format/tick-columns.ts';
import { collectSymbolRuns, copyTimes, createColumnLookup } from './arrow-columns.ts';
import { readFooter, repetitions, type SchemaElement } from './metadata.ts';
import { readNullableNumbers } from './nullable-column.ts';
import { type DataPage, readColumnValues } from './page-decoder.ts';
import { physicalTypeByColumnType } from './row-reader.ts';
import { decodeArrowTable, type RowGroupIndexes } from './rows.ts';
import { readColumnPages, selectRowGroups, visitTexts } from './tick-page-reader.ts';
import { openPartFileWriter, rowGroupRows } from './writer.ts';

/** Encodes a part of a series, at least one row. Deterministic: the same columns give the same bytes. */
export function encodeSeries(dataset: SeriesDataset, part: SeriesColumns, groupRows = rowGroupRows): Uint8Array {
  const file = openSeriesFileWriter(dataset, groupRows);
  file.add(part);
  return file.end();
}

/** Opens a writer for one part, to which symbols are added in order. */
export function openSeriesFileWriter(
  dataset: SeriesDataset,
  groupRows: number,
): { add(part: SeriesColumns): void; end(): Uint8Array } {
  const file = openPartFileWriter(datasets[dataset].columns, groupRows);
  const names = listValueColumns(dataset).map(({ name }) => name);
  const textNames = listTextColumns(dataset).map(({ name }) => name);
  return {
    add(part) {
      const values = Object.fromEntries(names.map((name, c) => [name, part.values[c]!]));
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
export function countRepeats({ offsets, t }: SeriesColumns, row: number): number {
  const first = offsets[findSymbolIndex(offsets, row)]!;
  let count = 0;
  while (row - count > first && t[row - count - 1] === t[row]) count++;
  return count;
}

/**
 * Decodes a part, or some of its row groups. Texts are decoded with Arrow, because our own reader decodes only numbers.
 * @throws Error if it is not stored as our writers store the series
 */
export const decodeSeries = (dataset: SeriesDataset, bytes: Uint8Array, groups?: RowGroupIndexes): SeriesColumns =>
  listTextColumns(dataset).length > 0
    ? decodeSeriesWithArrow(dataset, bytes, groups)
    : decodeNumberSeries(dataset, bytes, groups);

function decodeNumberSeries(dataset: SeriesDataset, bytes: Uint8Array, groups?: RowGroupIndexes): SeriesColumns {
  const footer = readFooter(bytes);
  requireSeriesColumns(dataset, footer.schema);
  const pages = new Map(datasets[dataset].columns.map(({ name }): [string, DataPage[]] => [name, []]));
  let rows = 0;
  for (const group of selectRowGroups(footer, groups)) {
    for (const { meta_data: meta } of group.columns) {
      const list = pages.get(meta.path_in_schema[0]!)!;
      for (const page of readColumnPages(bytes, meta, rows, group.num_rows)) list.push(page);
    }
    rows += group.num_rows;
  }
  const symbols: string[] = [];
  const starts: number[] = [];
  let row = 0;
  visitTexts(bytes, pages.get('symbol')!, rows, (symbol, count) => {
    if (symbols.at(-1) !== symbol) {
      symbols.push(symbol);
      starts.push(row);
    }
    row += count;
  });
  const values = listValueColumns(dataset).map(({ name, nullable }) =>
    nullable
      ? readNullableNumbers(bytes, pages.get(name)!, rows)
      : readColumnValues(bytes, pages.get(name)!, 'double', 0, rows),
  );
  const t = readColumnValues(bytes, pages.get('t')!, 'int64', 0, rows);
  return { symbols, offsets: Float64Array.from([...starts, rows]), t, values, texts: [] };
}

function requireSeriesColumns(dataset: SeriesDataset, schema: readonly SchemaElement[]): void {
  const expected = datasets[dataset].columns.map(({ name, type, nullable }) => [
    name,
    physicalTypeByColumnType[type],
    nullable ? repetitions.optional : repetitions.required,
  ]);
  const actual = schema.slice(1).map(({ name, type, repetition_type }) => [name, type, repetition_type]);
  if (JSON.stringify(actual) !== JSON.stringify(expected))
    throw new Error(`a file does not have the columns of ${dataset}`);
}

/** Decodes a part with Arrow and parquet-wasm. @throws Error if it cannot be read */
export function decodeSeriesWithArrow(
  dataset: SeriesDataset,
  bytes: Uint8Array,
  groups?: RowGroupIndexes,
): SeriesColumns {
  const table = decodeArrowTable(bytes, groups);
  const rows = table.numRows;
  const numbers = listValueColumns(dataset);
  const textNames = listTextColumns(dataset).map(({ name }) => name);
  const t = new Float64Array(rows);
  const values = numbers.map(() => new Float64Array(rows));
  const texts = textNames.map((): TextColumn[] => []);
  const symbols: string[] = [];
  const starts: number[] = [];
  let row = 0;
  for (const batch of table.batches) {
    const column = createColumnLookup(batch);
    copyTimes(column('t'), t, row);
    numbers.forEach(({ name, type }, c) => {
      const data = column(name);
      const out = values[c]!;
      if (type === 'boolean') for (let i = 0; i < batch.numRows; i++) out[row + i] = readBit(data, i);
      else out.set(data.values.subarray(0, batch.numRows), row);
      if (data.nullCount > 0) for (let i = 0; i < batch.numRows; i++) if (!data.getValid(i)) out[row + i] = Number.NaN;
    });
    textNames.forEach((name, c) => {
      texts[c]!.push(copyTexts(column(name) as Data<Utf8>, batch.numRows));
    });
    collectSymbolRuns(column('symbol') as Data<Utf8>, batch.numRows, row, symbols, starts);
    row += batch.numRows;
  }
  return { symbols, offsets: Float64Array.from([...starts, row]), t, values, texts: texts.map(concatTexts) };
}

/** Reads a boolean, which Arrow stores as one bit. */
const readBit = (data: Data, i: number): number => {
  const at = data.offset + i;
  return (data.values[at >> 3] >> (at & 7)) & 1;
};

/** Copies the texts of a batch. A null has no bytes then, which Arrow does not promise. */
function copyTexts(data: Data<Utf8>, rows: number): TextColumn {
  const { valueOffsets, values, nullCount } = data;
  const lengths = new Int32Array(rows).fill(-1);
  const bytes = new Uint8Array(valueOffsets[rows]! - valueOffsets[0]!);
  let size = 0;
  for (let i = 0; i < rows; i++) {
    if (nullCount > 0 && !data.getValid(i)) continue;
    const end = valueOffsets[i + 1]!;
    lengths[i] = end - valueOffsets[i]!;
    for (let b = valueOffsets[i]!; b < end; b++) bytes[size++] = values[b]!;
  }
  return toTextColumn(bytes, lengths);
}
