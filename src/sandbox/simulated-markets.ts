import { UsageError } from '../base/errors.ts';
import { drawAt, hashNumber, hashText } from '../base/random.ts';
import { dayMs, minuteMs, type Window } from '../base/window.ts';
import type { SandboxMarket } from './feed.ts';
import type { SandboxOptions } from './sandbox-options.ts';

export type Simulation = Pick<
  SandboxOptions,
  'seed' | 'markets' | 'activeShare' | 'ticksPerDay' | 'lifetimeDaysMax' | 'epochMs'
>;

export interface SimulatedSymbol {
  readonly symbol: string;
  readonly source: 'kalshi' | 'polymarket';
  readonly key: number;
  /** Prices are multiples of 1 / gridParts. */
  readonly gridParts: 100 | 1000;
  /** Relative activity: 1 is the mean over all symbols. */
  readonly weight: number;
  /** Times of the last ticks, whose price is the outcome; the first is the market's resolvedAt. */
  readonly finalTimes: readonly number[];
}

/** Minimum number of days that a market is open, in every fourth slot and in the other slots. */
const briefDaysMin = 0.5;
const usualDaysMin = 4;
/** How long the lists include a market after it closed. */
const listedAfterCloseMs = 2 * dayMs;
const weightMax = 8;

export type SimulatedMarket = ReturnType<typeof createSlotMarket>;

/** The nth market of a slot. The markets of a slot follow one another; each opens, closes and resolves. */
function createSlotMarket(slot: number, n: number, simulation: Simulation) {
  const { seed } = simulation;
  const { periodMs, offsetMs, openMs } = computeSlotRhythm(slot, simulation);
  const key = hashNumber(hashNumber(seed, slot), n);
  const opensAt = offsetMs + n * periodMs;
  const closesAt = opensAt + openMs;
  const pauseMs = Math.min(periodMs - openMs, dayMs);
  const resolvedAt = closesAt + minuteMs * (1 + Math.floor((drawAt(key, 1) * 0.8 * pauseMs) / minuteMs));
  const names = createMarketNames(seed, slot, closesAt);
  const matched = slot % 5 < 3;
  const sources = (['kalshi', 'polymarket'] as const).filter((_, venue) => matched || slot % 5 === 3 + venue);
  return {
    /** Seed of everything random about the market. */
    key,
    canonicalId: names.canonicalId,
    category: names.category,
    question: names.question,
    confidence: matched ? Math.round((0.6 + 0.4 * drawAt(key, 2)) * 1000) / 1000 : 1,
    symbols: sources.map((source) => createSimulatedSymbol(seed, source, names[source], resolvedAt)),
    /** Whole minutes. opensAt < closesAt < resolvedAt. */
    opensAt,
    closesAt,
    resolvedAt,
    outcome: drawAt(key, 3) < 0.4 ? 1 : 0,
  };
}

/** Schedule of a slot: the nth market opens at offsetMs + n * periodMs and is open for openMs. */
function computeSlotRhythm(slot: number, { seed, activeShare, lifetimeDaysMax }: Simulation) {
  const key = hashNumber(seed ^ 0x510f, slot);
  const daysMin = slot % 4 === 0 ? briefDaysMin : Math.min(usualDaysMin, lifetimeDaysMax);
  const openDays = daysMin * (lifetimeDaysMax / daysMin) ** drawAt(key, 1);
  const openMs = Math.floor((openDays * dayMs) / minuteMs) * minuteMs;
  const periodMs = Math.ceil(openMs / activeShare / minuteMs) * minuteMs + 2 * minuteMs;
  const offsetMs = Math.floor((drawAt(key, 2) * periodMs) / minuteMs) * minuteMs;
  return { openMs, periodMs, offsetMs };
}

function createSimulatedSymbol(seed: number, source: SimulatedSymbol['source'], symbol: string, resolvedAt: number) {
  const key = hashText(seed, symbol);
  // A normal deviate from twelve uniform ones; exp(s·z - s²/2) has mean 1.
  let z = -6;
  for (let i = 0; i < 12; i++) z += drawAt(key, i);
  const gridParts = source === 'kalshi' || drawAt(key, 20) < 0.3 ? 100 : 1000;
  const follow = resolvedAt + 1 + Math.floor(drawAt(key, 21) * (minuteMs - 1));
  return {
    symbol,
    source,
    key,
    gridParts,
    weight: Math.min(weightMax, Math.exp(1.1 * z - 0.605)),
    finalTimes: [resolvedAt, follow],
  } as const;
}

/** The window in which a symbol can have ticks. */
export function getMarketLifetime(market: SimulatedMarket, epochMs: number): Window {
  return { from: Math.max(epochMs, market.opensAt), to: market.resolvedAt + minuteMs };
}

/** The market as a list shows it at `nowMs`; undefined once it has been closed for long. */
export function toListedMarket(market: SimulatedMarket, nowMs: number): SandboxMarket | undefined {
  if (nowMs >= market.closesAt + listedAfterCloseMs) return undefined;
  const [first] = market.symbols;
  const place =
    market.symbols.length === 1
      ? { source: first!.source, symbol: first!.symbol }
      : { venues: market.symbols.map(({ source, symbol }) => ({ source, ticker: symbol })) };
  return {
    canonical_id: market.canonicalId,
    confidence: market.confidence,
    category: market.category,
    is_active: nowMs < market.closesAt,
    ...place,
    question: market.question,
    opens_at: market.opensAt,
    closes_at: market.closesAt,
    ...(nowMs >= market.resolvedAt ? { resolved_at: market.resolvedAt, outcome: market.outcome } : {}),
  };
}

/** Maximum markets in memory since the epoch, about 1 kB each. */
const catalogueMarketsMax = 500_000;

/**
 * Markets, created as time advances; those resolved before the epoch are left out. Throws UsageError if the epoch is so
 * early that they would not fit in memory.
 */
export function createMarketCatalogue(simulation: Simulation) {
  const markets: SimulatedMarket[] = [];
  const bySymbol = new Map<string, { readonly market: SimulatedMarket; readonly symbol: SimulatedSymbol }>();
  const next = Array.from({ length: simulation.markets }, (_, slot) => {
    const { periodMs, offsetMs } = computeSlotRhythm(slot, simulation);
    return Math.max(0, Math.floor((simulation.epochMs - offsetMs) / periodMs) - 1);
  });

  let extendedMs = Number.NEGATIVE_INFINITY;

  function extendTo(nowMs: number): void {
    if (nowMs <= extendedMs) return;
    for (let slot = 0; slot < next.length; slot++) {
      const { periodMs, offsetMs } = computeSlotRhythm(slot, simulation);
      for (; offsetMs + next[slot]! * periodMs <= nowMs; next[slot]!++) {
        const market = createSlotMarket(slot, next[slot]!, simulation);
        if (market.resolvedAt < simulation.epochMs) continue;
        if (markets.length >= catalogueMarketsMax) throw new UsageError('sandbox: too many markets since epochMs');
        markets.push(market);
        for (const symbol of market.symbols) bySymbol.set(symbol.symbol, { market, symbol });
      }
    }
    extendedMs = nowMs;
  }

  return {
    listOpened(nowMs: number): SimulatedMarket[] {
      extendTo(nowMs);
      return markets.filter((market) => market.opensAt <= nowMs);
    },
    /** A symbol seen before, without creating further markets: its ticks depend on no clock. */
    findSeen: (symbol: string) => bySymbol.get(symbol),
    /** A symbol whose market has opened by `nowMs`. */
    findOpened(symbol: string, nowMs: number) {
      extendTo(nowMs);
      const known = bySymbol.get(symbol);
      return known !== undefined && known.market.opensAt <= nowMs ? known : undefined;
    },
  };
}

/** The subjects of markets, and their names at each venue. */
const topics = [
  { category: 'crypto', code: 'KXBTC', slug: 'bitcoin-be-above', question: 'Will Bitcoin be above' },
  { category: 'crypto', code: 'KXETH', slug: 'ethereum-be-above', question: 'Will Ethereum be above' },
  { category: 'politics', code: 'KXAPPROVE', slug: 'approval-rating-be-above', question: 'Will approval be above' },
  {
    category: 'economics',
    code: 'KXCPIYOY',
    slug: 'inflation-come-in-above',
    question: 'Will inflation come in above',
  },
  { category: 'weather', code: 'KXHIGHNY', slug: 'highest-temperature-in-nyc-be', question: 'Will New York reach' },
  { category: 'sports', code: 'KXNBAPTS', slug: 'total-points-be-over', question: 'Will the total be over' },
];

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

/** Names of the market of a slot that closes in that hour. Unique, because a slot closes at most once in half a day. */
export function createMarketNames(seed: number, slot: number, closesAt: number) {
  const topic = topics[Math.floor(drawAt(seed ^ 0x70b1c, slot) * topics.length)]!;
  const level = 20 + slot * 0.5;
  const at = new Date(closesAt);
  const month = months[at.getUTCMonth()]!;
  const day = String(at.getUTCDate()).padStart(2, '0');
  const hour = String(at.getUTCHours()).padStart(2, '0');
  const year = at.getUTCFullYear();
  const stamp = `${year % 100}${month}${day}${hour}`;
  return {
    canonicalId: `${topic.code.slice(2).toLowerCase()}-${stamp}-${level}`,
    category: topic.category,
    question: `${topic.question} ${level} on ${day} ${month} ${year}, ${hour}:00 UTC?`,
    // A symbol in the style of each venue: KXBTC-26NOV1917-T62.5, will-bitcoin-be-above-62pt5-on-nov-19-2026-17h.
    kalshi: `${topic.code}-${stamp.toUpperCase()}-T${level}`,
    polymarket: `will-${topic.slug}-${String(level).replace('.', 'pt')}-on-${month}-${day}-${year}-${hour}h`,
  };
}
