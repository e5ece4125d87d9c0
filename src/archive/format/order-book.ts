import { compareUtf8 } from '../../base/symbol-name.ts';
import { isWithin, subtract, type Window } from '../../base/window.ts';
import type { PublishedCoverage } from './coverage.ts';
import type { SymbolOffsets } from './tick-columns.ts';

/** Levels of one side of an order book, best first, as columns of equal length. */
export interface BookSide {
  readonly prices: Float64Array;
  readonly quantities: Float64Array;
}

/** The order book of a symbol at time `t`, epoch milliseconds. It is empty if neither side has a level. */
export interface OrderBookSnapshot {
  readonly t: number;
  readonly bids: BookSide;
  readonly asks: BookSide;
}

export interface PriceLevel {
  readonly price: number;
  readonly quantity: number;
}

/**
 * Builds a side from levels in any order: best price first, and at one price the greater quantity first. Levels at the
 * same price are not summed: a venue may list individual orders, and a floating-point sum would depend on the sequence
 * of additions.
 */
export function toBookSide(levels: readonly PriceLevel[], best: 'highest' | 'lowest'): BookSide {
  const sign = best === 'highest' ? -1 : 1;
  const sorted = [...levels].sort((a, b) => sign * (a.price - b.price) || b.quantity - a.quantity);
  return {
    // -0 becomes 0, as in ticks.
    prices: Float64Array.from(sorted, ({ price }) => price + 0),
    quantities: Float64Array.from(sorted, ({ quantity }) => quantity + 0),
  };
}

export const countLevels = ({ bids, asks }: OrderBookSnapshot): number => bids.prices.length + asks.prices.length;

/** Orders snapshots of one moment by their content; 0 if they are equal. */
export function compareSnapshots(a: OrderBookSnapshot, b: OrderBookSnapshot): number {
  return (
    compareColumns(a.bids.prices, b.bids.prices) ||
    compareColumns(a.bids.quantities, b.bids.quantities) ||
    compareColumns(a.asks.prices, b.asks.prices) ||
    compareColumns(a.asks.quantities, b.asks.quantities)
  );
}

function compareColumns(a: Float64Array, b: Float64Array): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return a[i]! - b[i]!;
  return a.length - b.length;
}

/** A snapshot with its observation time, epoch ms: when the response was generated. */
export interface ObservedSnapshot extends OrderBookSnapshot {
  readonly symbol: string;
  readonly observedAt: number;
}

/**
 * Order books of many symbols, one row per level. Symbol i holds rows offsets[i] to offsets[i + 1], sorted by t, side
 * (ask before bid) and level. Symbols are in UTF-8 order.
 */
export interface BookColumns extends SymbolOffsets {
  readonly t: Float64Array;
  /** 0 for an ask, 1 for a bid. */
  readonly side: Uint8Array;
  /** Starts at 0. -1 in the only row of an empty book, which has price NaN and quantity 0. */
  readonly level: Int32Array;
  readonly price: Float64Array;
  readonly quantity: Float64Array;
}

export const [askSide, bidSide] = [0, 1];

const allocateBookColumns = (symbols: readonly string[], rows: number): BookColumns => ({
  symbols,
  offsets: new Float64Array(symbols.length + 1),
  t: new Float64Array(rows),
  side: new Uint8Array(rows),
  level: new Int32Array(rows),
  price: new Float64Array(rows),
  quantity: new Float64Array(rows),
});

export const emptyBooks: BookColumns = allocateBookColumns([], 0);

/**
 * Returns when the published snapshot of a symbol at time `t` was observed, epoch ms; undefined if that is not known.
 */
export type BookObservedAtLookup = (symbol: string, t: number) => number | undefined;

/** A published snapshot's key and observation time, epoch ms. */
export interface BookObservation {
  readonly symbol: string;
  readonly t: number;
  readonly observedAt: number;
}

interface MergedBooks {
  readonly columns: BookColumns;
  readonly isChanged: boolean;
  /** The new snapshots that are now in the columns. */
  readonly observed: readonly BookObservation[];
}

/**
 * Merges new snapshots into a part. If several snapshots have the same time, the one observed last has precedence. Ties
 * are broken by content, so the result does not depend on order or grouping. A published snapshot without a known
 * observation time is replaced.
 */
export function mergeBooks(
  old: BookColumns,
  fresh: readonly ObservedSnapshot[],
  observedAt: BookObservedAtLookup = () => undefined,
): MergedBooks {
  const winners = pickWinners(fresh);
  const oldIndex = new Map(old.symbols.map((symbol, i) => [symbol, i]));
  const symbols = [...new Set([...old.symbols, ...winners.keys()])].sort(compareUtf8);
  const added = fresh.reduce((sum, snapshot) => sum + countSnapshotRows(snapshot), 0);
  const columns = allocateBookColumns(symbols, old.t.length + added);
  const out: BookMergeOutput = { columns, rows: 0, isChanged: false, observed: [] };
  symbols.forEach((symbol, i) => {
    const at = oldIndex.get(symbol);
    const [from, to] = at === undefined ? [0, 0] : [old.offsets[at]!, old.offsets[at + 1]!];
    mergeSymbolBooks(out, old, from, to, winners.get(symbol) ?? [], observedAt);
    out.columns.offsets[i + 1] = out.rows;
  });
  return { columns: truncateBookColumns(out.columns, out.rows), isChanged: out.isChanged, observed: out.observed };
}

interface BookMergeOutput {
  readonly columns: BookColumns;
  rows: number;
  isChanged: boolean;
  readonly observed: BookObservation[];
}

/** Picks one snapshot for each moment, by symbol, sorted by time. */
function pickWinners(fresh: readonly ObservedSnapshot[]): Map<string, ObservedSnapshot[]> {
  const out = new Map<string, ObservedSnapshot[]>();
  for (const [symbol, snapshots] of Map.groupBy(fresh, (snapshot) => snapshot.symbol)) {
    const byTime = new Map<number, ObservedSnapshot>();
    for (const snapshot of snapshots) {
      const held = byTime.get(snapshot.t);
      if (held === undefined || hasSnapshotPrecedence(snapshot, held)) byTime.set(snapshot.t, snapshot);
    }
    out.set(
      symbol,
      [...byTime.values()].sort((a, b) => a.t - b.t),
    );
  }
  return out;
}

/** Whether snapshot `a` wins over snapshot `b` of the same symbol and moment. */
export const hasSnapshotPrecedence = (a: ObservedSnapshot, b: ObservedSnapshot): boolean =>
  (a.observedAt - b.observedAt || compareSnapshots(a, b)) > 0;

const countSnapshotRows = (snapshot: OrderBookSnapshot): number => Math.max(1, countLevels(snapshot));

function mergeSymbolBooks(
  out: BookMergeOutput,
  old: BookColumns,
  from: number,
  to: number,
  fresh: readonly ObservedSnapshot[],
  observedAt: BookObservedAtLookup,
): void {
  let at = from;
  for (const snapshot of fresh) {
    const kept = at;
    while (at < to && old.t[at]! < snapshot.t) at++;
    copyBookRows(out, old, kept, at);
    const held = at;
    while (at < to && old.t[at] === snapshot.t) at++;
    const { symbol, t } = snapshot;
    const heldObservedAt = at > held ? observedAt(symbol, t) : undefined;
    if (
      heldObservedAt !== undefined &&
      hasSnapshotPrecedence(readPublishedSnapshot(old, held, at, { symbol, t, observedAt: heldObservedAt }), snapshot)
    ) {
      copyBookRows(out, old, held, at);
      continue;
    }
    out.observed.push({ symbol, t, observedAt: snapshot.observedAt });
    const start = out.rows;
    writeSnapshotRows(out, snapshot);
    if (!hasSameRows(old, held, at, out.columns, start, out.rows)) out.isChanged = true;
  }
  copyBookRows(out, old, at, to);
}

/** The snapshots of one symbol of a part, as they are published: their time stands in for that of their observation. */
export function listSnapshots(books: BookColumns, index: number): ObservedSnapshot[] {
  const out: ObservedSnapshot[] = [];
  const symbol = books.symbols[index]!;
  for (let from = books.offsets[index]!; from < books.offsets[index + 1]!; ) {
    const t = books.t[from]!;
    let to = from + 1;
    while (to < books.offsets[index + 1]! && books.t[to] === t) to++;
    out.push(readPublishedSnapshot(books, from, to, { symbol, t, observedAt: t }));
    from = to;
  }
  return out;
}

/** Reads the snapshot in rows `from` to `to`, which share one moment. */
function readPublishedSnapshot(old: BookColumns, from: number, to: number, key: BookObservation): ObservedSnapshot {
  let bids = from;
  while (bids < to && old.side[bids] === askSide) bids++;
  // An empty book has one row, with level -1.
  const end = old.level[to - 1] === -1 ? bids : to;
  const side = (first: number, last: number): BookSide => ({
    prices: old.price.subarray(first, last),
    quantities: old.quantity.subarray(first, last),
  });
  return { ...key, asks: side(from, bids), bids: side(bids, end) };
}

function copyBookRows(out: BookMergeOutput, old: BookColumns, from: number, to: number): void {
  const { columns, rows } = out;
  columns.t.set(old.t.subarray(from, to), rows);
  columns.side.set(old.side.subarray(from, to), rows);
  columns.level.set(old.level.subarray(from, to), rows);
  columns.price.set(old.price.subarray(from, to), rows);
  columns.quantity.set(old.quantity.subarray(from, to), rows);
  out.rows += to - from;
}

function writeSnapshotRows(out: BookMergeOutput, { t, asks, bids }: OrderBookSnapshot): void {
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

function hasSameRows(a: BookColumns, from: number, to: number, b: BookColumns, start: number, end: number): boolean {
  if (to - from !== end - start) return false;
  for (let i = 0; i < to - from; i++) {
    const [x, y] = [from + i, start + i];
    // Levels follow from the sides. Prices are compared with Object.is, because the price of an empty book is NaN.
    if (a.side[x] !== b.side[y] || a.quantity[x] !== b.quantity[y] || !Object.is(a.price[x], b.price[y])) return false;
  }
  return true;
}

const truncateBookColumns = (columns: BookColumns, rows: number): BookColumns => ({
  symbols: columns.symbols,
  offsets: columns.offsets,
  t: columns.t.subarray(0, rows),
  side: columns.side.subarray(0, rows),
  level: columns.level.subarray(0, rows),
  price: columns.price.subarray(0, rows),
  quantity: columns.quantity.subarray(0, rows),
});

/**
 * Overlays responses on a symbol's coverage of one day, which is sorted and disjoint. Each response covers its own
 * millisecond. A covered moment is unchanged, except that the larger snapshot count is kept. Adjacent milliseconds with
 * the same origin and evidence become one row with the earliest `fetchedAt`.
 */
export function overlayBookCoverage(
  covered: readonly PublishedCoverage[],
  responses: readonly { readonly at: number; readonly snapshots: number }[],
): PublishedCoverage[] {
  const moments = new Map<number, number>();
  for (const { at, snapshots } of responses) moments.set(at, Math.max(snapshots, moments.get(at) ?? 0));
  const isSingle = (w: Window): boolean => w.to === w.from + 1;
  const kept = covered.map((w) => (isSingle(w) ? { ...w, ticks: Math.max(w.ticks, moments.get(w.from) ?? 0) } : w));
  const fresh = [...moments]
    .filter(([at]) => !covered.some((w) => isWithin(at, w)))
    .map(
      ([at, ticks]): PublishedCoverage => ({
        from: at,
        to: at + 1,
        ticks,
        fetchedAt: at,
        origin: 'poll',
        evidence: 'inferred',
      }),
    );
  return joinBookWindows([...kept, ...fresh]);
}

/**
 * Unites the order-book coverage of two archives. Windows that overlap are of the same responses: the longest one has the most
 * of their snapshots.
 */
export function uniteBookCoverage(windows: readonly PublishedCoverage[]): PublishedCoverage[] {
  const longestFirst = windows.toSorted(
    (a, b) => b.to - b.from - (a.to - a.from) || b.ticks - a.ticks || a.from - b.from || a.fetchedAt - b.fetchedAt,
  );
  const taken: PublishedCoverage[] = [];
  for (const next of longestFirst) for (const rest of subtract([next], taken)) taken.push({ ...next, ...rest });
  return joinBookWindows(taken);
}

/** Joins adjacent windows with the same origin and evidence. */
function joinBookWindows(windows: readonly PublishedCoverage[]): PublishedCoverage[] {
  const out: PublishedCoverage[] = [];
  for (const next of windows.toSorted((a, b) => a.from - b.from)) {
    const last = out.at(-1);
    const isJoined = last?.to === next.from && last.origin === next.origin && last.evidence === next.evidence;
    if (last === undefined || !isJoined) out.push(next);
    else {
      const fetchedAt = Math.min(last.fetchedAt, next.fetchedAt);
      out[out.length - 1] = { ...last, to: next.to, ticks: last.ticks + next.ticks, fetchedAt };
    }
  }
  return out;
}
