import { datasets } from '../../archive/format/datasets.ts';
import type { Query } from '../../archive/query/query.ts';
import { toSqlTimestamp } from '../../archive/query/slice-query.ts';
import { quoteLiteral } from '../../archive/query/views.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { floorToDay, type Window } from '../../base/window.ts';
import type { MarketState } from '../engine/symbol-series.ts';

/** Which markets a symbol was known to be of, from a moment on; epoch milliseconds. Several, where a match is in doubt. */
export interface KnownIds {
  readonly from: number;
  readonly ids: readonly string[];
}

/** What polls told of the markets of symbols. */
export interface MarketIndex {
  /** By time; none where no poll told of the symbol. */
  getIds(symbol: string): readonly KnownIds[];
  /** A name for all symbols that were, one by another, ever known to be of one market; null where nothing is known. */
  getGroup(symbol: string): string | null;
}

/** Reads the markets dataset up to a moment: what was told later was not known. */
export async function readMarketIndex(query: Query, to: number, signal: AbortSignal): Promise<MarketIndex> {
  const sql = `SELECT symbol, canonical_id, epoch_ms(first_seen)::DOUBLE FROM markets
    WHERE symbol IS NOT NULL AND first_seen < ${toSqlTimestamp(to)} ORDER BY symbol, first_seen, canonical_id`;
  const ids = new Map<string, readonly KnownIds[]>();
  const groups = createUnionFind();
  // Rows of a symbol stand together. They are many, and what is known by them is little.
  let [of, told] = [null as string | null, [] as { from: number; ids: string[] }[]];
  const learn = (): void => {
    if (of !== null) ids.set(of, foldKnownIds(told));
  };
  for await (const [symbols, names, froms] of query.readChunks([sql], signal)) {
    for (const [row, name] of symbols!.entries()) {
      const [symbol, id, from] = [name as string, names![row] as string, froms![row] as number];
      if (symbol !== of) {
        learn();
        [of, told] = [symbol, []];
      }
      groups.join(id, told.at(-1)?.ids[0] ?? id);
      if (told.at(-1)?.from === from) told.at(-1)!.ids.push(id);
      else told.push({ from, ids: [id] });
    }
  }
  learn();
  return {
    getIds: (symbol) => ids.get(symbol) ?? [],
    getGroup(symbol) {
      const [first] = ids.get(symbol) ?? [];
      return first === undefined ? null : groups.of(first.ids[0]!);
    },
  };
}

/**
 * What was known by what rows of the markets dataset told as they began. Every day begins anew with all that its first poll
 * told; within it a row may be there for another state of a market that was told before, and says nothing of the others.
 */
export function foldKnownIds(told: readonly KnownIds[]): KnownIds[] {
  const known: KnownIds[] = [];
  for (const [i, one] of told.entries()) {
    const last = known.at(-1);
    const isLater = i > 0 && floorToDay(told[i - 1]!.from) === floorToDay(one.from);
    const isNews = last === undefined || !one.ids.every((id) => last.ids.includes(id));
    if (isNews || (!isLater && one.ids.length < last.ids.length)) known.push(one);
  }
  return known;
}

/** Names that belong together, found by one of them. */
function createUnionFind() {
  const above = new Map<string, string>();
  const of = (name: string): string => {
    let top = name;
    for (let next = above.get(top); next !== undefined; next = above.get(top)) top = next;
    // Whoever asks again finds it at once.
    for (let at = name; at !== top; ) {
      const next = above.get(at)!;
      above.set(at, top);
      at = next;
    }
    return top;
  };
  return {
    of,
    join(a: string, b: string): void {
      const [x, y] = [of(a), of(b)];
      // The lesser stands for both, so that the order of rows makes no difference.
      if (x !== y) above.set(x < y ? y : x, x < y ? x : y);
    },
  };
}

/** When two symbols were known to be of one market. */
export function findSharedWindows(a: readonly KnownIds[], b: readonly KnownIds[]): Window[] {
  const out: { from: number; to: number }[] = [];
  const moments = [...new Set([...a, ...b].map(({ from }) => from))].sort((x, y) => x - y);
  const idsAt = (known: readonly KnownIds[], t: number): readonly string[] =>
    known.findLast(({ from }) => from <= t)?.ids ?? [];
  for (const [i, from] of moments.entries()) {
    const ofB = idsAt(b, from);
    if (!idsAt(a, from).some((id) => ofB.includes(id))) continue;
    const to = moments[i + 1] ?? Number.POSITIVE_INFINITY;
    if (out.at(-1)?.to === from) out.at(-1)!.to = to;
    else out.push({ from, to });
  }
  return out;
}

/** The columns of the markets dataset that are read for them. */
const stateNames = ['symbol', 'canonical_id', 'first_seen', 'last_seen', 'category', 'confidence', 'closes_at'];
export const stateColumns = datasets.markets.filter(({ name }) => stateNames.includes(name));

/** Rows of the markets dataset up to a moment, as `readMarketStates` wants them. */
export const createStatesQuery = (to: number): string =>
  `SELECT ${stateNames.join(', ')} FROM markets
    WHERE symbol IS NOT NULL AND first_seen < ${toSqlTimestamp(to)} ORDER BY symbol, first_seen, canonical_id`;

/** Where rows are in order by symbol, the range tells which of them need not be read. */
function formatSymbolCondition(symbols: readonly string[]): string {
  const names = symbols.toSorted(compareUtf8).map(quoteLiteral);
  return `symbol BETWEEN ${names[0]} AND ${names.at(-1)} AND symbol IN (${names.join(', ')})`;
}

/**
 * What was known of the markets of symbols, up to a moment. A row of the dataset begins with the poll that first showed its
 * category and its end; its confidence is that of the last poll that it spans, and was known from then on only.
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
  const learned = new Map<string, StateUpdate[]>();
  for await (const chunk of query.readChunks([sql], signal)) {
    for (const row of chunk[0]!.keys()) {
      const [symbol, first, last, category, confidence, closesAt] = chunk.map((column) => column[row]) as StateRow;
      const list = learned.get(symbol) ?? [];
      learned.set(symbol, list);
      list.push({ from: first, category, closesAt }, { from: last, confidence });
    }
  }
  return new Map([...learned].map(([symbol, list]) => [symbol, foldStates(list)]));
}

type StateRow = [
  ...[symbol: string, first: number, last: number],
  ...[category: string | null, confidence: number | null, closesAt: number | null],
];

/** What one poll told. */
type StateUpdate = Partial<MarketState> & Pick<MarketState, 'from'>;

function foldStates(learned: readonly StateUpdate[]): MarketState[] {
  const states: MarketState[] = [];
  let state: MarketState = { from: 0, category: null, confidence: null, closesAt: null };
  for (const one of learned.toSorted((a, b) => a.from - b.from)) {
    const next = { ...state, ...one };
    // Every day begins anew with what was known the day before.
    const { category, confidence, closesAt } = state;
    const same = next.category === category && next.confidence === confidence && next.closesAt === closesAt;
    if (same && states.length > 0) continue;
    if (states.at(-1)?.from === next.from) states.pop();
    states.push(next);
    state = next;
  }
  return states;
}
