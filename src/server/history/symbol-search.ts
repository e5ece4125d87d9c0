import { findOpenWindow, type Selections, type UnselectedWindow } from '../../archive/format/selection.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { dayMs } from '../../base/window.ts';
import {
  endsSoonDays,
  type FoundSymbol,
  type SymbolSort,
  type SymbolState,
  type SymbolsQuery,
  symbolsLimitDefault,
  symbolsLimitMax,
} from '../../contract/symbols.ts';

/** A row of the symbols dataset: what a response has of a symbol at any time, and what the search and the state need. */
export interface SymbolRow extends Omit<FoundSymbol, 'state' | 'not_collected'> {
  readonly canonical_id: string | null;
  readonly is_active: boolean | null;
}

interface Facet {
  readonly name: string;
  readonly symbols: number;
}

/** Maximum number of names of a facet. */
const facetsMax = 200;
/** Maximum number of words; further words are ignored. */
const wordsMax = 20;

/** A text without case and accents, so that `sao` finds `São`. */
export const foldText = (text: string): string =>
  // Most texts are ASCII, for which the normalization would take most of the time.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range of ASCII
  /^[\x00-\x7f]*$/.test(text)
    ? text.toLowerCase()
    : text
        .normalize('NFKD')
        .replace(/\p{M}+/gu, '')
        .toLowerCase();

export const toSearchText = ({ question, symbol, category, source, canonical_id }: SymbolRow): string =>
  foldText([question, symbol, category, source, canonical_id].filter((part) => part !== null).join('\n'));

/** The symbols of one generation, prepared for search. */
export type SymbolTable = ReturnType<typeof buildSymbolTable>;

/** @param texts the result of `toSearchText` for each row */
export function buildSymbolTable(rows: readonly SymbolRow[], texts: readonly string[]) {
  const sorted = rows.map((_, i) => i).sort((a, b) => compareUtf8(rows[a]!.symbol, rows[b]!.symbol));
  // Stable sorts: equal rows stay in the order of their symbols.
  const sortBy = (key: (row: SymbolRow) => number): Uint32Array => {
    const keys = Float64Array.from(rows, key);
    return Uint32Array.from([...sorted].sort((a, b) => (keys[a]! < keys[b]! ? -1 : keys[a]! > keys[b]! ? 1 : 0)));
  };
  return {
    rows,
    /** The folded text of each row that words are searched in. */
    texts,
    bySymbol: new Map(rows.map(({ symbol }, i) => [symbol, i])),
    /** Row numbers in the order of each sort; of `ending`, by time, rows without an end last. */
    orders: {
      name: Uint32Array.from(sorted),
      ticks: sortBy(({ ticks }) => -ticks),
      newest: sortBy(({ opens_at, first_seen }) => -Math.max(first_seen, opens_at ?? 0)),
      ending: sortBy(({ ends_at }) => ends_at ?? Number.POSITIVE_INFINITY),
    },
    sources: countNames(rows, ({ source }) => source),
    categories: countNames(rows, ({ category }) => category),
  };
}

function countNames(rows: readonly SymbolRow[], nameOf: (row: SymbolRow) => string | null): readonly Facet[] {
  const counts = new Map<string, number>();
  for (const row of rows) {
    const name = nameOf(row);
    if (name !== null && name !== '') counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts]
    .map(([name, symbols]) => ({ name, symbols }))
    .sort((a, b) => b.symbols - a.symbols || compareUtf8(a.name, b.name))
    .slice(0, facetsMax);
}

interface FoundPage {
  readonly symbols: readonly FoundSymbol[];
  readonly total: number;
}

/**
 * Finds the symbols of a page. It is fast enough for every key stroke: one pass over the texts in the order of memory, and
 * a longer text only looks at what the shorter one has found.
 */
export function searchSymbols(
  table: SymbolTable,
  query: SymbolsQuery,
  nowMs: number,
  selections: Selections = new Map(),
): FoundPage {
  const { q = '', sort = 'ticks', offset = 0 } = query;
  const limit = Math.min(query.limit ?? symbolsLimitDefault, symbolsLimitMax);
  const { rows } = table;
  const words = splitWords(q);
  const isMatch = createFilter(query, nowMs, selections);
  const isFound = new Uint8Array(rows.length);
  let total = 0;
  const mark = (i: number): void => {
    if (isFound[i] === 1 || !isMatch(rows[i]!)) return;
    isFound[i] = 1;
    total++;
  };
  const matches = findMatches(table, words);
  if (matches === null) for (let i = 0; i < rows.length; i++) mark(i);
  else for (const i of matches) mark(i);
  const exact = words.length === 0 ? undefined : (table.bySymbol.get(q) ?? table.bySymbol.get(q.trim()));
  if (exact !== undefined) mark(exact);
  const isFirst = exact !== undefined && isFound[exact] === 1;
  if (isFirst) isFound[exact] = 0;

  const shown: number[] = isFirst && offset === 0 ? [exact] : [];
  // The exact symbol takes the first place.
  let skip = offset - (isFirst && offset > 0 ? 1 : 0);
  if (skip < total)
    for (const i of selectOrder(table, sort, nowMs)) {
      if (shown.length >= limit) break;
      if (isFound[i] === 1 && --skip < 0) shown.push(i);
    }
  return { symbols: shown.map((i) => toFoundSymbol(rows[i]!, nowMs, selections)), total };
}

const splitWords = (text: string): readonly string[] =>
  [...new Set(foldText(text).split(/\s+/u))].filter((word) => word !== '').slice(0, wordsMax);

/** Maximum number of remembered results per table, of at most 4 bytes a symbol. */
const resultsMax = 8;

interface WordsResult {
  readonly words: readonly string[];
  readonly matches: Uint32Array;
}

const resultsByTable = new WeakMap<SymbolTable, WordsResult[]>();

/** The rows with all words, in the order of memory; null for all rows. */
function findMatches(table: SymbolTable, words: readonly string[]): Uint32Array | null {
  if (words.length === 0) return null;
  const results = resultsByTable.get(table) ?? [];
  resultsByTable.set(table, results);
  // Every row with the new words has the old ones, if each of these is a part of a new one.
  const within = results
    .filter((result) => result.words.every((old) => words.some((word) => word.includes(old))))
    .reduce<WordsResult | null>(
      (best, one) => (best === null || one.matches.length < best.matches.length ? one : best),
      null,
    );
  const hasAll = (i: number): boolean => words.every((word) => table.texts[i]!.includes(word));
  const matches = within === null ? collectRows(table.rows.length, hasAll) : within.matches.filter(hasAll);
  results.push({ words, matches });
  if (results.length > resultsMax) results.shift();
  return matches;
}

function collectRows(count: number, isWanted: (i: number) => boolean): Uint32Array {
  const out = new Uint32Array(count);
  let length = 0;
  for (let i = 0; i < count; i++) if (isWanted(i)) out[length++] = i;
  return out.slice(0, length);
}

/** The rows in the order of a sort. The market that ends next is first, and those that ended are after all others. */
function selectOrder({ rows, orders }: SymbolTable, sort: SymbolSort, nowMs: number): Iterable<number> {
  const order = orders[sort];
  if (sort !== 'ending') return order;
  const endOf = (i: number): number => rows[i]!.ends_at ?? Number.POSITIVE_INFINITY;
  const countUntil = (isReached: (i: number) => boolean): number => {
    const at = order.findIndex(isReached);
    return at < 0 ? order.length : at;
  };
  const next = countUntil((i) => endOf(i) >= nowMs);
  const unknown = countUntil((i) => rows[i]!.ends_at === null);
  const out = new Uint32Array(order.length);
  out.set(order.subarray(next, unknown));
  out.set(order.slice(0, next).reverse(), unknown - next);
  out.set(order.subarray(unknown), unknown);
  return out;
}

function createFilter(
  { source, category, state }: SymbolsQuery,
  nowMs: number,
  selections: Selections,
): (row: SymbolRow) => boolean {
  const endMax = nowMs + endsSoonDays * dayMs;
  return (row) => {
    if (source !== undefined && row.source !== source) return false;
    if (category !== undefined && row.category !== category) return false;
    if (state === undefined) return true;
    if (state !== 'ending') return toState(row, nowMs, selections) === state;
    const { ends_at } = row;
    return ends_at !== null && ends_at >= nowMs && ends_at <= endMax && toState(row, nowMs, selections) === 'active';
  };
}

/** The state of a market at a time. The end of a market has precedence over the decision not to collect it. */
function toState(
  { symbol, outcome, resolved_at, is_active }: SymbolRow,
  nowMs: number,
  selections: Selections,
): SymbolState {
  if (outcome !== null || (resolved_at !== null && resolved_at <= nowMs)) return 'resolved';
  if (is_active === false) return 'closed';
  const window = findOpenWindow(selections.get(symbol) ?? {});
  if (window !== undefined) return toKind(window);
  return is_active === null ? 'unlisted' : 'active';
}

const toKind = ({ kind }: UnselectedWindow) => (kind === 'forgotten' ? 'forgotten' : 'excluded');

function toNotCollected(window: UnselectedWindow | undefined): FoundSymbol['not_collected'] {
  if (window === undefined) return null;
  const { from, reason, decidedAt } = window;
  return { kind: toKind(window), since: Number.isFinite(from) ? from : null, reason, decided_at: decidedAt };
}

function toFoundSymbol(row: SymbolRow, nowMs: number, selections: Selections): FoundSymbol {
  const { canonical_id: _id, is_active: _active, ...rest } = row;
  const window = findOpenWindow(selections.get(row.symbol) ?? {});
  return { ...rest, state: toState(row, nowMs, selections), not_collected: toNotCollected(window) };
}
