/** Number of different trades that are remembered. Each takes about 60 bytes, or some hundred if a file is not sorted. */
const rememberedMax = 300_000;

/** The remembered trades of a symbol, each content once, as columns. */
interface SymbolTrades {
  readonly t: number[];
  readonly price: number[];
  readonly size: number[];
  readonly block: number[];
  readonly aggressor: (string | null)[];
  readonly hash: (string | null)[];
  /** How often each content occurred. */
  readonly count: number[];
  /** The first trade that may equal the next one: the first of the current time, unless times neither ascend nor descend. */
  first: number;
  /** The trades from `first` by their content; null while there are few. */
  index: Map<string, number> | null;
  latest: number;
  /** Whether times ascend (1) or descend (-1) so far; 0 while there is only one time, null if they do neither. */
  direction: 1 | -1 | 0 | null;
  /** Whether the rows of other times have been forgotten. */
  isTrimmed: boolean;
}

/** Fewer trades are compared one by one. */
const comparedMax = 16;

/**
 * Makes identifiers for the trades of one file that have none: their content and, because equal trades at one time are not one
 * trade, a number among the equal rows of the file. So two files that overlap have the same identifiers for the rows of both,
 * and the larger number of equal rows counts, not the sum.
 *
 * Equal rows have one time. While the rows of a symbol ascend or descend by time, only those of the current time are
 * remembered once there are many.
 */
export type TradeIds = ReturnType<typeof createTradeIds>;

/** @param limit see `rememberedMax` */
export function createTradeIds(limit = rememberedMax) {
  const bySymbol = new Map<string, SymbolTrades>();
  let remembered = 0;
  /** Whether no symbol has anything left to forget. */
  let isFull = false;

  /** Forgets the rows of the other times of a symbol. */
  function trim(trades: SymbolTrades): void {
    if (trades.direction === null) return;
    const { t, price, size, block, aggressor, hash, count, first } = trades;
    for (const column of [t, price, size, block, aggressor, hash, count]) column.splice(0, first);
    trades.first = 0;
    trades.index = null;
    remembered -= first;
    trades.isTrimmed = true;
  }

  function open(symbol: string, t: number): SymbolTrades {
    const known = bySymbol.get(symbol);
    if (known !== undefined) return known;
    const columns = { t: [], price: [], size: [], block: [], aggressor: [], hash: [], count: [] };
    const trades: SymbolTrades = { ...columns, first: 0, index: null, latest: t, direction: 0, isTrimmed: false };
    bySymbol.set(symbol, trades);
    return trades;
  }

  return {
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
    ): string | { readonly reason: string } {
      const trades = open(symbol, t);
      if (t !== trades.latest) {
        const direction = t > trades.latest ? 1 : -1;
        if (trades.direction === 0 || trades.direction === direction) {
          trades.direction = direction;
          trades.first = trades.t.length;
          trades.index = null;
        } else if (trades.direction !== null) {
          if (trades.isTrimmed) return { reason: unsortedReason };
          trades.direction = null;
          trades.first = 0;
          trades.index = null;
        }
        trades.latest = t;
      }
      const content = formatContent(t, values[0]!, values[1]!, values[2]!, texts[1]!, texts[2]!);
      const known = findTrade(trades, t, values, texts, content);
      if (known >= 0) return `${content}#${trades.count[known]!++}`;
      if (remembered >= limit) {
        if (!isFull) for (const each of bySymbol.values()) trim(each);
        isFull = remembered >= limit;
        if (isFull) return { reason: unsortedReason };
      }
      remembered++;
      trades.index?.set(content, trades.t.length);
      trades.t.push(t);
      trades.price.push(values[0]!);
      trades.size.push(values[1]!);
      trades.block.push(values[2]!);
      trades.aggressor.push(texts[1]!);
      trades.hash.push(texts[2]!);
      trades.count.push(1);
      return `${content}#0`;
    },
  };
}

/** Why a trade got no identifier although nothing is wrong with it. */
export const unsortedReason =
  'trade_id is missing, and in a file of this size the rows of a symbol have to be sorted by time then: sort the file, or name the column of identifiers with --columns trade_id=';

/** Finds the remembered trade with this content, of which the other arguments are the parts. -1 if there is none. */
function findTrade(
  trades: SymbolTrades,
  t: number,
  values: Float64Array,
  texts: readonly (string | null)[],
  content: string,
): number {
  const { first, price, size, block, aggressor, hash } = trades;
  const end = trades.t.length;
  if (trades.index === null && end - first > comparedMax) trades.index = indexTrades(trades);
  if (trades.index !== null) return trades.index.get(content) ?? -1;
  for (let i = first; i < end; i++) {
    const isSame =
      trades.t[i] === t &&
      price[i] === values[0] &&
      size[i] === values[1] &&
      Object.is(block[i], values[2]) &&
      aggressor[i] === texts[1] &&
      hash[i] === texts[2];
    if (isSame) return i;
  }
  return -1;
}

function indexTrades({ first, t, price, size, block, aggressor, hash }: SymbolTrades): Map<string, number> {
  const index = new Map<string, number>();
  for (let i = first; i < t.length; i++)
    index.set(formatContent(t[i]!, price[i]!, size[i]!, block[i]!, aggressor[i]!, hash[i]!), i);
  return index;
}

function formatContent(
  t: number,
  price: number,
  size: number,
  block: number,
  aggressor: string | null,
  hash: string | null,
): string {
  const rest = Number.isNaN(block) && hash === null ? '' : `,${Number.isNaN(block) ? '' : block},${hash ?? ''}`;
  return `=${t},${price},${size},${aggressor ?? ''}${rest}`;
}
