import { pushTo } from '../../base/push-to.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { findRange, findRangeIndex, isInRange, type SymbolRange } from '../../base/symbol-range.ts';
import { formatDay } from '../../base/time.ts';
import { type DatasetName, datasetNames, isSplitBySymbol } from './datasets.ts';
import { parsePartNumber } from './layout.ts';
import { hasRows, type Manifest, type PublishedFile } from './manifest.ts';

// The rows of a day are split into parts by ranges of their symbols, which are disjoint. A row never moves to another part:
// readers may glob while a publish renames files.

/** A part of a UTC day: one file of each dataset that is split by symbol. `day` is its midnight in epoch ms. */
export interface DayPart extends SymbolRange {
  readonly day: number;
  readonly part: number;
}

export type PartKey = Pick<DayPart, 'day' | 'part'>;

export const toPartKey = ({ day, part }: PartKey): string => `${day} ${part}`;

/** The parts sorted by day and number, each once. */
export const sortParts = <P extends PartKey>(parts: readonly P[]): P[] =>
  [...new Map(parts.map((one) => [toPartKey(one), one])).values()].sort((a, b) => a.day - b.day || a.part - b.part);

/** The range of the symbols of a file; undefined if it has no rows. */
export const getFileRange = ({ symbol_from, symbol_to }: PublishedFile): SymbolRange | undefined =>
  symbol_from === null || symbol_to === null ? undefined : { from: symbol_from, to: symbol_to };

const filesByDate = new WeakMap<readonly PublishedFile[], ReadonlyMap<string, readonly PublishedFile[]>>();

/** The files of a dataset and UTC day that have rows, in manifest order. */
export function listDayFiles(
  { datasets }: Pick<Manifest, 'datasets'>,
  dataset: DatasetName,
  date: string,
): readonly PublishedFile[] {
  const { files } = datasets[dataset];
  let byDate = filesByDate.get(files);
  if (byDate === undefined) {
    byDate = Map.groupBy(files.filter(hasRows), (file) => file.date!);
    filesByDate.set(files, byDate);
  }
  return byDate.get(date) ?? [];
}

/** The file of a dataset that may have rows of a symbol on a UTC day; `day` is its midnight in epoch ms. */
export const findSymbolFile = (
  manifest: Pick<Manifest, 'datasets'>,
  dataset: DatasetName,
  symbol: string,
  day: number,
): PublishedFile | undefined =>
  listDayFiles(manifest, dataset, formatDay(day)).find((file) => {
    const range = getFileRange(file);
    return range !== undefined && isInRange(range, symbol);
  });

/** A part, and its number of rows of all datasets but candles. */
export interface SizedPart extends SymbolRange {
  readonly part: number;
  readonly rows: number;
}

const splitNames = datasetNames.filter(isSplitBySymbol);

/** The published parts of a UTC day, sorted by range. The range of a part spans those of its files. */
export function listPublishedParts(manifest: Pick<Manifest, 'datasets'>, day: number): SizedPart[] {
  const parts = new Map<number, SizedPart>();
  for (const name of splitNames)
    for (const file of listDayFiles(manifest, name, formatDay(day))) {
      const { from, to } = getFileRange(file)!;
      const part = parsePartNumber(file.path);
      const known = parts.get(part) ?? { part, from, to, rows: 0 };
      parts.set(part, {
        part,
        from: compareUtf8(from, known.from) < 0 ? from : known.from,
        to: compareUtf8(to, known.to) > 0 ? to : known.to,
        rows: known.rows + (isCandles(name) ? 0 : file.rows),
      });
    }
  return sortByRange([...parts.values()]);
}

export const isCandles = (name: DatasetName): boolean => name.startsWith('candles_');

const sortByRange = <R extends SymbolRange>(ranges: R[]): R[] => ranges.sort((a, b) => compareUtf8(a.from, b.from));

/** The parts of a UTC day, sorted by range. */
export const listDayParts = (manifest: Pick<Manifest, 'datasets'>, day: number): DayPart[] =>
  listPublishedParts(manifest, day).map(({ part, from, to }) => ({ day, part, from, to }));

/** The parts of the days of a generation. */
export interface DayPartLookup {
  /** Sorted by range. */
  list(day: number): readonly DayPart[];
  find(day: number, symbol: string): DayPart | undefined;
}

/** The published parts, or those of `chosen` on its days. */
export function createPartLookup(
  manifest: Pick<Manifest, 'datasets'>,
  chosen: ReadonlyMap<number, readonly DayPart[]> = new Map(),
): DayPartLookup {
  const published = new Map<number, readonly DayPart[]>();
  const list = (day: number): readonly DayPart[] => {
    const known = chosen.get(day) ?? published.get(day) ?? listDayParts(manifest, day);
    published.set(day, known);
    return known;
  };
  return { list, find: (day, symbol) => findRange(list(day), symbol) };
}

/** How many rows a publish adds to a symbol's day. */
export interface SymbolRows {
  readonly symbol: string;
  readonly rows: number;
}

/** A part takes further symbols up to this multiple of the size to aim at. */
const roomFactor = 1.25;
/** A new part with more than one symbol has at most this multiple. */
const sizeFactorMax = 2;

/**
 * Chooses the parts of a day before a publish. Symbols in the range of a part belong to it. Others extend the range of the
 * part before or after them, as long as it has room, or get new parts. So ranges stay disjoint, and every symbol that was in
 * a part stays there.
 * @param published sorted by range @param added sorted by symbol, each once
 * @param aimRows the rows of a part to aim at. A part gets symbols from outside of its range up to 1.25 times as many, and a
 * new one has at most twice as many, unless it has only one symbol
 * @returns the parts sorted by range, with the rows after the publish
 */
export function chooseParts(
  published: readonly SizedPart[],
  added: readonly SymbolRows[],
  aimRows: number,
): SizedPart[] {
  const parts = published.map((part) => ({ ...part }));
  // By the index of the part after them.
  const outside = new Map<number, SymbolRows[]>();
  for (const one of added) {
    const i = findRangeIndex(parts, one.symbol);
    const part = parts[i];
    if (part !== undefined && compareUtf8(part.from, one.symbol) <= 0) part.rows += one.rows;
    else pushTo(outside, i, one);
  }
  let next = parts.reduce((max, { part }) => Math.max(max, part + 1), 0);
  const created: SizedPart[] = [];
  for (const [i, symbols] of outside) {
    const [before, after] = [parts[i - 1], parts[i]];
    let [first, end] = [0, symbols.length];
    const hasRoom = (part: { readonly rows: number } | undefined, one: SymbolRows | undefined): boolean =>
      part !== undefined && one !== undefined && first < end && part.rows + one.rows <= roomFactor * aimRows;
    for (; hasRoom(before, symbols[first]); first++)
      Object.assign(before!, { to: symbols[first]!.symbol, rows: before!.rows + symbols[first]!.rows });
    for (; hasRoom(after, symbols[end - 1]); end--)
      Object.assign(after!, { from: symbols[end - 1]!.symbol, rows: after!.rows + symbols[end - 1]!.rows });
    for (const cut of cutBySize(symbols.slice(first, end), aimRows)) created.push({ part: next++, ...cut });
  }
  return sortByRange([...parts, ...created]);
}

/** Cuts symbols into runs of about equal size, near `aimRows`. */
function cutBySize(symbols: readonly SymbolRows[], aimRows: number): (SymbolRange & { readonly rows: number })[] {
  const total = symbols.reduce((sum, { rows }) => sum + rows, 0);
  const aim = total / Math.max(1, Math.ceil(total / aimRows));
  const out: { from: string; to: string; rows: number; slot: number }[] = [];
  let done = 0;
  for (const { symbol, rows } of symbols) {
    // A symbol belongs where its middle is.
    const slot = Math.floor((done + rows / 2) / aim);
    const last = out.at(-1);
    if (last !== undefined && last.slot === slot && last.rows + rows <= sizeFactorMax * aimRows) {
      last.to = symbol;
      last.rows += rows;
    } else out.push({ from: symbol, to: symbol, rows, slot });
    done += rows;
  }
  return out.map(({ from, to, rows }) => ({ from, to, rows }));
}

/** The most rows to aim at, so that a part fits into memory, however large its day is. */
const aimRowsMax = 5_000_000;
/** Symbols that come later may make parts smaller than those of the day's first publish, down to this share of them. */
const laterShareMin = 1 / 8;
/** Below this number of rows, a published part takes symbols that come later, so that they do not get many small files. */
const laterRowsMin = 4096;
/**
 * Chooses the number of rows of a part to aim at, for the `aimRows` of `chooseParts`.
 * @param parts the number of parts of a day, at least 1
 */
export function computeAimRows(
  published: readonly Pick<SizedPart, 'rows'>[],
  addedRows: number,
  parts: number,
): number {
  const publishedRows = published.reduce((sum, { rows }) => sum + rows, 0);
  const share = (publishedRows + addedRows) / parts;
  if (published.length === 0 || parts === 1) return Math.max(1, Math.min(share, aimRowsMax));
  const mean = publishedRows / published.length;
  return Math.min(Math.max(Math.min(mean, share), share * laterShareMin, laterRowsMin), aimRowsMax);
}
