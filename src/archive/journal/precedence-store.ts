import { dayMs, findFirstEndingAfter, floorToDay, isWithin, splitByDay, type Window } from '../../base/window.ts';
import type { CoveredWindow } from '../format/coverage.ts';
import type { BookObservation, BookObservedAtLookup } from '../format/order-book.ts';
import {
  type KnownPrecedence,
  overlayPrecedence,
  type Precedence,
  type PrecedenceWindow,
  precedenceRanks,
} from '../format/precedence.ts';
import type { SeriesDataset } from '../format/series-datasets.ts';
import type { Database } from './database.ts';

/**
 * Opens the known precedence of the published ticks of one UTC day; `day` is its midnight. Reads all windows of a
 * symbol at once and caches one symbol, because a merge processes symbols one by one.
 */
export function openDayPrecedence(db: Database, day: number, published?: PublishedPrecedence): KnownPrecedence {
  const window = { from: day, to: day + dayMs };
  return createKnownPrecedence({
    published,
    windows: hasPrecedence(db, 'ticks')
      ? cacheLatest((symbol) => readPrecedenceWindows(db, 'ticks', symbol, day))
      : () => noWindows,
    responses: cacheLatest((symbol) => readResponsesIn(db, symbol, window)),
  });
}

const noWindows: readonly PrecedenceWindow[] = [];

/** Whether the state knows the precedence of any row. It knows none in the first publish, which has the most symbols. */
const hasPrecedence = (db: Database, dataset: PrecedenceDataset): boolean =>
  db.one('select 1 from precedence where dataset = ? limit 1', dataset) !== undefined;

/** See `KnownPrecedence.findPublished`; by symbol, sorted and disjoint. */
export type PublishedPrecedence = ReadonlyMap<string, readonly PrecedenceWindow[]>;

/** The known precedence of some symbols as plain values, which can be sent to a worker thread. */
export interface SymbolsPrecedence {
  readonly windows: ReadonlyMap<string, readonly PrecedenceWindow[]>;
  readonly responses: ReadonlyMap<string, readonly CoveringResponse[]>;
  readonly published?: PublishedPrecedence | undefined;
}

/** Reads the known precedence of the published ticks of these symbols on one UTC day. */
export function readPrecedence(db: Database, day: number, symbols: Iterable<string>): SymbolsPrecedence {
  const window = { from: day, to: day + dayMs };
  const out = { windows: new Map<string, PrecedenceWindow[]>(), responses: new Map<string, CoveringResponse[]>() };
  const add = <T>(to: Map<string, T[]>, symbol: string, windows: T[]): void => {
    if (windows.length > 0) to.set(symbol, windows);
  };
  const isKnown = hasPrecedence(db, 'ticks');
  const hasResponses = db.one('select 1 from coverage limit 1') !== undefined;
  if (!isKnown && !hasResponses) return out;
  for (const symbol of symbols) {
    if (isKnown) add(out.windows, symbol, readPrecedenceWindows(db, 'ticks', symbol, day));
    if (hasResponses) add(out.responses, symbol, readResponsesIn(db, symbol, window));
  }
  return out;
}

/** Creates a lookup of precedence in these values. */
export const toKnownPrecedence = ({ windows, responses, published }: SymbolsPrecedence): KnownPrecedence =>
  createKnownPrecedence({
    published,
    windows: (symbol) => windows.get(symbol) ?? [],
    responses: (symbol) => responses.get(symbol) ?? [],
  });

/** The window that a response covered, and when it was generated. */
interface CoveringResponse extends Window {
  readonly fetchedAt: number;
}

const createKnownPrecedence = (lookups: {
  windows(symbol: string): readonly PrecedenceWindow[];
  responses(symbol: string): readonly CoveringResponse[];
  published: PublishedPrecedence | undefined;
}): KnownPrecedence => ({
  getWindows: lookups.windows,
  findPublished: (symbol, t) => findPrecedence(lookups.published, symbol, t),
  // After the state was lost, a tick counts as polled when the response that covers it was generated.
  inferPrecedence(symbol, t) {
    const response = lookups.responses(symbol).find((w) => isWithin(t, w));
    return { rank: precedenceRanks.poll, observedAt: response?.fetchedAt ?? Number.NEGATIVE_INFINITY };
  },
});

function findPrecedence(windows: PublishedPrecedence | undefined, symbol: string, t: number): Precedence | undefined {
  const ofSymbol = windows?.get(symbol) ?? noWindows;
  const next = ofSymbol[findFirstEndingAfter(ofSymbol, t)];
  return next !== undefined && isWithin(t, next) ? next : undefined;
}

const readResponsesIn = (db: Database, symbol: string, { from, to }: Window): CoveringResponse[] =>
  db.all<CoveringResponse & Record<string, number>>(
    `select t_from as "from", t_to as "to", fetched_at as fetchedAt from coverage
     where symbol = ?1 and t_to > ?2 and t_from < ?3 and origin <> 'import' order by fetched_at desc`,
    symbol,
    from,
    to,
  );

/** Reads the known precedence of the published rows of a series of these symbols on one UTC day. */
export function readSeriesPrecedence(
  db: Database,
  dataset: SeriesDataset,
  day: number,
  symbols: Iterable<string>,
): Map<string, readonly PrecedenceWindow[]> {
  const out = new Map<string, readonly PrecedenceWindow[]>();
  for (const symbol of symbols) {
    const windows = readPrecedenceWindows(db, dataset, symbol, day);
    if (windows.length > 0) out.set(symbol, windows);
  }
  return out;
}

/**
 * Creates a lookup of the known precedence of the published rows of a series. Where the state does not know it, the published
 * coverage stands in, and rows without coverage are from imports.
 * @param coverage published coverage of the day, by symbol
 * @param published see `KnownPrecedence.findPublished`
 */
export const toSeriesPrecedence = (
  windows: ReadonlyMap<string, readonly PrecedenceWindow[]>,
  coverage: ReadonlyMap<string, readonly CoveredWindow[]>,
  published?: PublishedPrecedence,
): KnownPrecedence => ({
  getWindows: (symbol) => windows.get(symbol) ?? [],
  findPublished: (symbol, t) => findPrecedence(published, symbol, t),
  inferPrecedence(symbol, t) {
    const window = coverage.get(symbol)?.find((one) => isWithin(t, one));
    const rank = window === undefined || window.origin === 'import' ? precedenceRanks.import : precedenceRanks.poll;
    return { rank, observedAt: window?.fetchedAt ?? Number.NEGATIVE_INFINITY };
  },
});

/** Records the precedence that a merge determined. Must run inside the publish's transaction. */
export function recordPrecedence(
  db: Database,
  changes: readonly PrecedenceWindow[],
  dataset: PrecedenceDataset = 'ticks',
): void {
  const isKnown = hasPrecedence(db, dataset);
  const bySymbol = Map.groupBy(changes, ({ symbol }) => symbol);
  for (const [symbol, windows] of bySymbol) {
    for (const [day, dayWindows] of groupByDay(windows)) {
      const known = isKnown ? readPrecedenceWindows(db, dataset, symbol, day) : [];
      writePrecedence(db, dataset, symbol, day, overlayPrecedence(known, dayWindows));
    }
  }
}

/** Groups windows by the UTC day of their start. Most symbols have a single window. */
const groupByDay = (windows: readonly PrecedenceWindow[]): Iterable<[day: number, windows: PrecedenceWindow[]]> =>
  windows.length === 1
    ? [[floorToDay(windows[0]!.from), [windows[0]!]]]
    : Map.groupBy(windows, ({ from }) => floorToDay(from));

/** The datasets whose rows have a precedence. */
type PrecedenceDataset = 'ticks' | SeriesDataset;

/** Replaces the windows of a symbol and UTC day. They are sorted and disjoint. */
function writePrecedence(
  db: Database,
  dataset: PrecedenceDataset,
  symbol: string,
  day: number,
  windows: readonly PrecedenceWindow[],
): void {
  const packed = packPrecedence(windows, day);
  db.run('insert or replace into precedence values (?, ?, ?, ?)', dataset, symbol, day, packed);
}

function readPrecedenceWindows(
  db: Database,
  dataset: PrecedenceDataset,
  symbol: string,
  day: number,
): PrecedenceWindow[] {
  const row = db.one<{ windows: Uint8Array }>(
    'select windows from precedence where dataset = ? and symbol = ? and day = ?',
    dataset,
    symbol,
    day,
  );
  return row === undefined ? [] : unpackPrecedence(row.windows, symbol, day);
}

/** Reads the windows of which the published ticks are from responses, not from files, sorted. */
export const readPolledWindows = (db: Database, symbol: string, window: Window): PrecedenceWindow[] =>
  splitByDay(window)
    .flatMap(({ from }) => readPrecedenceWindows(db, 'ticks', symbol, floorToDay(from)))
    .filter(({ rank }) => rank === precedenceRanks.poll);

/** Caches the value of the last symbol. */
function cacheLatest<T>(read: (symbol: string) => T): (symbol: string) => T {
  let latest: { symbol: string; value: T } | undefined;
  return (symbol) => {
    if (latest?.symbol !== symbol) latest = { symbol, value: read(symbol) };
    return latest.value;
  };
}

/**
 * Packs the windows of one symbol and UTC day, about seven bytes each. Windows are sorted and disjoint. Each is four
 * LEB128 numbers: milliseconds from the previous end to its start, its length in milliseconds, its rank, and the
 * zigzag-encoded difference between its observation time and the previous one. The first window is relative to `day`.
 * @param day the UTC midnight, epoch ms
 */
function packPrecedence(windows: readonly PrecedenceWindow[], day: number): Uint8Array {
  const bytes: number[] = [];
  let end = day;
  let previousObservedAt = day;
  for (const { from, to, rank, observedAt } of windows) {
    for (const value of [from - end, to - from, rank, encodeZigzag(observedAt - previousObservedAt)])
      appendLeb128(bytes, value);
    end = to;
    previousObservedAt = observedAt;
  }
  return Uint8Array.from(bytes);
}

/** Unpacks the bytes of packPrecedence. @throws Error if they end inside a number */
function unpackPrecedence(bytes: Uint8Array, symbol: string, day: number): PrecedenceWindow[] {
  const out: PrecedenceWindow[] = [];
  let at = 0;
  const next = (): number => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[at++];
      if (byte === undefined) throw new Error(`The precedence record of ${symbol} is truncated.`);
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  let end = day;
  let observedAt = day;
  while (at < bytes.length) {
    const from = end + next();
    end = from + next();
    const rank = next();
    observedAt += decodeZigzag(next());
    out.push({ symbol, from, to: end, rank, observedAt });
  }
  return out;
}

/** Uses arithmetic, because bit operators are limited to 32 bits. */
function appendLeb128(bytes: number[], value: number): void {
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push(128 + (rest % 128));
  bytes.push(rest);
}

const encodeZigzag = (value: number): number => (value < 0 ? -2 * value - 1 : 2 * value);
const decodeZigzag = (value: number): number => (value % 2 === 1 ? -(value + 1) / 2 : value / 2);

/**
 * Looks up when published snapshots were observed. Unknown for snapshots
 * that were published before the state was rebuilt.
 */
export const createBookObservedAtLookup =
  (db: Database): BookObservedAtLookup =>
  (symbol, t) =>
    db.one<{ at: number }>('select observed_at as at from book_observed where symbol = ? and t = ?', symbol, t)?.at;

/** Records the observation times of published snapshots. Must run inside the publish's transaction. */
export function recordBooksObserved(db: Database, previousObservedAt: readonly BookObservation[]): void {
  for (const { symbol, t, observedAt } of previousObservedAt) {
    db.run(
      'insert into book_observed values (?, ?, ?) on conflict do update set observed_at = excluded.observed_at',
      symbol,
      t,
      observedAt,
    );
  }
}
