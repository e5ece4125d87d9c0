import { expect, test } from 'vitest';
import { job as markets } from '../../../jobs/markets.ts';
import { type LiveService, type LiveWorld, startMs, startWorld } from './live-world.ts';

const minuteMs = 60_000;

/** A world whose archive knows the markets. */
async function collected(options: Parameters<typeof startWorld>[0] = {}): Promise<LiveWorld> {
  const world = await startWorld(options);
  expect((await markets.run(await world.context(), undefined)).exit_code).toBe(0);
  return world;
}

const recordsOf = ({ archive }: LiveService): number =>
  archive.state.db.one<{ n: number }>("select count(*) as n from journal where kind = 'ticks'")!.n;

/** A symbol that is traded now. */
function busySymbol({ box }: LiveWorld): string {
  const counted = box.symbols().map((symbol) => {
    return { symbol, n: box.readTruth(symbol, { from: startMs - 10 * minuteMs, to: startMs }).t.length };
  });
  return counted.sort((a, b) => b.n - a.n)[0]!.symbol;
}

test('ticks are as fresh as the upstream, and history the next moment', async () => {
  const world = await collected();
  const service = await world.serve();
  const symbol = busySymbol(world);
  for (const step of [0, 6000, 7000, 60_000]) {
    world.advance(step);
    const now = world.clock.nowMs();
    const from = now - 10 * minuteMs;
    const { status, body, headers } = await service.get(`ticks?symbol=${symbol}&from=${from}`);
    expect(status).toBe(200);
    const truth = world.box.readTruth(symbol, { from, to: now });
    expect(body.ticks.map(({ t }: { t: number }) => t)).toEqual([...new Set(truth.t)]);
    expect([body.data_time, body.generated_at, body.to]).toEqual([now, now, now]);
    expect(headers.get('oddslake-data-time')).toBe(String(now));
    expect(body.gaps).toBeUndefined();
  }
});

test('a thousand readers share one request and one journal record', async () => {
  const world = await collected();
  const service = await world.serve('service.live.timeout_ms=60000');
  const symbol = busySymbol(world);
  await service.get(`ticks?symbol=${symbol}`);
  world.advance(20_000);
  const before = { requests: world.box.stats().tickRequests, records: recordsOf(service) };
  const answers = await Promise.all(Array.from({ length: 1000 }, () => service.get(`ticks?symbol=${symbol}`)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(new Set(answers.map(({ body }) => body.data_time))).toEqual(new Set([world.clock.nowMs()]));
  expect(new Set(answers.map(({ body }) => JSON.stringify(body.ticks))).size).toBe(1);
  expect(world.box.stats().tickRequests - before.requests).toBe(1);
  expect(recordsOf(service) - before.records).toBe(1);
});
