import { expect, test } from 'vitest';
import { open, sendJson, serve, tellingOfHeads } from './loopback.ts';
import { mostWithin } from './sliding.ts';
import { createLeapingClock } from './virtual-clock.ts';

// By the clock of the client, on which its waits take no time and which stands still while a request is on its way.
test.each([5, 20, 200, 2000])(
  'no sliding second at the server holds more than %i requests, and little is left unused',
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
      openTransport(...told) {
        const wire = tellingOfHeads(() => answered++)(...told);
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
    expect(mostWithin(at, 1000)).toBeLessThanOrEqual(rate);
    const share = (at.length - 1) / ((at.at(-1)! - at[0]!) / 1000) / rate;
    console.log(`pace: ${share.toFixed(3)} of ${rate} a second used`);
    expect(share).toBeGreaterThan(0.9);
  },
);
