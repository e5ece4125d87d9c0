import type { Draw } from '../faults/draw.ts';

// The world behind the service: its symbols and ticks. Times are epoch ms.

export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

/** UTC midnight before the first night. */
export const epoch = Date.UTC(2025, 5, 10);

export interface WorldTick {
  readonly t: number;
  readonly p: number;
  /** When the service first has it. */
  readonly visibleAt: number;
}

export interface WorldSymbol {
  readonly symbol: string;
  /** When the lists first name it. */
  readonly listedFrom: number;
  /** When it opened, if the lists state it. */
  readonly opensAt: number | null;
  /** When it is resolved; null if it outlives the story. */
  readonly resolvedAt: number | null;
  /** In order. */
  readonly ticks: readonly WorldTick[];
}

export function drawWorld(draw: Draw, days: number): WorldSymbol[] {
  const isLate = draw.chance(0.4);
  return Array.from({ length: 3 + draw.below(4) }, (_, i) => {
    const isNew = i > 1 && draw.chance(0.3);
    const listedFrom = isNew ? epoch + draw.below(days) * dayMs + draw.below(24) * hourMs : 0;
    const opensAt = draw.chance(0.5) ? Math.max(listedFrom - 5 * hourMs, epoch - 2 * dayMs) : null;
    // The service keeps more than a first poll asks for: it has no horizon.
    const from = Math.max(epoch - 5 * dayMs, opensAt ?? (isNew ? listedFrom : 0));
    const stepMs = draw.one([1, 2, 5]) * hourMs;
    const ticks: WorldTick[] = [];
    for (let t = from + draw.below(stepMs); t < epoch + (days + 1) * dayMs; t += 1 + draw.below(2 * stepMs)) {
      const lateMs = isLate && draw.chance(0.05) ? draw.below(30 * hourMs) : 0;
      ticks.push({ t, p: draw.below(1000) / 1000, visibleAt: t + lateMs });
    }
    return { symbol: `S${i}`, listedFrom, opensAt, resolvedAt: null, ticks };
  });
}

/**
 * Opens and ends every symbol with a tick, within the first `days` days or a day after it is listed: all that it ever had can
 * then be proven within the story.
 */
export const endWorld = (draw: Draw, world: readonly WorldSymbol[], days: number): WorldSymbol[] =>
  world.map((one) => {
    const end = Math.max(epoch + draw.below(days * dayMs), one.listedFrom + dayMs);
    const ticks = one.ticks.filter(({ t }) => t < end);
    const [first, last] = [ticks[0]?.t, ticks.at(-1)?.t];
    const hasOpening = one.opensAt !== null || one.listedFrom > 0;
    return {
      ...one,
      ticks,
      opensAt: hasOpening ? (first ?? one.opensAt) : null,
      resolvedAt: last === undefined ? end : last + 1,
    };
  });
