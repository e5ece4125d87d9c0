import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { apiKey, open } from './loopback.ts';
import { mostWithin } from './sliding.ts';

test('no sliding second at the server holds more than 5, 20, 200 or 2,000 requests, and little is left unused', async () => {
  const worker = new Worker(new URL('./arrivals.ts', import.meta.url));
  const [port] = (await once(worker, 'message')) as [number];
  const origin = `http://127.0.0.1:${port}`;
  try {
    const rates = { slow: 5, middling: 20, quick: 200 };
    await Promise.all(Object.entries(rates).map(([name, rate]) => poll(`${origin}/${name}`, rate, 3.6)));
    await poll(`${origin}/furious`, 2000, 2.2);
    const arrivals = (await (await fetch(`${origin}/arrivals`)).json()) as Record<string, number[]>;
    for (const [name, rate] of Object.entries({ ...rates, furious: 2000 })) {
      const at = arrivals[name]!;
      expect(mostWithin(at, 1000), name).toBeLessThanOrEqual(rate);
      const share = (at.length - 1) / ((at.at(-1)! - at[0]!) / 1000) / rate;
      console.log(`pace: ${share.toFixed(3)} of ${rate} a second used`);
      // How much a busy machine lets it use is not the pacer's to answer for; that it does not stand still is.
      expect(share, name).toBeGreaterThan(0.5);
    }
  } finally {
    await worker.terminate();
  }
}, 20_000);

async function poll(baseUrl: string, rate: number, seconds: number): Promise<void> {
  await using upstream = open(baseUrl, { apiKey, requestsPerSecond: rate, concurrency: Math.max(4, rate / 20) });
  await Promise.all(Array.from({ length: Math.ceil(rate * seconds) }, () => upstream.markets({})));
}
