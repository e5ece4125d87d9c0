/** Draws a server from a seed. */
import type { Window } from '../../../../src/base/window.ts';
import type { Random } from './random.ts';
import { honest, type Traits } from './server.ts';

export const start = Date.UTC(2026, 6, 1);
export const hourMs = 3_600_000;

type Kind = 'contiguous' | 'sampling' | 'joining';

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
