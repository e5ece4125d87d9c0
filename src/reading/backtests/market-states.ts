import { datasets } from '../../archive/parquet/schema.ts';
import { compareUtf8 } from '../../core/compare-utf8.ts';
import type { Query } from '../../query/query.ts';
import { toSqlTimestamp } from '../../query/slice-query.ts';
import { quoteLiteral } from '../../query/views.ts';
import type { MarketState } from '../../research/symbol-series.ts';

/** The columns of the markets dataset that are read for them. */
const stateNames = ['symbol', 'canonical_id', 'first_seen', 'last_seen', 'category', 'confidence', 'closes_at'];
export const stateColumns = datasets.markets.filter(({ name }) => stateNames.includes(name));

/** Rows of the markets dataset up to a moment, as `readStates` wants them. */
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
