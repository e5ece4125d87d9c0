import type { Query } from '../../archive/query/query.ts';
import { suggestName } from '../../base/nearest-name.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { dayMs, floorToDay, intersectTwo, isEmpty, type Window } from '../../base/window.ts';
import type { BacktestSpec } from '../../contract/backtest-request.ts';
import { type Quantity, type Strategy, windowedMeasures } from '../../contract/strategy-language.ts';
import type { Settlement } from '../engine/symbol-series.ts';
import { InvalidBacktestError } from '../resolve-strategy.ts';
import { type DataDependencies, mergeDataDependencies, resolveQuantity } from '../strategy/strategy.ts';
import type { KnownIds, MarketIndex } from './markets.ts';

/** A symbol to load, with its known market IDs. */
export interface BatchSymbol extends UniverseMember {
  /**
   * ID shared by all symbols that ever belonged to one market; null if unknown, or if no strategy uses other venues.
   */
  readonly marketGroup: string | null;
  readonly ids: readonly KnownIds[];
}

/** Symbols that are loaded and simulated together. */
export interface Batch {
  /** Symbols to simulate, in order. */
  readonly members: readonly BatchSymbol[];
  /** The same markets on other venues, which are only read. */
  readonly otherVenues: readonly BatchSymbol[];
}

/** Maximum ticks of a batch, unless a single market has more. A tick takes up to 32 bytes. */
export const batchTicksMax = 2_000_000;
const batchSymbolsMax = 2_000;

/** Memory limit of each DuckDB of a backtest, bytes. */
export const memoryBytesMax = 512 * 1024 ** 2;

/** A backtest has about as many batches or more, so that threads share it. */
const batchesMin = 4;

/**
 * Splits a universe into batches, in the order of symbols, which are in the same files of a day. Keeps the symbols of a market
 * together if a strategy uses other venues. Estimates the number of ticks from the lifetimes, so that the plan depends only on
 * the arguments.
 * @param markets null if no strategy uses other venues
 */
export function planBatches(universe: Universe, span: Window, markets: MarketIndex | null): Batch[] {
  const groups = groupMembers(universe, markets).map((group) => ({
    ...group,
    ticks: [...group.members, ...group.otherVenues].reduce((sum, member) => sum + estimateTicksIn(member, span), 0),
  }));
  groups.sort((a, b) => compareUtf8(a.members[0]!.symbol, b.members[0]!.symbol));
  const total = groups.reduce((sum, { ticks }) => sum + ticks, 0);
  const ticksMax = Math.min(batchTicksMax, Math.ceil(total / batchesMin));
  const batches: { members: BatchSymbol[]; otherVenues: BatchSymbol[]; ticks: number }[] = [];
  for (const { members: own, otherVenues, ticks } of groups) {
    const last = batches.at(-1);
    const hasRoom =
      last !== undefined &&
      last.ticks + ticks <= ticksMax &&
      last.members.length + last.otherVenues.length + own.length + otherVenues.length <= batchSymbolsMax;
    if (hasRoom) {
      last.members.push(...own);
      last.otherVenues.push(...otherVenues);
      last.ticks += ticks;
    } else batches.push({ members: [...own], otherVenues: [...otherVenues], ticks });
  }
  return batches.map(({ members, otherVenues }) => ({ members, otherVenues }));
}

/** Groups of members that must be in one batch, with their other venues. */
function groupMembers({ members, others }: Universe, markets: MarketIndex | null): Batch[] {
  const toBatchSymbol = (member: UniverseMember): BatchSymbol => ({
    ...member,
    marketGroup: markets?.getGroup(member.symbol) ?? null,
    ids: markets?.getIds(member.symbol) ?? [],
  });
  if (markets === null) return members.map((member) => ({ members: [toBatchSymbol(member)], otherVenues: [] }));
  const othersByGroup = Map.groupBy(others.map(toBatchSymbol), ({ marketGroup }) => marketGroup);
  return groupByMarket(members.map(toBatchSymbol)).map((own) => {
    const { marketGroup } = own[0]!;
    return { members: own, otherVenues: marketGroup === null ? [] : (othersByGroup.get(marketGroup) ?? []) };
  });
}

/** Groups symbols by market; each symbol without a market is its own group. */
export const groupByMarket = (symbols: readonly BatchSymbol[]): BatchSymbol[][] => [
  ...Map.groupBy(symbols, ({ symbol, marketGroup }) =>
    marketGroup === null ? `symbol ${symbol}` : `group ${marketGroup}`,
  ).values(),
];

/** Start of the ticks to read: full days, with one extra day, so that windows usually include the tick before their start. */
export const computeReadFrom = (from: number, { lookbackMs }: Pick<DataDependencies, 'lookbackMs'>): number =>
  lookbackMs === 0 ? from : floorToDay(from - lookbackMs - dayMs);

/** Estimates the ticks in a window, assuming that they are evenly distributed over the lifetime. */
function estimateTicksIn({ ticks, firstTick, lastTick }: UniverseMember, { from, to }: Window): number {
  if (firstTick === null || lastTick === null) return 0;
  const shared = Math.min(lastTick + 1, to) - Math.max(firstTick, from);
  return shared <= 0 ? 0 : Math.ceil((ticks * shared) / (lastTick + 1 - firstTick));
}

/** A row of the symbols dataset. Times in epoch ms. */
export interface UniverseMember {
  readonly symbol: string;
  /** Last known value. */
  readonly canonicalId: string | null;
  readonly source: string | null;
  /** Number of published ticks, and the first and last of them; null if there are none. */
  readonly ticks: number;
  readonly firstTick: number | null;
  readonly lastTick: number | null;
  /** Lifetime according to the dataset. */
  readonly lifetimeFrom: number;
  readonly lifetimeTo: number;
  readonly settlement: Settlement | null;
}

interface Universe {
  /** Selected symbols, sorted. */
  readonly members: readonly UniverseMember[];
  /** All other symbols with ticks. */
  readonly others: readonly UniverseMember[];
}

const universeColumns = [
  'symbol',
  'canonical_id',
  'category',
  'source',
  'is_active',
  'outcome',
  'ticks::DOUBLE',
  ...['opens_at', 'resolved_at', 'first_seen', 'first_tick', 'last_tick'].map((name) => `epoch_ms(${name})::DOUBLE`),
].join(', ');

/**
 * Reads the symbols of a backtest from the symbols dataset. Skips symbols without ticks.
 * @throws InvalidBacktestError for an unknown symbol, or if no symbol is left
 */
export async function readUniverse(
  query: Query,
  { symbols, filter }: Pick<BacktestSpec, 'symbols' | 'filter'>,
  signal: AbortSignal,
): Promise<Universe> {
  const selected = symbols === null ? null : new Set(symbols);
  const missing = new Set(selected);
  const members: UniverseMember[] = [];
  const rest: UniverseMember[] = [];
  const matches = (names: readonly string[], value: unknown): boolean =>
    names.length === 0 || names.includes(value as string);
  for await (const chunk of query.readChunks([`SELECT ${universeColumns} FROM symbols`], signal)) {
    for (const row of chunk[0]!.keys()) {
      const [
        symbol,
        canonicalId,
        category,
        source,
        isActive,
        outcome,
        ticks,
        opensAt,
        resolvedAt,
        firstSeen,
        firstTick,
        lastTick,
      ] = chunk.map((column) => column[row]) as UniverseRow;
      missing.delete(symbol);
      if (ticks === 0) continue;
      // Without a known time of resolution, the symbol settles right after its last tick.
      const settlement = outcome === null ? null : { at: resolvedAt ?? lastTick! + 1, outcome };
      const member: UniverseMember = {
        symbol,
        canonicalId,
        source,
        ticks,
        firstTick,
        lastTick,
        lifetimeFrom: opensAt ?? Math.min(firstTick ?? firstSeen, firstSeen),
        lifetimeTo: settlement?.at ?? (isActive === true ? Number.POSITIVE_INFINITY : lastTick! + 1),
        settlement,
      };
      const isMember =
        (selected === null || selected.has(symbol)) &&
        matches(filter.categories, category) &&
        matches(filter.sources, source);
      (isMember ? members : rest).push(member);
    }
  }
  if (missing.size > 0) {
    const [first, ...others] = missing;
    const more = others.length === 0 ? '' : ` and ${others.length} more`;
    const known = [...members, ...rest].map(({ symbol }) => symbol);
    const reason = `includes symbols unknown to the archive: ${first}${more}${suggestName(first!, known)}`;
    throw new InvalidBacktestError([{ name: 'symbols', reason }]);
  }
  if (members.length === 0) {
    const field = selected === null || isFiltered(filter) ? 'filter' : 'symbols';
    throw new InvalidBacktestError([{ name: field, reason: 'matches no symbol with ticks' }]);
  }
  members.sort((a, b) => compareUtf8(a.symbol, b.symbol));
  rest.sort((a, b) => compareUtf8(a.symbol, b.symbol));
  return { members, others: rest };
}

export const isFiltered = ({ categories, sources }: BacktestSpec['filter']): boolean =>
  categories.length + sources.length > 0;

type UniverseRow = [
  ...[symbol: string, canonicalId: string | null, category: string | null, source: string | null],
  ...[
    isActive: boolean | null,
    outcome: number | null,
    ticks: number,
    opensAt: number | null,
    resolvedAt: number | null,
  ],
  ...[firstSeen: number, firstTick: number | null, lastTick: number | null],
];

/**
 * Computes the window of a backtest. By default it starts at the first tick and ends after the last tick and settlement. A
 * requested window is clipped to the time from the first lifetime to the publish. Null if it is empty.
 */
export function computeSpan(
  members: readonly UniverseMember[],
  { from, to }: Pick<BacktestSpec, 'from' | 'to'>,
  publishedAt: number,
): Window | null {
  const withTicks = members.filter(({ firstTick }) => firstTick !== null);
  const firstTickMin = withTicks.reduce((low, { firstTick }) => Math.min(low, firstTick!), Number.POSITIVE_INFINITY);
  const lastTimeMax = withTicks.reduce(
    // Future resolutions are ignored.
    (high, { lastTick, settlement }) =>
      Math.max(high, lastTick! + 1, settlement === null || settlement.at >= publishedAt ? 0 : settlement.at + 1),
    Number.NEGATIVE_INFINITY,
  );
  const lifetimeStart = withTicks.reduce((low, { lifetimeFrom }) => Math.min(low, lifetimeFrom), firstTickMin);
  const requested = { from: from ?? firstTickMin, to: to ?? lastTimeMax };
  if (!(Number.isFinite(requested.from) && Number.isFinite(requested.to)) || isEmpty(requested)) return null;
  const clipped = intersectTwo(requested, { from: lifetimeStart, to: Math.max(lastTimeMax, publishedAt) });
  return isEmpty(clipped) ? requested : clipped;
}

/** The backtest exceeds the maximum number of ticks. */
export class BacktestTooLargeError extends Error {}

/**
 * Estimates the cost of a backtest in ticks, including lookback and other venues. Ticks count once per grid point and
 * distinct window measure.
 */
export function estimateCost(universe: Universe, span: Window, strategies: readonly Strategy[]): number {
  const dependencies = mergeDataDependencies(strategies);
  const from = computeReadFrom(span.from, dependencies);
  const membersRead = dependencies.needsVenues ? listAllMembers(universe) : universe.members;
  let ticks = 0;
  for (const member of membersRead) ticks += estimateTicksIn(member, { ...span, from });
  return ticks * strategies.reduce((sum, strategy) => sum + Math.max(1, countWindows(strategy)), 0);
}

/** Members and other symbols of the same markets, by their current IDs, which suffice for an estimate. */
function listAllMembers({ members, others }: Universe) {
  const ids = new Set(members.map(({ canonicalId }) => canonicalId));
  return [...members, ...others.filter(({ canonicalId }) => canonicalId !== null && ids.has(canonicalId))];
}

/** Number of distinct window measures. */
function countWindows(strategy: Strategy): number {
  const windows = new Set<string>();
  const visit = (part: unknown): void => {
    if (typeof part !== 'object' || part === null) return;
    const { measure, window_ms } = part as { readonly measure?: string; readonly window_ms?: Quantity };
    if (measure !== undefined && window_ms !== undefined && windowedMeasures.has(measure))
      windows.add(`${measure} ${resolveQuantity(window_ms, strategy)}`);
    for (const child of Object.values(part)) visit(child);
  };
  visit(strategy.rules);
  return windows.size;
}
