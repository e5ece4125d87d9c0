import type { Query } from '../../query/query.ts';
import { moment } from '../../query/slice.ts';
import { literal } from '../../query/views.ts';
import type { Book, Level, MarketState } from '../../research/series.ts';

const among = (symbols: readonly string[]): string => `symbol IN (${symbols.map(literal).join(', ')})`;

/** States of the markets of symbols, each from the poll that first showed it, up to a moment. */
export async function readStates(
  query: Query,
  symbols: readonly string[],
  to: number,
  signal: AbortSignal,
): Promise<Map<string, MarketState[]>> {
  const sql = `SELECT symbol, epoch_ms(first_seen)::DOUBLE, category, confidence, epoch_ms(closes_at)::DOUBLE FROM markets
    WHERE ${among(symbols)} AND first_seen < ${moment(to)} ORDER BY symbol, first_seen, canonical_id`;
  const out = new Map<string, MarketState[]>();
  for await (const chunk of query.chunks([sql], signal)) {
    for (const row of chunk[0]!.keys()) {
      const [symbol, from, category, confidence, closesAt] = chunk.map((column) => column[row]) as StateRow;
      const states = out.get(symbol) ?? [];
      out.set(symbol, states);
      const last = states.at(-1);
      // Every day begins anew with what was known the day before.
      const same = last?.category === category && last.confidence === confidence && last.closesAt === closesAt;
      if (!same) states.push({ from, category, confidence, closesAt });
    }
  }
  return out;
}

type StateRow = [
  symbol: string,
  from: number,
  category: string | null,
  confidence: number | null,
  closesAt: number | null,
];

/** Order books of symbols in a window of epoch milliseconds. */
export async function readBooks(
  query: Query,
  symbols: readonly string[],
  { from, to }: { readonly from: number; readonly to: number },
  signal: AbortSignal,
): Promise<Map<string, Book[]>> {
  const sql = `SELECT symbol, epoch_ms(t)::DOUBLE, side, price, quantity FROM orderbooks
    WHERE ${among(symbols)} AND t >= ${moment(from)} AND t < ${moment(to)} ORDER BY symbol, t, side, level`;
  const out = new Map<string, (Book & { readonly bids: Level[]; readonly asks: Level[] })[]>();
  for await (const chunk of query.chunks([sql], signal)) {
    for (const row of chunk[0]!.keys()) {
      const [symbol, t, side, price, quantity] = chunk.map((column) => column[row]) as BookRow;
      const books = out.get(symbol) ?? [];
      out.set(symbol, books);
      if (books.at(-1)?.t !== t) books.push({ t, bids: [], asks: [] });
      // An empty book is one row of nothing.
      if (Number.isFinite(price)) books.at(-1)![side === 'bid' ? 'bids' : 'asks'].push([price, quantity]);
    }
  }
  return out;
}

type BookRow = [symbol: string, t: number, side: string, price: number, quantity: number];
