/**
 * Makes identifiers for the trades of one file that have none: their content and, because equal trades at one time are not one
 * trade, a number among the equal rows of the file. So two files that overlap have the same identifiers for the rows of both,
 * and the larger number of equal rows counts, not the sum.
 *
 * Equal rows have one time. While the rows of a symbol ascend or descend by time, only those of the current time are
 * remembered once there are many.
 */
export interface TradeIds {
  /**
   * @param values price, size and block, as stored
   * @param texts the texts of the trade: of these the aggressor and the hash, at indexes 1 and 2
   * @returns the identifier, such as `=1764115200000,0.42,10,buy#0`, or why there can be none
   */
  next(
    symbol: string,
    t: number,
    values: Float64Array,
    texts: readonly (string | null)[],
  ): string | { readonly reason: string };
}

/** Number of different trades that are remembered. Each takes some hundred bytes. */
const rememberedMax = 300_000;

interface SymbolTrades {
  /** How often each content occurred. */
  readonly counts: Map<string, number>;
  latest: number;
  /** Whether times ascend (1) or descend (-1) so far; 0 while there is only one time, null if they do neither. */
  direction: 1 | -1 | 0 | null;
  /** Whether the rows of other times have been forgotten. */
  isTrimmed: boolean;
}

/** @param limit see `rememberedMax` */
export function createTradeIds(limit = rememberedMax): TradeIds {
  const bySymbol = new Map<string, SymbolTrades>();
  let remembered = 0;
  /** Whether no symbol has anything left to forget. */
  let isFull = false;

  /** Forgets the rows of the other times of a symbol. Its rows at `latest` have equal times in their content. */
  function trim(trades: SymbolTrades): void {
    if (trades.direction === null) return;
    const prefix = `=${trades.latest},`;
    for (const content of trades.counts.keys()) {
      if (content.startsWith(prefix)) continue;
      trades.counts.delete(content);
      remembered--;
    }
    trades.isTrimmed = true;
  }

  function open(symbol: string, t: number): SymbolTrades {
    const known = bySymbol.get(symbol);
    if (known !== undefined) return known;
    const trades: SymbolTrades = { counts: new Map(), latest: t, direction: 0, isTrimmed: false };
    bySymbol.set(symbol, trades);
    return trades;
  }

  return {
    next(symbol, t, values, texts) {
      const trades = open(symbol, t);
      if (t !== trades.latest) {
        const direction = t > trades.latest ? 1 : -1;
        if (trades.direction === 0) trades.direction = direction;
        else if (trades.direction !== direction) {
          if (trades.isTrimmed) return { reason: unsortedReason };
          trades.direction = null;
        }
        trades.latest = t;
      }
      const content = formatContent(t, values, texts);
      const count = trades.counts.get(content);
      if (count === undefined && remembered >= limit) {
        if (!isFull) for (const each of bySymbol.values()) trim(each);
        isFull = remembered >= limit;
        if (isFull) return { reason: unsortedReason };
      }
      trades.counts.set(content, (count ?? 0) + 1);
      if (count === undefined) remembered++;
      return `${content}#${count ?? 0}`;
    },
  };
}

const unsortedReason =
  'trade_id is missing, and in a file of this size the rows of a symbol have to be sorted by time then: sort the file, or name the column of identifiers with --columns trade_id=';

function formatContent(t: number, values: Float64Array, texts: readonly (string | null)[]): string {
  const [price, size, block] = values;
  const aggressor = texts[1] ?? '';
  const rest = Number.isNaN(block) && texts[2] === null ? '' : `,${Number.isNaN(block) ? '' : block},${texts[2] ?? ''}`;
  return `=${t},${price},${size},${aggressor}${rest}`;
}
