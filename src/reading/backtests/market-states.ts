import type { Query } from '../../query/query.ts';
import { moment } from '../../query/slice.ts';
import { literal } from '../../query/views.ts';
import type { Book, Level, MarketState } from '../../research/series.ts';

const among = (symbols: readonly string[]): string => `symbol IN (${symbols.map(literal).join(', ')})`;

/**
 * What was known of the markets of symbols, up to a moment. A row of the dataset begins with the poll that first showed its
 * category and its end; its confidence is that of the last poll that it spans, and was known from then on only.
 */
export async function readStates(
  query: Query,
  symbols: readonly string[],
  to: number,
  signal: AbortSignal,
): Promise<Map<string, MarketState[]>> {
  const sql = `SELECT symbol, epoch_ms(first_seen)::DOUBLE, epoch_ms(last_seen)::DOUBLE, category, confidence,
      epoch_ms(closes_at)::DOUBLE FROM markets
    WHERE ${among(symbols)} AND first_seen < ${moment(to)} ORDER BY symbol, first_seen, canonical_id`;
  const learned = new Map<string, Learned[]>();
  for await (const chunk of query.chunks([sql], signal)) {
    for (const row of chunk[0]!.keys()) {
      const [symbol, first, last, category, confidence, closesAt] = chunk.map((column) => column[row]) as StateRow;
      const list = learned.get(symbol) ?? [];
      learned.set(symbol, list);
      list.push({ from: first, category, closesAt }, { from: last, confidence });
    }
  }
  return new Map([...learned].map(([symbol, list]) => [symbol, statesOf(list)]));
}

type StateRow = [
  ...[symbol: string, first: number, last: number],
  ...[category: string | null, confidence: number | null, closesAt: number | null],
];

/** What one poll told. */
type Learned = Partial<MarketState> & Pick<MarketState, 'from'>;

function statesOf(learned: readonly Learned[]): MarketState[] {
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
