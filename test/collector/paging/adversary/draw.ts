/** Draws a server, its ticks and its requests from a seed. */
import type { Window } from '../../../../src/base/window.ts';
import type { Random } from './random.ts';
import { honest, type Row, type Traits } from './server.ts';

export const start = Date.UTC(2026, 6, 1);
export const hourMs = 3_600_000;

export type Kind = 'contiguous' | 'several replicas' | 'sampling' | 'joining' | 'any';

export function drawTraits(random: Random, kind: Kind): Traits {
  const some = <T>(usual: T, others: readonly T[], probability: number): T =>
    random.chance(probability) ? random.pick(others) : usual;
  const isSmall = random.chance(0.05);
  const traits: Traits = {
    ...honest,
    cap: isSmall ? 6 + random.int(4) : 10 + random.int(random.pick([30, 120])),
    capUnit: isSmall ? 'rows' : some('rows', ['bytes'], 0.2),
    capVariation: some(0, [0.02, 0.05, 0.3, 0.6], 0.5),
    capBySymbol: random.chance(0.15),
    capDropsAfter: some<number | null>(null, [2, 5, 12], 0.15),
    truncate: random.pick(['earliest', 'latest', random.pick(['earliest', 'alternating'])]),
    fromInclusive: random.chance(0.6),
    toInclusive: random.chance(0.4),
    echoWindow: random.pick(['echo', 'echo', 'none', 'cut', 'cut-from', 'cut-to', 'span', 'clamped']),
    repeatShare: some(0, [0.01, 0.1], 0.25),
    unusableShare: some(0, [0.002, 0.02], 0.2),
    order: random.pick(['ascending', 'newest-first', 'shuffled']),
    carryInShare: random.chance(0.2) ? 1 : 0,
    honors: some<Traits['honors']>('window', ['end', 'nothing', 'hours'], 0.08),
    generatedAtLagMs: random.pick([0, 0, 700, null]),
    generatedAtResolutionMs: some(0, [40, 5000], 0.08),
    keepsMs: some<number | null>(null, [30 * hourMs], 0.1),
    gaps: random.chance(0.1) ? [drawGap(random), drawGap(random)] : [],
  };
  switch (kind) {
    case 'several replicas':
      return { ...traits, lagsMs: [0, random.pick([500, 20 * 60_000])] };
    case 'sampling':
      return { ...traits, sample: 8 + random.int(40) };
    case 'joining':
      return { ...traits, uncappedAgeMs: random.pick([1, 3]) * hourMs };
    default:
      return traits;
  }
}

function drawGap(random: Random): Window {
  const from = start + random.int(24 * hourMs);
  return { from, to: from + 1 + random.int(random.pick([10, 5 * hourMs])) };
}

/** Ticks of some symbols over a day: even, random or in bursts, some of them late, sometimes many in one millisecond. */
export function drawTruth(random: Random, symbols: number, spanMs = 24 * hourMs): Map<string, Row[]> {
  const isLate = random.chance(0.25);
  return new Map(
    Array.from({ length: symbols }, (_, s) => {
      const count = random.pick([0, 1, 2, 5, random.int(40), random.int(300), random.int(300)]);
      const spacing = random.pick(['even', 'random', 'bursts']);
      const times: number[] = [];
      for (let i = 0; i < count; i++) {
        if (spacing === 'even') times.push(start + Math.floor(((i + 1) * spanMs) / (count + 1)));
        else if (spacing === 'random' || times.length === 0) times.push(start + random.int(spanMs));
        else
          times.push(
            random.chance(0.05)
              ? start + random.int(spanMs)
              : Math.min(start + spanMs - 1, times.at(-1)! + random.int(3)),
          );
      }
      if (random.chance(0.04)) for (let i = 0; i < 150; i++) times.push(times[0] ?? start + 5);
      times.sort((a, b) => a - b);
      const seen = new Set<string>();
      const rows: Row[] = [];
      for (const t of times) {
        const p = random.int(1000) / (random.chance(0.5) ? 1000 : 3000);
        if (seen.has(`${t} ${p}`)) continue;
        seen.add(`${t} ${p}`);
        const seenFrom = isLate && random.chance(0.03) ? start + spanMs + random.int(2000) : 0;
        rows.push({ t, p, seenFrom });
      }
      return [`S${s}`, rows];
    }),
  );
}
