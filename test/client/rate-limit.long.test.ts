import { expect, test } from 'vitest';
import { open, openTransportWithHeadHook, sendJson, serve } from './loopback.ts';
import { countMaxWithin } from './sliding.ts';
import { createLeapingClock } from './virtual-clock.ts';

// Measured by the client's clock, on which waits take no time and which stops while a request is in flight.
test.each([5, 20, 200, 2000])(
  'no sliding second at the server has more than %i requests, and the rate is used',
  async (rate) => {
    const at: number[] = [];
    let [sent, answered] = [0, 0];
    const clock = createLeapingClock({ mayLeap: (): boolean => answered === sent });
    await using server = await serve((_, response) => {
      at.push(clock.monotonicMs());
      sendJson(response, '{"markets":[]}');
    });
    const options = { requestsPerSecond: rate, concurrency: Math.max(4, rate / 20) };
    await using upstream = open(server.url, options, {
      clock,
      openTransport(...args) {
        const wire = openTransportWithHeadHook(() => answered++)(...args);
        return {
          ...wire,
          get(...request) {
            sent++;
            return wire.get(...request);
          },
        };
      },
    });
    await Promise.all(Array.from({ length: Math.ceil(rate * (rate > 1000 ? 1.3 : 3.6)) }, () => upstream.markets({})));
    expect(countMaxWithin(at, 1000)).toBeLessThanOrEqual(rate);
    const share = (at.length - 1) / ((at.at(-1)! - at[0]!) / 1000) / rate;
    console.log(`rate limit: ${share.toFixed(3)} of ${rate} a second used`);
    expect(share).toBeGreaterThan(0.9);
  },
);
