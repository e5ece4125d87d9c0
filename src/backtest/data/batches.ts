import type { Query } from '../../archive/query/query.ts';
import { compareUtf8, computePartNumber } from '../../base/symbol-name.ts';
import { dayMs, floorToDay, intersectTwo, isEmpty, type Window } from '../../base/window.ts';
import type { BacktestSpec } from '../backtest-spec.ts';
import type { Settlement } from '../engine/symbol-series.ts';
import { InvalidBacktestError } from '../invalid-backtest.ts';
import { type DataDependencies, mergeDataDependencies, resolveQuantity } from '../strategy/parse-strategy.ts';
import { type Quantity, type Strategy, windowedMeasures } from '../strategy/strategy.ts';
import type { KnownIds, MarketIndex } from './markets.ts';

/** A symbol to be loaded, and what was known of the market it is of. */
export interface BatchSymbol extends UniverseMember {
  /** Shared by all that are ever known to be of one market; null where nobody looks at other venues, or nothing is known. */
  readonly marketGroup: string | null;
  readonly ids: readonly KnownIds[];
}

/** Symbols that are loaded and played together. */
export interface Batch {
  /** To be played, in their order. */
  readonly members: readonly BatchSymbol[];
  /** Loaded to be looked at only: the same markets on other venues. */
  readonly otherVenues: readonly BatchSymbol[];
}

/** Ticks of a batch, unless one market alone has more; 32 bytes each are held for a while. */
export const batchTicksMax = 2_000_000;
const batchSymbolsMax = 2_000;

/**
 * Cuts a universe into batches. What is of one market stays together where strategies look at other venues; else the
 * symbols of one part do, that no file need be read for two batches without need. How long a symbol's ticks are in the
 * window is guessed from its life: the plan depends on nothing but its values.
 * @param markets null where nobody looks at other venues
 */
export function planBatches(universe: Universe, span: Window, parts: number, markets: MarketIndex | null): Batch[] {
  const groups = groupMembers(universe, markets);
  const placed = groups.map((group) => ({ ...group, part: computePartNumber(group.members[0]!.symbol, parts) }));
  placed.sort((a, b) => a.part - b.part || compareUtf8(a.members[0]!.symbol, b.members[0]!.symbol));
  const batches: { members: BatchSymbol[]; beside: BatchSymbol[]; part: number; ticks: number }[] = [];
  for (const { members: own, otherVenues, part } of placed) {
    const ticks = [...own, ...otherVenues].reduce((sum, member) => sum + estimateTicksIn(member, span), 0);
    const last = batches.at(-1);
    const fits =
      last !== undefined &&
      (markets !== null || last.part === part) &&
      last.ticks + ticks <= batchTicksMax &&
      last.members.length + last.beside.length + own.length + otherVenues.length <= batchSymbolsMax;
    if (fits) {
      last.members.push(...own);
      last.beside.push(...otherVenues);
      last.ticks += ticks;
    } else batches.push({ members: [...own], beside: [...otherVenues], part, ticks });
  }
  return batches.map(({ members: own, beside }) => ({ members: own, otherVenues: beside }));
}

/** Members that have to be played together, by the first of their symbols, and who else is to be looked at. */
function groupMembers({ members, others }: Universe, markets: MarketIndex | null): Batch[] {
  const player = (member: UniverseMember): BatchSymbol => ({
    ...member,
    marketGroup: markets?.getGroup(member.symbol) ?? null,
    ids: markets?.getIds(member.symbol) ?? [],
  });
  if (markets === null) return members.map((member) => ({ members: [player(member)], otherVenues: [] }));
  const othersByGroup = Map.groupBy(others.map(player), ({ marketGroup }) => marketGroup);
  return groupByMarket(members.map(player)).map((own) => {
    const { marketGroup } = own[0]!;
    return { members: own, otherVenues: marketGroup === null ? [] : (othersByGroup.get(marketGroup) ?? []) };
  });
}

/** Players by their group, those without one alone. */
export const groupByMarket = (players: readonly BatchSymbol[]): BatchSymbol[][] => [
  ...Map.groupBy(players, ({ symbol, marketGroup }) =>
    marketGroup === null ? `symbol ${symbol}` : `group ${marketGroup}`,
  ).values(),
];

/** Whole days, and one more, so that a window has the tick before its start though symbols may be quiet for long. */
export const computeReadFrom = (from: number, { lookbackMs }: Pick<DataDependencies, 'lookbackMs'>): number =>
  lookbackMs === 0 ? from : floorToDay(from - lookbackMs - dayMs);

/** A guess: ticks lie evenly over a symbol's life. */
export function estimateTicksIn({ ticks, firstTick, lastTick }: UniverseMember, { from, to }: Window): number {
  if (firstTick === null || lastTick === null) return 0;
  const shared = Math.min(lastTick + 1, to) - Math.max(firstTick, from);
  return shared <= 0 ? 0 : Math.ceil((ticks * shared) / (lastTick + 1 - firstTick));
}

/** A symbol as the symbols dataset knows it. Times are epoch milliseconds. */
export interface UniverseMember {
  readonly symbol: string;
  /** As it is last known. */
  readonly canonicalId: string | null;
  readonly source: string | null;
  /** Published ticks, and the first and the last of them; null where there are none. */
  readonly ticks: number;
  readonly firstTick: number | null;
  readonly lastTick: number | null;
  /** Its life, as far as the dataset tells: while it may have had ticks. */
  readonly lifetimeFrom: number;
  readonly lifetimeTo: number;
  readonly settlement: Settlement | null;
}

export interface Universe {
  /** What is asked for, by symbol. */
  readonly members: readonly UniverseMember[];
  /** All others that have ticks. */
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
 * The symbols that a backtest is asked for, out of a query over the symbols dataset; those without a tick are left out.
 * @throws InvalidBacktestError where one is named that is not known, or none is left
 */
export async function readUniverse(
  query: Query,
  { symbols, filter }: Pick<BacktestSpec, 'symbols' | 'filter'>,
  signal: AbortSignal,
): Promise<Universe> {
  const named = symbols === null ? null : new Set(symbols);
  const missing = new Set(named);
  const members: UniverseMember[] = [];
  const rest: UniverseMember[] = [];
  const isIn = (names: readonly string[], value: unknown): boolean =>
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
      // Without the moment of its resolution, it is settled with its last tick.
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
        (named === null || named.has(symbol)) && isIn(filter.categories, category) && isIn(filter.sources, source);
      (isMember ? members : rest).push(member);
    }
  }
  if (missing.size > 0) {
    const [first, ...others] = missing;
    const more = others.length === 0 ? '' : ` and ${others.length} more`;
    throw new InvalidBacktestError([
      { name: 'symbols', reason: `names ${first}${more}, which the archive does not know` },
    ]);
  }
  if (members.length === 0) {
    const none = named === null || isFiltered(filter) ? 'filter' : 'symbols';
    throw new InvalidBacktestError([{ name: none, reason: 'leaves no symbol that has ticks' }]);
  }
  members.sort((a, b) => compareUtf8(a.symbol, b.symbol));
  rest.sort((a, b) => compareUtf8(a.symbol, b.symbol));
  return { members, others: rest };
}

const isFiltered = ({ categories, sources }: BacktestSpec['filter']): boolean => categories.length + sources.length > 0;

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
 * From the first tick to behind the last one and every settlement, where nothing else is asked. What is asked is cut to what
 * can be known: from the first sign of life of any symbol up to the moment of the publish. Null where nothing is left.
 */
export function computeSpan(
  members: readonly UniverseMember[],
  { from, to }: Pick<BacktestSpec, 'from' | 'to'>,
  publishedAt: number,
): Window | null {
  const known = members.filter(({ firstTick }) => firstTick !== null);
  const least = known.reduce((low, { firstTick }) => Math.min(low, firstTick!), Number.POSITIVE_INFINITY);
  const most = known.reduce(
    // A resolution that is still to come is none to wait for.
    (high, { lastTick, settlement }) =>
      Math.max(high, lastTick! + 1, settlement === null || settlement.at >= publishedAt ? 0 : settlement.at + 1),
    Number.NEGATIVE_INFINITY,
  );
  const born = known.reduce((low, { lifetimeFrom }) => Math.min(low, lifetimeFrom), least);
  const asked = { from: from ?? least, to: to ?? most };
  if (!(Number.isFinite(asked.from) && Number.isFinite(asked.to)) || isEmpty(asked)) return null;
  const within = intersectTwo(asked, { from: born, to: Math.max(most, publishedAt) });
  return isEmpty(within) ? asked : within;
}

/** More ticks would be played than may be. */
export class BacktestTooLargeError extends Error {}

/**
 * About how many ticks a backtest reads, from where its strategies look back to and with the other venues they look at,
 * counted for each point of a grid, and there for each measure over a window.
 */
export function estimateCost(universe: Universe, span: Window, strategies: readonly Strategy[]): number {
  const looks = mergeDataDependencies(strategies);
  const from = computeReadFrom(span.from, looks);
  const read = looks.needsVenues ? listAllMembers(universe) : universe.members;
  let ticks = 0;
  for (const member of read) ticks += estimateTicksIn(member, { ...span, from });
  return ticks * strategies.reduce((sum, strategy) => sum + Math.max(1, countWindows(strategy)), 0);
}

/** With all that are of the same markets now: whose they were at the time, is not looked up for a guess. */
function listAllMembers({ members, others }: Universe) {
  const ids = new Set(members.map(({ canonicalId }) => canonicalId));
  return [...members, ...others.filter(({ canonicalId }) => canonicalId !== null && ids.has(canonicalId))];
}

/** Measures over windows that are followed through the ticks: those that are alike are followed once. */
function countWindows(strategy: Strategy): number {
  const windows = new Set<string>();
  const look = (part: unknown): void => {
    if (typeof part !== 'object' || part === null) return;
    const { measure, window_ms } = part as { readonly measure?: string; readonly window_ms?: Quantity };
    if (measure !== undefined && window_ms !== undefined && windowedMeasures.has(measure))
      windows.add(`${measure} ${resolveQuantity(window_ms, strategy)}`);
    for (const inner of Object.values(part)) look(inner);
  };
  look(strategy.rules);
  return windows.size;
}
