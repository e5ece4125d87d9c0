import fc from 'fast-check';
import { precedenceRanks } from '../../../src/archive/format/precedence.ts';
import { answer, day0, dayMs, hourMs, now } from '../scratch.ts';

/** A response or file with few ticks around two midnights, with repeating prices, ranks and observation times. */
export const anyAnswer = fc
  .record({
    symbol: fc.constantFrom('AAA', 'BBB', '🚀 x'),
    hours: fc.array(fc.integer({ min: -20, max: 20 }), { minLength: 1, maxLength: 12 }),
    prices: fc.array(fc.constantFrom(0, -0, 0.1, 0.1 + Number.EPSILON, 0.5, 1), { minLength: 12, maxLength: 12 }),
    seen: fc.integer({ min: 0, max: 3 }),
    rank: fc.constantFrom(precedenceRanks.import, precedenceRanks.poll, precedenceRanks.preferred),
    covers: fc.boolean(),
  })
  .map(({ symbol, hours, prices, seen, rank, covers }) => {
    const pairs = hours.map((hour, i) => [day0 + dayMs + hour * hourMs, prices[i]!] as const);
    const origin = rank === precedenceRanks.poll ? ('poll' as const) : ('import' as const);
    return answer(symbol, pairs, {
      observedAt: now + seen,
      rank,
      origin,
      ...(covers ? {} : { windows: [] }),
    });
  });
