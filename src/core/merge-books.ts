import { type BookSide, compareContent, levelsOf, type Snapshot } from './book.ts';
import { compareUtf8 } from './compare-utf8.ts';

/** A snapshot and when it was observed, epoch ms: when its answer was generated. */
export interface SeenSnapshot extends Snapshot {
  readonly symbol: string;
  readonly observedAt: number;
}

/**
 * Order books of many symbols, one row a level: symbol i holds rows offsets[i] to offsets[i + 1], sorted by t, side
 * (asks first, as the words sort) and level. Symbols in UTF-8 order.
 */
export interface BookColumns {
  readonly symbols: readonly string[];
  readonly offsets: Float64Array;
  readonly t: Float64Array;
  /** 0 for an ask, 1 for a bid. */
  readonly side: Uint8Array;
  /** From 0; -1 in the one row of an empty book, whose price is NaN and quantity 0. */
  readonly level: Int32Array;
  readonly price: Float64Array;
  readonly quantity: Float64Array;
}

export const [askSide, bidSide] = [0, 1];

const columnsFor = (symbols: readonly string[], rows: number): BookColumns => ({
  symbols,
  offsets: new Float64Array(symbols.length + 1),
  t: new Float64Array(rows),
  side: new Uint8Array(rows),
  level: new Int32Array(rows),
  price: new Float64Array(rows),
  quantity: new Float64Array(rows),
});

export const noBooks: BookColumns = columnsFor([], 0);

/** When the published snapshot of a symbol's moment was observed, epoch ms; undefined where that is not known. */
export type BookObserved = (symbol: string, t: number) => number | undefined;

/** A published snapshot and when it was observed, epoch ms. */
export interface ObservedBook {
  readonly symbol: string;
  readonly t: number;
  readonly observedAt: number;
}

export interface MergedBooks {
  readonly columns: BookColumns;
  readonly changed: boolean;
  /** Of each snapshot that came, the one of its moment that is in the columns now. */
  readonly observed: readonly ObservedBook[];
}

/**
 * Merges new snapshots into a part. Of the snapshots of one moment, new or published, the later observed wins, then what is
 * in them decides, so that their order and grouping do not matter; a published one of which it is not known when it was
 * observed is replaced.
 */
export function mergeBooks(
  old: BookColumns,
  fresh: readonly SeenSnapshot[],
  observedAt: BookObserved = () => undefined,
): MergedBooks {
  const winners = winnersOf(fresh);
  const oldIndex = new Map(old.symbols.map((symbol, i) => [symbol, i]));
  const symbols = [...new Set([...old.symbols, ...winners.keys()])].sort(compareUtf8);
  const added = fresh.reduce((sum, snapshot) => sum + rowsOf(snapshot), 0);
  const columns = columnsFor(symbols, old.t.length + added);
  const out: Output = { columns, rows: 0, changed: false, observed: [] };
  symbols.forEach((symbol, i) => {
    const at = oldIndex.get(symbol);
    const [from, to] = at === undefined ? [0, 0] : [old.offsets[at]!, old.offsets[at + 1]!];
    mergeSymbol(out, old, from, to, winners.get(symbol) ?? [], observedAt);
    out.columns.offsets[i + 1] = out.rows;
  });
  return { columns: cut(out.columns, out.rows), changed: out.changed, observed: out.observed };
}

interface Output {
  readonly columns: BookColumns;
  rows: number;
  changed: boolean;
  readonly observed: ObservedBook[];
}

/** The one snapshot of each moment, by symbol, in order of time. */
function winnersOf(fresh: readonly SeenSnapshot[]): Map<string, SeenSnapshot[]> {
  const out = new Map<string, SeenSnapshot[]>();
  for (const [symbol, mine] of Map.groupBy(fresh, (snapshot) => snapshot.symbol)) {
    const byTime = new Map<number, SeenSnapshot>();
    for (const snapshot of mine) {
      const held = byTime.get(snapshot.t);
      if (held === undefined || outranks(snapshot, held)) byTime.set(snapshot.t, snapshot);
    }
    out.set(
      symbol,
      [...byTime.values()].sort((a, b) => a.t - b.t),
    );
  }
  return out;
}

/** Which of two snapshots of one symbol and moment wins. */
export const outranks = (a: SeenSnapshot, b: SeenSnapshot): boolean =>
  (a.observedAt - b.observedAt || compareContent(a, b)) > 0;

const rowsOf = (snapshot: Snapshot): number => Math.max(1, levelsOf(snapshot));

function mergeSymbol(
  out: Output,
  old: BookColumns,
  from: number,
  to: number,
  fresh: readonly SeenSnapshot[],
  observedAt: BookObserved,
): void {
  let at = from;
  for (const snapshot of fresh) {
    const kept = at;
    while (at < to && old.t[at]! < snapshot.t) at++;
    copy(out, old, kept, at);
    const held = at;
    while (at < to && old.t[at] === snapshot.t) at++;
    const { symbol, t } = snapshot;
    const heldSince = at > held ? observedAt(symbol, t) : undefined;
    if (
      heldSince !== undefined &&
      outranks(publishedAt(old, held, at, { symbol, t, observedAt: heldSince }), snapshot)
    ) {
      copy(out, old, held, at);
      continue;
    }
    out.observed.push({ symbol, t, observedAt: snapshot.observedAt });
    const start = out.rows;
    write(out, snapshot);
    if (!sameRows(old, held, at, out.columns, start, out.rows)) out.changed = true;
  }
  copy(out, old, at, to);
}

/** The snapshot in rows `from` to `to`, all of one moment. */
function publishedAt(old: BookColumns, from: number, to: number, key: ObservedBook): SeenSnapshot {
  let bids = from;
  while (bids < to && old.side[bids] === askSide) bids++;
  // An empty book has one row, which is of no level.
  const end = old.level[to - 1] === -1 ? bids : to;
  const side = (first: number, last: number): BookSide => ({
    prices: old.price.subarray(first, last),
    quantities: old.quantity.subarray(first, last),
  });
  return { ...key, asks: side(from, bids), bids: side(bids, end) };
}

function copy(out: Output, old: BookColumns, from: number, to: number): void {
  const { columns, rows } = out;
  columns.t.set(old.t.subarray(from, to), rows);
  columns.side.set(old.side.subarray(from, to), rows);
  columns.level.set(old.level.subarray(from, to), rows);
  columns.price.set(old.price.subarray(from, to), rows);
  columns.quantity.set(old.quantity.subarray(from, to), rows);
  out.rows += to - from;
}

function write(out: Output, { t, asks, bids }: Snapshot): void {
  const row = (side: number, level: number, price: number, quantity: number): void => {
    const { columns, rows } = out;
    columns.t[rows] = t;
    columns.side[rows] = side;
    columns.level[rows] = level;
    columns.price[rows] = price;
    columns.quantity[rows] = quantity;
    out.rows++;
  };
  const before = out.rows;
  for (const [level, price] of asks.prices.entries()) row(askSide, level, price, asks.quantities[level]!);
  for (const [level, price] of bids.prices.entries()) row(bidSide, level, price, bids.quantities[level]!);
  if (out.rows === before) row(bidSide, -1, Number.NaN, 0);
}

function sameRows(a: BookColumns, from: number, to: number, b: BookColumns, start: number, end: number): boolean {
  if (to - from !== end - start) return false;
  for (let i = 0; i < to - from; i++) {
    const [x, y] = [from + i, start + i];
    // Levels follow from the sides. An empty book's price is NaN, which equals nothing.
    if (a.side[x] !== b.side[y] || a.quantity[x] !== b.quantity[y] || !Object.is(a.price[x], b.price[y])) return false;
  }
  return true;
}

const cut = (columns: BookColumns, rows: number): BookColumns => ({
  symbols: columns.symbols,
  offsets: columns.offsets,
  t: columns.t.subarray(0, rows),
  side: columns.side.subarray(0, rows),
  level: columns.level.subarray(0, rows),
  price: columns.price.subarray(0, rows),
  quantity: columns.quantity.subarray(0, rows),
});
