import { compareUtf8 } from '../../core/order.ts';
import { partOf } from '../../core/part.ts';
import type { Window } from '../../core/window.ts';
import type { Member, Universe } from './universe.ts';

/** Symbols that are loaded and played together. */
export interface Batch {
  /** To be played, in their order. */
  readonly members: readonly Member[];
  /** Loaded to be looked at only: the same markets on other venues. */
  readonly beside: readonly Member[];
}

/** Ticks of a batch, unless one market alone has more; 32 bytes each are held for a while. */
export const batchTicksMax = 2_000_000;
const batchSymbolsMax = 2_000;

/**
 * Cuts a universe into batches. What is of one market stays together where strategies look at other venues; else the
 * symbols of one part do, that no file need be read for two batches without need. How long a symbol's ticks are in the
 * window is guessed from its life: the plan depends on nothing but its values.
 */
export function planBatches({ members, venues }: Universe, span: Window, parts: number, grouped: boolean): Batch[] {
  const groups = grouped ? marketsOf(members, venues) : members.map((member) => ({ members: [member], beside: [] }));
  const placed = groups.map((group) => ({ ...group, part: partOf(group.members[0]!.symbol, parts) }));
  placed.sort((a, b) => a.part - b.part || compareUtf8(a.members[0]!.symbol, b.members[0]!.symbol));
  const batches: { members: Member[]; beside: Member[]; part: number; ticks: number }[] = [];
  for (const { members: own, beside, part } of placed) {
    const ticks = [...own, ...beside].reduce((sum, member) => sum + ticksIn(member, span), 0);
    const last = batches.at(-1);
    const fits =
      last !== undefined &&
      (grouped || last.part === part) &&
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

/** Symbols by their market, those without another venue alone; by the first of their symbols. */
function marketsOf(members: readonly Member[], venues: Universe['venues']): { members: Member[]; beside: Member[] }[] {
  const chosen = new Set(members.map(({ symbol }) => symbol));
  const byMarket = Map.groupBy(members, ({ symbol, canonicalId }) =>
    canonicalId !== null && venues.has(canonicalId) ? `market ${canonicalId}` : `symbol ${symbol}`,
  );
  return [...byMarket.values()].map((own) => {
    const all = venues.get(own[0]!.canonicalId ?? '') ?? [];
    return { members: own, beside: all.filter(({ symbol }) => !chosen.has(symbol)) };
  });
}

/** A guess: ticks lie evenly over a symbol's life. */
export function ticksIn({ ticks, firstTick, lastTick }: Member, { from, to }: Window): number {
  if (firstTick === null || lastTick === null) return 0;
  const shared = Math.min(lastTick + 1, to) - Math.max(firstTick, from);
  return shared <= 0 ? 0 : Math.ceil((ticks * shared) / (lastTick + 1 - firstTick));
}
