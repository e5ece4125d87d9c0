import { expect, test } from 'vitest';
import { dayMs } from '../../src/base/window.ts';
import { expectHonest, expectWhole, hourMs, runIds, world, yearMs } from '../collector/run/clocks.ts';
import { drawFrom, search, searchMsMax } from './seeds.ts';

const minuteMs = 60_000;
const jumpsMs = [5000, 10 * minuteMs, hourMs, 6 * hourMs, dayMs, 3 * dayMs, yearMs, 10 * yearMs].flatMap((ms) => [
  ms,
  -ms,
]);

/**
 * Several nights on a clock that is set back and forward during and between runs, from a service that states its time
 * in responses or headers; then one night with the right clock.
 */
async function runNights(seed: number): Promise<void> {
  const draw = drawFrom(seed);
  const lake = await world(Date.UTC(2025, 5, 3) + draw.below(dayMs));
  try {
    const { box, hand, night } = lake;
    expect(await night()).toMatchObject({ exit_code: 0 });
    let runs = 1;
    let unnoticedMs = 0;
    for (let n = 1 + draw.below(3); n > 0; n--) {
      box.nowMs += draw.one([minuteMs, hourMs, 20 * hourMs, dayMs]);
      hand.offMs = draw.chance(0.5) ? draw.one(jumpsMs) : 0;
      const isStated = draw.chance(0.5);
      const at = new Map(Array.from({ length: draw.below(3) }, () => [draw.below(8), draw.one([0, ...jumpsMs])]));
      let responses = 0;
      const noteClock = (): void => {
        if (hand.offMs < minuteMs) unnoticedMs = Math.max(unnoticedMs, hand.offMs);
      };
      noteClock();
      box.script = {
        ticks(honest) {
          hand.offMs = at.get(responses++) ?? hand.offMs;
          noteClock();
          // The ticks were read before the response was sent, and the service states when.
          const readAt = box.nowMs;
          box.nowMs += draw.below(1000);
          return { ...honest, generated_at: isStated ? readAt : undefined };
        },
      };
      const summary = await night();
      expect([0, 4], JSON.stringify(summary)).toContain(summary.exit_code);
      expectHonest(lake, unnoticedMs);
      runs++;
    }
    box.script = {};
    hand.offMs = 0;
    box.nowMs += 2 * minuteMs;
    expect(await night()).toMatchObject({ exit_code: 0, failures: [] });
    await lake.publishRest();
    expectHonest(lake);
    expectWhole(lake);
    expect(new Set(runIds(lake.output)).size).toBe(runs + 2);
  } finally {
    await lake.end();
  }
}

test('wrong clocks lose no ticks and claim no windows, and the right clock completes the archive', {
  timeout: searchMsMax,
}, async () => {
  await search({ name: 'clocks', least: 20, share: 0.02 }, runNights);
});
