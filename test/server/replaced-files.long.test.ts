import { expect, test } from 'vitest';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { answer, append, day0, dayMs, hourMs, publishNow } from '../archive/scratch.ts';
import { lake, marketsOn, poll, symbols } from './historical-archive.ts';
import { type Serving, serving } from './serving.ts';

const routes = ['markets', 'ticks', 'orderbooks', 'quotes', 'candles?interval=4h', 'candles?interval=1d', 'coverage'];

async function readMetric({ ask }: Serving, name: string): Promise<number> {
  const text = await (await ask('/metrics')).text();
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)![1]);
}

/** Asks for everything, of all symbols and of each. Returns the bodies. */
async function readAll({ ask }: Serving): Promise<string[]> {
  const bodies: string[] = [];
  for (const route of routes) {
    for (const symbol of [null, ...symbols]) {
      const selection = symbol === null ? '' : `${route.includes('?') ? '&' : '?'}symbol=${encodeURIComponent(symbol)}`;
      const response = await ask(`/api/v1/historical/${route}${selection}`);
      expect(response.status, route).toBe(200);
      bodies.push(await response.text());
    }
  }
  for (const symbol of symbols) {
    const name = encodeURIComponent(symbol);
    bodies.push(await (await ask(`/api/v1/ticks?symbol=${name}`)).text());
    await ask(`/api/v1/orderbook?symbol=${name}`);
  }
  return bodies;
}

test('a publish removes what it replaced from the caches, and answers are those of a service that has just started', async () => {
  const archive = await lake();
  const service = await serving(archive);
  await readAll(service);
  const sizes: number[] = [];
  for (let night = 1; night <= 5; night++) {
    poll(archive, day0 + 2 * dayMs + night * hourMs, marketsOn(2));
    append(archive, answer('AAA', [[day0 + 2 * dayMs + night * hourMs, 0.5]]));
    await publishNow(archive);
    // The first request after a publish reads the new manifest.
    await service.ask('/api/v1/historical/ticks');
    const manifest = archive.readManifest();
    const files = listManifestFiles(manifest);
    expect(await readMetric(service, 'oddslake_cache_files')).toBeLessThanOrEqual(files.length);
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    expect(await readMetric(service, 'oddslake_cache_bytes')).toBeLessThanOrEqual(bytes);
    // Only the response to that request.
    sizes.push(await readMetric(service, 'oddslake_response_cache_bytes'));
    const bodies = await readAll(service);
    const fresh = await serving(archive);
    expect(bodies.map(stripTimes)).toEqual((await readAll(fresh)).map(stripTimes));
    await fresh.stop();
  }
  const before = await readMetric(service, 'oddslake_response_cache_bytes');
  expect(Math.max(...sizes)).toBeLessThan(before / 2);
});

/** Times at which a response was generated differ. */
const stripTimes = (body: string): string => body.replace(/"(generated_at|data_time)":\d+/g, '');
