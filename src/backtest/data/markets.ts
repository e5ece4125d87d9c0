import { datasets } from '../../archive/format/datasets.ts';
import type { Query } from '../../archive/query/query.ts';
import { toSqlTimestamp } from '../../archive/query/slice-query.ts';
import { quoteLiteral } from '../../archive/query/views.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { floorToDay, type Window } from '../../base/window.ts';
import type { MarketState } from '../engine/symbol-series.ts';

/** The market IDs of a symbol known from a time, epoch ms. Several IDs if a match is uncertain. */
export interface KnownIds {
  readonly from: number;
  readonly ids: readonly string[];
}

/** Market IDs of symbols, as of each poll. */
export type MarketIndex = Awaited<ReturnType<typeof readMarketIndex>>;

/** Reads the markets dataset up to a time, exclusive. Later rows would be look-ahead. */
export async function readMarketIndex(query: Query, to: number, signal: AbortSignal) {
  const sql = `SELECT symbol, canonical_id, epoch_ms(first_seen)::DOUBLE FROM markets
    WHERE symbol IS NOT NULL AND first_seen < ${toSqlTimestamp(to)} ORDER BY symbol, first_seen, canonical_id`;
  const ids = new Map<string, readonly KnownIds[]>();
  const groups = createUnionFind();
  // Rows are sorted by symbol. Only changes are stored, because there are many rows but few changes.
  let [current, updates] = [null as string | null, [] as { from: number; ids: string[] }[]];
  const flush = (): void => {
    if (current !== null) ids.set(current, foldKnownIds(updates));
  };
  for await (const [symbols, names, froms] of query.readChunks([sql], signal)) {
    for (const [row, name] of symbols!.entries()) {
      const [symbol, id, from] = [name as string, names![row] as string, froms![row] as number];
      if (symbol !== current) {
        flush();
        [current, updates] = [symbol, []];
      }
      groups.join(id, updates.at(-1)?.ids[0] ?? id);
      if (updates.at(-1)?.from === from) updates.at(-1)!.ids.push(id);
      else updates.push({ from, ids: [id] });
    }
  }
  flush();
  return {
    /** In time order; empty for unknown symbols. */
    getIds: (symbol: string): readonly KnownIds[] => ids.get(symbol) ?? [],
    /** Group ID shared by all symbols transitively connected by market IDs; null for unknown symbols. */
    getGroup(symbol: string): string | null {
      const [first] = ids.get(symbol) ?? [];
      return first === undefined ? null : groups.find(first.ids[0]!);
    },
  };
}

/**
 * Folds rows of the markets dataset into changes of known IDs. The first rows of a day list all IDs; a later row of the day
 * may only be a new state of a known market, and does not remove other IDs.
 */
export function foldKnownIds(updates: readonly KnownIds[]): KnownIds[] {
  const known: KnownIds[] = [];
  for (const [i, update] of updates.entries()) {
    const last = known.at(-1);
    const isLater = i > 0 && floorToDay(updates[i - 1]!.from) === floorToDay(update.from);
    const isNew = last === undefined || !update.ids.every((id) => last.ids.includes(id));
    if (isNew || (!isLater && update.ids.length < last.ids.length)) known.push(update);
  }
  return known;
}

/** Union-find over names. */
function createUnionFind() {
  const parents = new Map<string, string>();
  const find = (name: string): string => {
    let root = name;
    for (let next = parents.get(root); next !== undefined; next = parents.get(root)) root = next;
    // Path compression.
    for (let at = name; at !== root; ) {
      const next = parents.get(at)!;
      parents.set(at, root);
      at = next;
    }
    return root;
  };
  return {
    find,
    join(a: string, b: string): void {
      const [x, y] = [find(a), find(b)];
      // The smaller name is the root, so that the order of rows does not matter.
      if (x !== y) parents.set(x < y ? y : x, x < y ? x : y);
    },
  };
}

/** Windows in which two symbols were known to belong to one market. */
export function findSharedWindows(a: readonly KnownIds[], b: readonly KnownIds[]): Window[] {
  const out: { from: number; to: number }[] = [];
  const times = [...new Set([...a, ...b].map(({ from }) => from))].sort((x, y) => x - y);
  const idsAt = (known: readonly KnownIds[], t: number): readonly string[] =>
    known.findLast(({ from }) => from <= t)?.ids ?? [];
  for (const [i, from] of times.entries()) {
    const otherIds = idsAt(b, from);
    if (!idsAt(a, from).some((id) => otherIds.includes(id))) continue;
    const to = times[i + 1] ?? Number.POSITIVE_INFINITY;
    if (out.at(-1)?.to === from) out.at(-1)!.to = to;
    else out.push({ from, to });
  }
  return out;
}

/** Columns of the markets dataset that are read for market states. */
const stateNames = ['symbol', 'canonical_id', 'first_seen', 'last_seen', 'category', 'confidence', 'closes_at'];
export const stateColumns = datasets.markets.columns.filter(({ name }) => stateNames.includes(name));

/** SQL for the rows of the markets dataset first seen before `to`, which `readMarketStates` reads from a file. */
export const createStatesQuery = (to: number): string =>
  `SELECT ${stateNames.join(', ')} FROM markets
    WHERE symbol IS NOT NULL AND first_seen < ${toSqlTimestamp(to)} ORDER BY symbol, first_seen, canonical_id`;

/** The range condition lets DuckDB skip row groups that are sorted by symbol. */
function formatSymbolCondition(symbols: readonly string[]): string {
  const names = symbols.toSorted(compareUtf8).map(quoteLiteral);
  return `symbol BETWEEN ${names[0]} AND ${names.at(-1)} AND symbol IN (${names.join(', ')})`;
}

/**
 * Reads the market states of symbols up to a time. Category and end of a row are known from its first poll; its confidence is
 * that of its last poll, and is known only from then on.
 */
export async function readMarketStates(
  query: Query,
  symbols: readonly string[],
  to: number,
  signal: AbortSignal,
): Promise<Map<string, MarketState[]>> {
  const sql = `SELECT symbol, epoch_ms(first_seen)::DOUBLE, epoch_ms(last_seen)::DOUBLE, category, confidence,
      epoch_ms(closes_at)::DOUBLE FROM markets
    WHERE ${formatSymbolCondition(symbols)} AND first_seen < ${toSqlTimestamp(to)} ORDER BY symbol, first_seen, canonical_id`;
  const updatesBySymbol = new Map<string, StateUpdate[]>();
  for await (const chunk of query.readChunks([sql], signal)) {
    for (const row of chunk[0]!.keys()) {
      const [symbol, first, last, category, confidence, closesAt] = chunk.map((column) => column[row]) as StateRow;
      const list = updatesBySymbol.get(symbol) ?? [];
      updatesBySymbol.set(symbol, list);
      list.push({ from: first, category, closesAt }, { from: last, confidence });
    }
  }
  return new Map([...updatesBySymbol].map(([symbol, list]) => [symbol, foldStates(list)]));
}

type StateRow = [
  ...[symbol: string, first: number, last: number],
  ...[category: string | null, confidence: number | null, closesAt: number | null],
];

/** Changed fields of a state. */
type StateUpdate = Partial<MarketState> & Pick<MarketState, 'from'>;

function foldStates(updatesBySymbol: readonly StateUpdate[]): MarketState[] {
  const states: MarketState[] = [];
  let state: MarketState = { from: 0, category: null, confidence: null, closesAt: null };
  for (const update of updatesBySymbol.toSorted((a, b) => a.from - b.from)) {
    const next = { ...state, ...update };
    // Each day repeats the states of the previous day.
    const { category, confidence, closesAt } = state;
    const isUnchanged = next.category === category && next.confidence === confidence && next.closesAt === closesAt;
    if (isUnchanged && states.length > 0) continue;
    if (states.at(-1)?.from === next.from) states.pop();
    states.push(next);
    state = next;
  }
  return states;
}
