import { compareUtf8 } from '../../core/compare-utf8.ts';
import { computePartNumber } from '../../core/partition.ts';
import { dayMs, floorToDay, type Window } from '../../core/window.ts';
import type { DataDependencies } from '../../research/data-dependencies.ts';
import type { KnownIds, MarketIndex } from './markets.ts';
import type { Universe, UniverseMember } from './select-symbols.ts';

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
