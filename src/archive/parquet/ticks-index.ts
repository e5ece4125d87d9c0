import type { TickColumns } from '../../core/tick.ts';
import { codecs, encodings, pageTypes, repetitions, types } from './format.ts';
import { dictionaryBytesMax, type Page, type PageBody, plainBytes, readValues, visitIndexes } from './page-values.ts';
import { type Field, readStruct, type Struct } from './thrift.ts';
import { decodeTicks } from './ticks-file.ts';

/** Where the ticks of a part are in its file: symbol i holds rows offsets[i] to offsets[i + 1]. */
export interface TicksIndex {
  readonly symbols: ReadonlyMap<string, number>;
  readonly offsets: Float64Array;
  readonly t: readonly Page[];
  readonly p: readonly Page[];
  /** Bytes that it holds in memory, about. */
  readonly bytes: number;
}

/**
 * Reads the footer, the page headers and the symbols of a part, not its times and prices.
 * @throws Error where the file is not stored as our writer stores ticks; `decodeTicks` may still read it
 */
export function indexTicks(file: Uint8Array): TicksIndex {
  const footer = footerOf(file);
  requireColumns(list(footer[2]));
  const columns: Record<'symbol' | 't' | 'p', Page[]> = { symbol: [], t: [], p: [] };
  let row = 0;
  for (const group of list(footer[4])) {
    const rows = number((group as Struct)[3]);
    for (const chunk of list((group as Struct)[1])) {
      const meta = struct((chunk as Struct)[3]);
      const name = textOf(list(meta[3])[0]) as keyof typeof columns;
      if (meta[4] !== codecs.zstd) throw new Error('a column is not stored with zstd');
      for (const page of pagesOf(file, meta, row, rows)) columns[name].push(page);
    }
    row += rows;
  }
  const { symbols, offsets } = symbolsOf(file, columns.symbol, row);
  const pages = [...columns.t, ...columns.p];
  const small = new Set(pages.map((page) => page.dictionary).filter((d) => (d?.plainSize ?? 0) <= dictionaryBytesMax));
  const kept = [...small].reduce((sum, dictionary) => sum + (dictionary?.plainSize ?? 0), 0);
  const bytes = 200 * pages.length + 150 * symbols.size + kept;
  return { symbols, offsets, t: columns.t, p: columns.p, bytes };
}

/** The ticks of one symbol of a part that was indexed; undefined where it has none. */
export function ticksOf(file: Uint8Array, index: TicksIndex, symbol: string): TickColumns | undefined {
  const i = index.symbols.get(symbol);
  if (i === undefined) return undefined;
  const [from, to] = [index.offsets[i]!, index.offsets[i + 1]!];
  return { t: readValues(file, index.t, 'int64', from, to), p: readValues(file, index.p, 'double', from, to) };
}

/** The same by the plain way, which decodes the whole part. */
export function ticksOfWhole(file: Uint8Array, symbol: string): TickColumns | undefined {
  const { symbols, offsets, t, p } = decodeTicks(file);
  const i = symbols.indexOf(symbol);
  // Copies, so that the whole part is not held with them.
  return i < 0 ? undefined : { t: t.slice(offsets[i]!, offsets[i + 1]!), p: p.slice(offsets[i]!, offsets[i + 1]!) };
}

function footerOf(file: Uint8Array): Struct {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const length = view.getUint32(file.length - 8, true);
  return readStruct(file, file.length - 8 - length).value;
}

function requireColumns(schema: readonly Field[]): void {
  const wanted = [
    ['symbol', types.text],
    ['t', types.int64],
    ['p', types.double],
  ];
  const found = schema.slice(1).map((element) => {
    const { 1: type, 3: repetition, 4: name } = element as Struct;
    if (repetition !== repetitions.required) throw new Error('a column may be null');
    return [textOf(name), type];
  });
  if (JSON.stringify(found) !== JSON.stringify(wanted)) throw new Error('a file has other columns than ticks have');
}

/** The data pages of one column chunk, its rows beginning at `row`. */
function* pagesOf(file: Uint8Array, meta: Struct, row: number, rows: number): Generator<Page> {
  const start = Math.min(number(meta[9]), meta[11] === undefined ? Number.POSITIVE_INFINITY : number(meta[11]));
  let dictionary: Page['dictionary'] = null;
  for (let at = start, first = row; first < row + rows; ) {
    const { value: header, end } = readStruct(file, at);
    const body: PageBody = { at: end, size: number(header[3]), plainSize: number(header[2]) };
    at = end + body.size;
    if (header[1] === pageTypes.dictionary) {
      dictionary = { ...body, values: number(struct(header[7])[1]) };
      continue;
    }
    if (header[1] !== pageTypes.data) throw new Error('a file has pages of an unknown type');
    const data = struct(header[5]);
    const [values, encoding] = [number(data[1]), number(data[2])];
    const indexed = encoding === encodings.rleDictionary || encoding === encodings.plainDictionary;
    yield { ...body, first, rows: values, encoding, dictionary: indexed ? dictionary : null };
    first += values;
  }
}

/** The symbols and their rows: of sorted rows each symbol is one run, or one a page. */
function symbolsOf(
  file: Uint8Array,
  pages: readonly Page[],
  rows: number,
): { symbols: Map<string, number>; offsets: Float64Array } {
  const symbols = new Map<string, number>();
  const starts: number[] = [];
  let dictionary: { of: PageBody; texts: readonly string[] } | undefined;
  let row = 0;
  let latest: string | undefined;
  for (const page of pages) {
    if (page.dictionary === null) throw new Error('symbols are not stored by a dictionary');
    if (dictionary?.of !== page.dictionary) {
      dictionary = { of: page.dictionary, texts: textsOf(plainBytes(file, page.dictionary), page.dictionary.values) };
    }
    const { texts } = dictionary;
    visitIndexes(plainBytes(file, page), 0, page.rows, (index, count) => {
      const symbol = texts[index];
      if (symbol === undefined) throw new Error('a page names what its dictionary lacks');
      if (symbol !== latest) {
        if (symbols.has(symbol)) throw new Error('symbols are not sorted');
        symbols.set(symbol, starts.length);
        starts.push(row);
        latest = symbol;
      }
      row += count;
    });
  }
  if (row !== rows) throw new Error('pages are missing');
  return { symbols, offsets: Float64Array.from([...starts, row]) };
}

function textsOf(bytes: Uint8Array, count: number): string[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  return Array.from({ length: count }, () => {
    const from = at + 4;
    at = from + buffer.readUInt32LE(at);
    if (at > buffer.length) throw new Error('a dictionary ends too early');
    return buffer.toString('utf8', from, at);
  });
}

function number(field: Field | undefined): number {
  if (typeof field !== 'number' || field < 0) throw new Error('a header lacks a number');
  return field;
}

function list(field: Field | undefined): readonly Field[] {
  if (!Array.isArray(field)) throw new Error('a header lacks a list');
  return field as readonly Field[];
}

const struct = (field: Field | undefined): Struct => list(field) as Struct;

function textOf(field: Field | undefined): string {
  if (!(field instanceof Uint8Array)) throw new Error('a header lacks a text');
  return Buffer.from(field).toString('utf8');
}
