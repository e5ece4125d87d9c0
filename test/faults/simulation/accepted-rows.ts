import { zstdDecompressSync } from 'node:zlib';
import type { MarketFacts } from '../../../src/archive/format/market.ts';
import type { Database } from '../../../src/archive/journal/database.ts';
import { toDoubles } from '../../../src/archive/journal/journal-rows.ts';
import { floorToDay } from '../../../src/base/window.ts';

/** A market in one poll of the lists; `record`: its journal record, 0 once the state with it is lost. */
export interface Listing {
  readonly record: number;
  readonly observedAt: number;
  readonly reported: Pick<MarketFacts, 'isActive' | 'closesAt' | 'resolvedAt' | 'outcome'>;
}

/** An order book: its prices and quantities as one text. */
interface Book {
  readonly record: number;
  readonly text: string;
}

/** Accepted rows other than ticks. Like the oracle, it sees every transaction of the state. */
export interface AcceptedRows {
  /** By UTC midnight, then by canonical id and symbol. */
  readonly listings: ReadonlyMap<number, ReadonlyMap<string, readonly Listing[]>>;
  /** By symbol and time. */
  readonly books: ReadonlyMap<string, readonly Book[]>;
  observe(db: Database): void;
  /** The state is lost; its journal was empty. */
  forget(): void;
}

export const keyOf = (...parts: readonly (string | number | null)[]): string => parts.join('\n');

/** An order book as one text; bids first, best first. */
export const bookText = (bids: readonly number[][], asks: readonly number[][]): string => JSON.stringify([bids, asks]);

export function trackAccepted(): AcceptedRows {
  const listings = new Map<number, Map<string, Listing[]>>();
  const books = new Map<string, Book[]>();
  let last = 0;

  function observeMarkets(db: Database): void {
    const polls = db.all<{ record_id: number; observed_at: number; payload: Uint8Array } & Record<string, never>>(
      'select record_id, observed_at, payload from journal_markets where record_id > ?',
      last,
    );
    for (const { record_id: record, observed_at: observedAt, payload } of polls) {
      const day = floorToDay(observedAt);
      const ofDay = listings.get(day) ?? new Map<string, Listing[]>();
      listings.set(day, ofDay);
      for (const facts of JSON.parse(zstdDecompressSync(payload).toString()) as MarketFacts[]) {
        const { canonicalId, symbol, isActive, closesAt, resolvedAt, outcome } = facts;
        const values = { isActive, closesAt, resolvedAt, outcome };
        const list = ofDay.get(keyOf(canonicalId, symbol)) ?? [];
        ofDay.set(keyOf(canonicalId, symbol), list);
        list.push({ record, observedAt, reported: values });
      }
    }
  }

  function observeBooks(db: Database): void {
    interface Row {
      record_id: number;
      symbol: string;
      t: number;
      bids: number;
      price: Uint8Array;
      quantity: Uint8Array;
    }
    const rows = db.all<Row & Record<string, never>>(
      'select record_id, symbol, t, bids, price, quantity from journal_books where record_id > ?',
      last,
    );
    for (const { record_id: record, symbol, t, bids, price, quantity } of rows) {
      const quantities = toDoubles(quantity);
      const levels = Array.from(toDoubles(price), (p, i) => [p, quantities[i]!]);
      const list = books.get(keyOf(symbol, t)) ?? [];
      books.set(keyOf(symbol, t), list);
      list.push({ record, text: bookText(levels.slice(0, bids), levels.slice(bids)) });
    }
  }

  return {
    listings,
    books,
    observe(db) {
      if (db.one("select 1 from sqlite_master where name = 'journal'") === undefined) return;
      const { id } = db.one<{ id: number | null }>('select max(id) as id from journal')!;
      if (id === null || id <= last) return;
      observeMarkets(db);
      observeBooks(db);
      last = id;
    },
    forget() {
      last = 0;
      for (const ofDay of listings.values())
        for (const [key, list] of ofDay)
          ofDay.set(
            key,
            list.map((listing) => ({ ...listing, record: 0 })),
          );
      for (const [key, list] of books)
        books.set(
          key,
          list.map((book) => ({ ...book, record: 0 })),
        );
    },
  };
}
