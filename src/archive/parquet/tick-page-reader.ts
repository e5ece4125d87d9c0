import { isUtf8 } from 'node:buffer';
import { type CompressedPage, type DataPage, decompressPage, visitIndexes } from './page-decoder.ts';
import {
  codecs,
  encodings,
  magic,
  pageTypes,
  physicalTypes,
  readThriftStruct,
  repetitions,
  type ThriftField,
  type ThriftStruct,
} from './thrift.ts';

/** The data pages of a part's columns. Rows are counted from the first requested row group. */
interface TickPages {
  readonly symbolPages: readonly DataPage[];
  readonly t: readonly DataPage[];
  readonly p: readonly DataPage[];
  readonly rows: number;
}

/**
 * Reads the footer and the page headers of a part, or of some of its row groups.
 * @throws Error if the file is not stored as our writers store ticks
 */
export function readTickPages(file: Uint8Array, groups?: readonly number[]): TickPages {
  const footer = readFooter(file);
  requireTickColumns(requireThriftList(footer[2]));
  const columns: Record<'symbol' | 't' | 'p', DataPage[]> = { symbol: [], t: [], p: [] };
  const allGroups = requireThriftList(footer[4]);
  let row = 0;
  for (const group of groups === undefined ? allGroups : groups.map((i) => allGroups[i])) {
    const rows = requireThriftNumber(requireThriftStruct(group)[3]);
    for (const chunk of requireThriftList(requireThriftStruct(group)[1])) {
      const meta = requireThriftStruct((chunk as ThriftStruct)[3]);
      const name = requireThriftString(requireThriftList(meta[3])[0]) as keyof typeof columns;
      if (meta[4] !== codecs.zstd) throw new Error('a column is not compressed with zstd');
      for (const page of readColumnPages(file, meta, row, rows)) columns[name].push(page);
    }
    row += rows;
  }
  return { symbolPages: columns.symbol, t: columns.t, p: columns.p, rows: row };
}

/** Reads the footer. @throws Error if the file is not a Parquet file */
export function readFooter(file: Uint8Array): ThriftStruct {
  if (!isMagic(file.subarray(0, magic.length)) || !isMagic(file.subarray(-magic.length)))
    throw new Error('a file does not begin and end with PAR1');
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const length = view.getUint32(file.length - 8, true);
  return readThriftStruct(file, file.length - 8 - length).value;
}

const isMagic = (bytes: Uint8Array): boolean => Buffer.compare(bytes, magic) === 0;

function requireTickColumns(schema: readonly ThriftField[]): void {
  const expected = [
    ['symbol', physicalTypes.text],
    ['t', physicalTypes.int64],
    ['p', physicalTypes.double],
  ];
  const actual = schema.slice(1).map((element) => {
    const { 1: type, 3: repetition, 4: name } = element as ThriftStruct;
    if (repetition !== repetitions.required) throw new Error('a column is nullable');
    return [requireThriftString(name), type];
  });
  if (JSON.stringify(actual) !== JSON.stringify(expected)) throw new Error('a file does not have the columns of ticks');
}

/** Reads the data pages of one column chunk, whose rows start at `row`. */
export function* readColumnPages(file: Uint8Array, meta: ThriftStruct, row: number, rows: number): Generator<DataPage> {
  const start = Math.min(
    requireThriftNumber(meta[9]),
    meta[11] === undefined ? Number.POSITIVE_INFINITY : requireThriftNumber(meta[11]),
  );
  let dictionary: DataPage['dictionary'] = null;
  for (let at = start, firstRow = row; firstRow < row + rows; ) {
    const { value: header, end } = readThriftStruct(file, at);
    const body: CompressedPage = {
      offset: end,
      compressedBytes: requireThriftNumber(header[3]),
      uncompressedBytes: requireThriftNumber(header[2]),
    };
    at = end + body.compressedBytes;
    if (header[1] === pageTypes.dictionary) {
      dictionary = { ...body, values: requireThriftNumber(requireThriftStruct(header[7])[1]) };
      continue;
    }
    if (header[1] !== pageTypes.data) throw new Error('a file has a page of unknown type');
    const data = requireThriftStruct(header[5]);
    const [values, encoding] = [requireThriftNumber(data[1]), requireThriftNumber(data[2])];
    const isIndexed = encoding === encodings.rleDictionary || encoding === encodings.plainDictionary;
    yield { ...body, firstRow, rows: values, encoding, dictionary: isIndexed ? dictionary : null };
    firstRow += values;
    if (firstRow > row + rows) throw new Error('a column has more rows than its row group');
  }
}

/** Calls `visit` with the symbols of all rows in order, one call per run. @throws Error if they cannot be read */
export function visitSymbols(
  file: Uint8Array,
  { symbolPages: pages, rows }: TickPages,
  visit: (symbol: string, count: number) => void,
): void {
  let dictionary: { of: CompressedPage; texts: readonly string[] } | undefined;
  let row = 0;
  for (const page of pages) {
    if (page.dictionary === null) throw new Error('symbols are not dictionary-encoded');
    if (dictionary?.of !== page.dictionary) {
      dictionary = {
        of: page.dictionary,
        texts: decodePlainStrings(decompressPage(file, page.dictionary), page.dictionary.values),
      };
    }
    const { texts } = dictionary;
    visitIndexes(decompressPage(file, page), 0, page.rows, (index, count) => {
      const symbol = texts[index];
      if (symbol === undefined) throw new Error('a page has an index outside its dictionary');
      visit(symbol, count);
    });
    row += page.rows;
  }
  if (row !== rows) throw new Error('pages are missing');
}

/** Decodes the first `count` PLAIN strings. */
export function decodePlainStrings(bytes: Uint8Array, count: number): string[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  return Array.from({ length: count }, () => {
    const from = at + 4;
    at = from + buffer.readUInt32LE(at);
    if (at > buffer.length) throw new Error('a dictionary is truncated');
    const text = buffer.subarray(from, at);
    if (!isUtf8(text)) throw new Error('a symbol is not valid UTF-8');
    return text.toString('utf8');
  });
}

export function requireThriftNumber(field: ThriftField | undefined): number {
  if (typeof field !== 'number' || field < 0) throw new Error('a number is missing in a header');
  return field;
}

export function requireThriftList(field: ThriftField | undefined): readonly ThriftField[] {
  if (!Array.isArray(field)) throw new Error('a list is missing in a header');
  return field as readonly ThriftField[];
}

export const requireThriftStruct = (field: ThriftField | undefined): ThriftStruct =>
  requireThriftList(field) as ThriftStruct;

export function requireThriftString(field: ThriftField | undefined): string {
  if (!(field instanceof Uint8Array)) throw new Error('a string is missing in a header');
  return Buffer.from(field).toString('utf8');
}
