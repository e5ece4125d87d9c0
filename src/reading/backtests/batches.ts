import { compareUtf8 } from '../../core/compare-utf8.ts';
import { partOf } from '../../core/partition.ts';
import { dayFloor, dayMs, type Window } from '../../core/window.ts';
import type { Looks } from '../../research/data-dependencies.ts';
import type { KnownIds, Markets } from './markets.ts';
import type { Member, Universe } from './select-symbols.ts';

/** A symbol to be loaded, and what was known of the market it is of. */
export interface Player extends Member {
  /** Shared by all that are ever known to be of one market; null where nobody looks at other venues, or nothing is known. */
  readonly group: string | null;
  readonly ids: readonly KnownIds[];
}

/** Symbols that are loaded and played together. */
export interface Batch {
  /** To be played, in their order. */
  readonly members: readonly Player[];
  /** Loaded to be looked at only: the same markets on other venues. */
  readonly beside: readonly Player[];
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
export function planBatches(universe: Universe, span: Window, parts: number, markets: Markets | null): Batch[] {
  const groups = groupsOf(universe, markets);
  const placed = groups.map((group) => ({ ...group, part: partOf(group.members[0]!.symbol, parts) }));
  placed.sort((a, b) => a.part - b.part || compareUtf8(a.members[0]!.symbol, b.members[0]!.symbol));
  const batches: { members: Player[]; beside: Player[]; part: number; ticks: number }[] = [];
  for (const { members: own, beside, part } of placed) {
    const ticks = [...own, ...beside].reduce((sum, member) => sum + ticksIn(member, span), 0);
    const last = batches.at(-1);
    const fits =
      last !== undefined &&
      (markets !== null || last.part === part) &&
      last.ticks + ticks <= batchTicksMax &&
      last.members.length + last.beside.length + own.length + beside.length <= batchSymbolsMax;
    if (fits) {
      last.members.push(...own);
      last.beside.push(...beside);
      last.ticks += ticks;
    } else batches.push({ members: [...own], beside: [...beside], part, ticks });
  }
  return batches.map(({ members: own, beside }) => ({ members: own, beside }));
}

/** Members that have to be played together, by the first of their symbols, and who else is to be looked at. */
function groupsOf({ members, rest }: Universe, markets: Markets | null): Batch[] {
  const player = (member: Member): Player => ({
    ...member,
    group: markets?.groupOf(member.symbol) ?? null,
    ids: markets?.idsOf(member.symbol) ?? [],
  });
  if (markets === null) return members.map((member) => ({ members: [player(member)], beside: [] }));
  const others = Map.groupBy(rest.map(player), ({ group }) => group);
  return together(members.map(player)).map((own) => {
    const { group } = own[0]!;
    return { members: own, beside: group === null ? [] : (others.get(group) ?? []) };
  });
}

/** Players by their group, those without one alone. */
export const together = (players: readonly Player[]): Player[][] => [
  ...Map.groupBy(players, ({ symbol, group }) => (group === null ? `symbol ${symbol}` : `group ${group}`)).values(),
];

/** Whole days, and one more, so that a window has the tick before its start though symbols may be quiet for long. */
export const lookFromOf = (from: number, { backMs }: Pick<Looks, 'backMs'>): number =>
  backMs === 0 ? from : dayFloor(from - backMs - dayMs);

/** A guess: ticks lie evenly over a symbol's life. */
export function ticksIn({ ticks, firstTick, lastTick }: Member, { from, to }: Window): number {
  if (firstTick === null || lastTick === null) return 0;
  const shared = Math.min(lastTick + 1, to) - Math.max(firstTick, from);
  return shared <= 0 ? 0 : Math.ceil((ticks * shared) / (lastTick + 1 - firstTick));
}
