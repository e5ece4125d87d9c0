import { drawAt, hashNumber, hashText } from '../../src/base/random.ts';
import type { TickColumns } from '../../src/base/ticks.ts';
import { isWithin, minuteMs, type Window } from '../../src/base/window.ts';
import type { Feed } from '../../src/sandbox/feed.ts';

/*
 * Quotes and trades beside the ticks of the sandbox, for tests. They follow from the ticks, the seed and the symbol alone. No route
 * serves them: the interface of the upstream has none.
 */

/** A side without an offer is null, and so is its size. Of a quote with both, bid < price < ask, inside (0, 1). */
interface SandboxQuote {
  readonly t: number;
  readonly bid: number | null;
  readonly ask: number | null;
  readonly bidSize: number | null;
  readonly askSize: number | null;
}

interface SandboxTrade {
  readonly t: number;
  /** Unique within the symbol. */
  readonly tradeId: string;
  readonly price: number;
  readonly size: number;
  /** Null if it is not known. */
  readonly aggressor: 'buy' | 'sell' | null;
  readonly isBlock: boolean;
}

/** Maximum time from a tick to the quote after it, in ms. */
const quoteDelayMsMax = minuteMs;
/** Share of ticks with another quote after them, unless the next tick comes first. */
const laterQuoteShare = 0.5;
const missingSideShare = 0.03;
/** Maximum distance of bid and ask from the price, in steps of the price. */
const quoteStepsMax = 3;
const quoteSizeMax = 1000;
const pairShare = 0.12;
const blockShare = 0.02;
const unknownAggressorShare = 0.02;
const tradeSizeMax = 500;
/** How much larger blocks are. */
const blockFactor = 50;

/** The quotes of a symbol in the window, strictly ascending by `t`. */
export function readQuotes(feed: Feed, seed: number, symbol: string, window: Window): SandboxQuote[] {
  const ticks = feed.ticks(symbol, { from: window.from - quoteDelayMsMax, to: window.to });
  return computeQuotes(createSeriesKey(seed, symbol), ticks).filter(({ t }) => isWithin(t, window));
}

/** The trades of a symbol in the window, ascending by `t`. */
export const readTrades = (feed: Feed, seed: number, symbol: string, window: Window): SandboxTrade[] =>
  computeTrades(createSeriesKey(seed, symbol), feed.ticks(symbol, window));

export const createSeriesKey = (seed: number, symbol: string): number => hashText(seed ^ 0x5e71e5, symbol);

/** A price of exactly 0 or 1 is the outcome of the market: nobody trades at it. */
const isTradable = (price: number): boolean => price > 0 && price < 1;

/** One quote at each tick, and some between two ticks. The last one may be later than the last tick. */
export function computeQuotes(key: number, { t, p }: TickColumns): SandboxQuote[] {
  const quotes: SandboxQuote[] = [];
  for (let i = 0; i < t.length; i++) {
    const at = t[i]!;
    const price = p[i]!;
    if (!isTradable(price)) continue;
    quotes.push(createQuote(key, at, price));
    const later = at + 1 + Math.floor(drawAt(key ^ 0x1a7e5, at) * quoteDelayMsMax);
    const isLater = drawAt(key ^ 0xa11, at) < laterQuoteShare && !(later >= t[i + 1]!);
    if (isLater) quotes.push(createQuote(key, later, price));
  }
  return quotes;
}

function createQuote(key: number, t: number, price: number): SandboxQuote {
  // Prices are multiples of a cent or of a tenth of it.
  const gridParts = Math.round(price * 100) / 100 === price ? 100 : 1000;
  const parts = Math.round(price * gridParts);
  const drawSteps = (salt: number): number => 1 + Math.floor(drawAt(key ^ salt, t) * quoteStepsMax);
  const drawSize = (salt: number): number => 1 + Math.floor(drawAt(key ^ salt, t) * quoteSizeMax);
  const bid = parts - drawSteps(0xb1d);
  const ask = parts + drawSteps(0xa5c);
  const missing = drawAt(key ^ 0x9055, t);
  // A quote has at least one side.
  const hasBid = bid > 0 && (missing >= missingSideShare || ask >= gridParts);
  const hasAsk = ask < gridParts && (missing < 1 - missingSideShare || bid <= 0);
  return {
    t,
    bid: hasBid ? bid / gridParts : null,
    ask: hasAsk ? ask / gridParts : null,
    bidSize: hasBid ? drawSize(0xb512e) : null,
    askSize: hasAsk ? drawSize(0xa512e) : null,
  };
}

/** One or two trades at each tick, at its price. */
export function computeTrades(key: number, { t, p }: TickColumns): SandboxTrade[] {
  const trades: SandboxTrade[] = [];
  for (let i = 0; i < t.length; i++) {
    if (!isTradable(p[i]!)) continue;
    const count = drawAt(key ^ 0x9a12, t[i]!) < pairShare ? 2 : 1;
    for (let n = 0; n < count; n++) trades.push(createTrade(hashNumber(key, n), t[i]!, p[i]!, n));
  }
  return trades;
}

function createTrade(key: number, t: number, price: number, n: number): SandboxTrade {
  const isBlock = drawAt(key ^ 0xb10c, t) < blockShare;
  const side = drawAt(key ^ 0x51de, t);
  return {
    t,
    tradeId: `${t.toString(36)}-${n}`,
    price,
    // Small trades are frequent.
    size: (1 + Math.floor(drawAt(key ^ 0x512e, t) ** 3 * tradeSizeMax)) * (isBlock ? blockFactor : 1),
    aggressor: side < unknownAggressorShare ? null : side < (1 + unknownAggressorShare) / 2 ? 'buy' : 'sell',
    isBlock,
  };
}
