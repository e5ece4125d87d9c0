import { globSync } from 'node:fs';
import { expect, onTestFinished, test, vi } from 'vitest';
import { job as markets } from '../../../jobs/markets.ts';
import { job as nightly } from '../../../jobs/nightly.ts';
import { job as publish } from '../../../jobs/publish.ts';
import { takeSnapshot } from '../../../src/archive/read/snapshot.ts';
import { openConfiguredArchive } from '../../../src/context/open-configured.ts';
import { startService } from '../../../src/server/run-service.ts';
import { type Answer, type LiveService, type LiveWorld, startMs, startWorld } from './live-world.ts';

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

/** A world with a service, and a symbol that is traded now. */
async function served(...set: string[]) {
  const world = await collected();
  const service = await world.serve(...set);
  return { world, service, symbol: busySymbol(world) };
}

test('ticks are as fresh as the upstream, and history the next moment', async () => {
  const { world, service, symbol } = await served();
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
  const { world, service, symbol } = await served('service.live.timeout_ms=60000');
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

test('asks nothing for the past, nor for data that is fresh', async () => {
  const { world, service, symbol } = await served();
  await service.get(`ticks?symbol=${symbol}`);
  const before = world.box.stats().tickRequests;
  world.advance(4999);
  await service.get(`ticks?symbol=${symbol}`);
  world.advance(60_000);
  const { body } = await service.get(`ticks?symbol=${symbol}&from=${startMs - 5 * minuteMs}&to=${startMs - 1}`);
  expect(body.data_time).toBe(startMs - 1);
  expect(body.generated_at).toBe(world.clock.nowMs());
  expect(world.box.stats().tickRequests).toBe(before);
  expect([await service.count('fetched'), await service.count('fresh')]).toEqual([1, 2]);
});

test('a reader without a key gets what is stored, and causes no request', async () => {
  const { world, service, symbol } = await served('service.public_catalogue=true');
  await service.get(`ticks?symbol=${symbol}`);
  world.advance(60_000);
  const before = world.box.stats();
  const stored = await fetch(`${service.url}/api/v1/ticks?symbol=${symbol}`);
  expect([stored.status, ((await stored.json()) as Answer['body']).data_time]).toEqual([200, startMs]);
  expect((await fetch(`${service.url}/api/v1/orderbook?symbol=${symbol}`)).status).toBe(404);
  expect((await fetch(`${service.url}/api/v1/markets`)).status).toBe(401);
  expect(world.box.stats()).toEqual(before);
  // With a key it is as fresh as the upstream.
  expect((await service.get(`ticks?symbol=${symbol}`)).body.data_time).toBe(startMs + 60_000);
});

test('a symbol that nobody has ticks of is requested once, and does not enter the archive', async () => {
  const world = await collected();
  const service = await world.serve();
  const before = world.box.stats().tickRequests;
  for (let i = 0; i < 3; i++) {
    const { status, body } = await service.get('ticks?symbol=no-such-symbol');
    expect([status, body.code]).toEqual([404, 'unknown_symbol']);
    world.advance(10_000);
  }
  expect(world.box.stats().tickRequests - before).toBe(1);
  expect(service.archive.state.db.one("select 1 from symbols where symbol = 'no-such-symbol'")).toBeUndefined();
  // Another symbol is not affected.
  expect((await service.get(`ticks?symbol=${busySymbol(world)}`)).body.data_time).toBe(world.clock.nowMs());
});

test('an order book that was never polled is fetched; then it is as fresh as the upstream', async () => {
  const { world, service, symbol } = await served();
  for (const step of [0, 6000, 60_000]) {
    world.advance(step);
    const { status, body, headers } = await service.get(`orderbook?symbol=${symbol}`);
    const now = world.clock.nowMs();
    expect([status, body.data_time, body.generated_at]).toEqual([200, now, now]);
    expect(headers.get('oddslake-data-time')).toBe(String(now));
    expect(body.bids.length + body.asks.length).toBeGreaterThan(0);
  }
  world.advance(4000);
  const { body } = await service.get(`orderbook?symbol=${symbol}`);
  expect(body.generated_at - body.data_time!).toBe(4000);
  expect((await service.get('orderbook?symbol=no-such-symbol')).status).toBe(404);
});

test('market lists are as fresh as the upstream', async () => {
  const world = await collected();
  const service = await world.serve();
  world.advance(3 * 86_400_000);
  const answers = await Promise.all(Array.from({ length: 50 }, () => service.get('markets')));
  for (const { body, headers } of answers) {
    expect([body.data_time, body.generated_at]).toEqual([world.clock.nowMs(), world.clock.nowMs()]);
    expect(headers.get('oddslake-data-time')).toBe(String(world.clock.nowMs()));
  }
  const polls = service.archive.state.db.one<{ n: number }>("select count(*) as n from journal where kind = 'markets'");
  // One record for fifty readers.
  expect(polls!.n).toBe(1);
});

const outages = {
  'is down': (world: LiveWorld) => world.box.stop(),
  'answers 503': (world: LiveWorld) => world.box.set({ faultShare: 1, faults: ['503'] }),
  'resets connections': (world: LiveWorld) => world.box.set({ faultShare: 1, faults: ['reset'] }),
  'answers with a web page': (world: LiveWorld) => world.box.set({ faultShare: 1, faults: ['html'] }),
  'refuses the key': (world: LiveWorld) => world.box.set({ key: 'another-key' }),
  'does not answer': (world: LiveWorld) => world.box.set({ faultShare: 1, faults: ['stall'] }),
} as const;

function requireFresh(response: Answer): Answer {
  expect([response.status, response.body.data_time]).toEqual([200, startMs]);
  return response;
}

test.each(Object.keys(outages) as (keyof typeof outages)[])(
  'serves what the archive has if the upstream %s',
  async (how) => {
    const { world, service, symbol } = await served('service.live.timeout_ms=300');
    const window = `symbol=${symbol}&from=${startMs - minuteMs}`;
    // On a busy machine the first reads may take longer than the timeout; what they requested arrives all the same.
    const fresh = await vi.waitFor(() => service.get(`ticks?${window}`).then(requireFresh), 20_000);
    const book = await vi.waitFor(() => service.get(`orderbook?symbol=${symbol}`).then(requireFresh), 20_000);
    await outages[how](world);
    world.advance(30_000);
    const requests = world.box.stats().requests;
    for (let i = 0; i < 5; i++) {
      const stale = await service.get(`ticks?${window}`);
      expect(stale.status).toBe(200);
      expect(stale.body.ticks).toEqual(fresh.body.ticks);
      expect([stale.body.data_time, stale.body.generated_at]).toEqual([startMs, startMs + 30_000]);
      expect(stale.headers.get('oddslake-data-time')).toBe(String(startMs));
      expect(stale.body.gaps).toEqual([{ from: startMs, to: startMs + 30_000 }]);
      const staleBook = await service.get(`orderbook?symbol=${symbol}`);
      expect(staleBook.body).toEqual({ ...book.body, generated_at: startMs + 30_000 });
      expect((await service.get('markets')).body.data_time).toBe(startMs);
    }
    // Two attempts per route; after that the upstream is left alone.
    expect(world.box.stats().requests - requests).toBeLessThanOrEqual(8);
    expect(await service.count('fetched')).toBe(2);
    expect(world.log.filter(({ message }) => message.startsWith('live reads fail')).length).toBeLessThanOrEqual(3);
  },
);

test('recovers after an outage, and asks seldom while it lasts', async () => {
  const { world, service, symbol } = await served('service.live.timeout_ms=60000');
  await service.get(`ticks?symbol=${symbol}`);
  world.box.set({ faultShare: 1, faults: ['500'] });
  const before = world.box.stats().tickRequests;
  // Ten minutes with a reader every two seconds.
  for (let i = 0; i < 300; i++) {
    world.advance(2000);
    expect((await service.get(`ticks?symbol=${symbol}&limit=1`)).status).toBe(200);
  }
  expect(world.box.stats().tickRequests - before).toBeLessThan(40);
  world.box.set({ faultShare: 0 });
  world.advance(60_000);
  const { body } = await service.get(`ticks?symbol=${symbol}&from=${startMs}`);
  expect([body.data_time, body.gaps]).toEqual([world.clock.nowMs(), undefined]);
  expect(world.log.map(({ message }) => message)).toContain('live reads work again');
});

test('a slow upstream costs one timeout; what it returns later is journaled', async () => {
  const { world, service, symbol } = await served('service.live.timeout_ms=50');
  world.box.set({ latencyMs: 500 });
  const first = await service.get(`ticks?symbol=${symbol}`);
  expect([first.status, first.body.data_time, await service.count('timeout')]).toEqual([200, null, 1]);
  // Later readers do not wait for another timeout: the deadline is that of the request to the upstream.
  await Promise.all(Array.from({ length: 20 }, () => service.get(`ticks?symbol=${symbol}`)));
  await vi.waitFor(async () => expect((await service.get(`ticks?symbol=${symbol}`)).body.data_time).toBe(startMs), {
    timeout: 30_000,
    interval: 100,
  });
});

test('is refused without an upstream, with another one, and on a snapshot', async () => {
  const world = await collected({ ticksPerDay: 50, markets: 2 });
  expect((await nightly.run(await world.context(), { day: null })).exit_code).toBe(0);
  const context = await world.context();
  const archive = openConfiguredArchive(context, false);
  onTestFinished(archive.close);
  const noUpstream = { ...context.settings, upstream: { ...context.settings.upstream, baseUrl: null } };
  await expect(startService({ ...context, settings: noUpstream }, archive)).rejects.toThrow(/No upstream/);
  const other = { ...context.settings, source: { ...context.settings.source, name: 'other' } };
  await expect(startService({ ...context, settings: other }, archive)).rejects.toThrow(/other/);
  const folder = `${world.root}-snapshot`;
  await takeSnapshot(archive, folder, { id: 'test' });
  const settings = { ...context.settings, archive: { ...context.settings.archive, output: folder } };
  const copy = openConfiguredArchive({ ...context, settings }, false);
  onTestFinished(copy.close);
  await expect(startService({ ...context, settings }, copy)).rejects.toThrow(/is a snapshot or a copy/);
});

test('each day of live reads is a run with its counts, and its raw responses', async () => {
  const { world, service, symbol } = await served();
  await service.get(`ticks?symbol=${symbol}`);
  world.advance(86_400_000);
  await service.get(`ticks?symbol=${symbol}`);
  const { root } = world;
  await service.stop();
  const archive = openConfiguredArchive(await world.context(), false);
  onTestFinished(archive.close);
  const runs = archive.state.db.all<{ run_id: string; exit_code: number; fetched: number; summary: string }>(
    "select run_id, exit_code, fetched, summary from runs where job = 'live' order by run_id",
  );
  expect(runs.map(({ exit_code }) => exit_code)).toEqual([0, 0]);
  for (const { run_id, fetched, summary } of runs) {
    expect(fetched).toBeGreaterThan(0);
    expect(JSON.parse(summary)).toMatchObject({ job: 'live', run_id, ticks: { fetched } });
    expect(globSync(`${root}/.oddslake/raw/*/${run_id}-*.raw`)).toHaveLength(1);
  }
});

test('live reads and the collector have their own shares of the request rate', async () => {
  const world = await startWorld();
  const rate = ['upstream.requests_per_second=20', 'service.live.rate_share=0.25'];
  // One list, so that the poll sends fewer requests than are counted below.
  const poll = await markets.run(await world.context(...rate, 'source.views=matched'), undefined);
  expect(poll.rate!.allowed_per_second).toBe(15);
  const service = await world.serve(...rate, 'service.live.timeout_ms=60000');
  world.advance(5000);
  const known = service.archive.state.db.all<{ symbol: string }>('select symbol from symbols limit 8');
  const before = world.box.stats().requests;
  const answers = await Promise.all(known.map(({ symbol }) => service.get(`orderbook?symbol=${symbol}`)));
  expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(0);
  expect(world.box.stats().requests - before).toBe(8);
  expect(world.box.stats().perSecondMax).toBeLessThanOrEqual(5);
});

test('a rate that the upstream states is shared in the same way', async () => {
  const world = await startWorld({ requestsPerSecond: 20, rateHeaders: 'draft' });
  const rate = ['upstream.requests_per_second=5000', 'service.live.rate_share=0.25'];
  const poll = await markets.run(await world.context(...rate), undefined);
  expect(poll.rate!.allowed_per_second).toBe(15);
  const service = await world.serve(...rate, 'service.live.timeout_ms=60000');
  world.advance(5000);
  const known = service.archive.state.db.all<{ symbol: string }>('select symbol from symbols limit 14');
  await Promise.all(known.map(({ symbol }) => service.get(`orderbook?symbol=${symbol}`)));
  // The first four are sent before the upstream has stated its rate.
  expect(world.box.stats().perSecondMax).toBeLessThanOrEqual(4 + 5);
});

test('live reads pause while the journal is full, and go on after a publish', async () => {
  const world = await collected();
  const full = 'publish.journal_ticks_max=10';
  const service = await world.serve(full);
  const symbol = busySymbol(world);
  const first = await service.get(`ticks?symbol=${symbol}`);
  expect(first.body.count).toBeGreaterThan(10);
  world.advance(120_000);
  const { status, body } = await service.get(`ticks?symbol=${symbol}`);
  expect([status, body.data_time, await service.count('crowded')]).toEqual([200, startMs, 1]);
  expect((await publish.run(await world.context(), undefined)).exit_code).toBe(0);
  world.advance(120_000);
  expect((await service.get(`ticks?symbol=${symbol}`)).body.data_time).toBe(world.clock.nowMs());
});
