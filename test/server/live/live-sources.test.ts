import { expect, test } from 'vitest';
import { job as markets } from '../../../jobs/markets.ts';
import { job as publish } from '../../../jobs/publish.ts';
import { findSource, qualifySymbol, unqualifySymbol } from '../../../src/base/source-name.ts';
import type { Sandbox } from '../../../src/sandbox/sandbox.ts';
import { type LiveService, type LiveWorld, startWorld } from './live-world.ts';

// Live reads of an archive with two sources, whose symbols collide: each symbol is requested of its own source.

const names = ['alpha', 'beta'] as const;
const minuteMs = 60_000;

async function collected(): Promise<LiveWorld> {
  const world = await startWorld({}, names);
  expect((await markets.run(await world.context(), undefined)).exit_code).toBe(0);
  return world;
}

const boxOf = ({ boxes }: LiveWorld, name: string): Sandbox => boxes.get(name)!;

const requestsOf = (world: LiveWorld): number[] => names.map((name) => boxOf(world, name).stats().tickRequests);

/** A symbol of both sources that is traded in each of them now. */
function busySymbol(world: LiveWorld): string {
  const now = world.clock.nowMs();
  const least = (symbol: string): number =>
    Math.min(
      ...names.map((name) => boxOf(world, name).readTruth(symbol, { from: now - 10 * minuteMs, to: now }).t.length),
    );
  const symbols = world.box.symbols().map((symbol) => ({ symbol, n: least(symbol) }));
  const [busiest] = symbols.sort((a, b) => b.n - a.n);
  expect(busiest!.n).toBeGreaterThan(0);
  return busiest!.symbol;
}

async function expectFresh(world: LiveWorld, service: LiveService, symbol: string): Promise<void> {
  const now = world.clock.nowMs();
  const from = now - 10 * minuteMs;
  const { status, body } = await service.get(`ticks?symbol=${encodeURIComponent(symbol)}&from=${from}`);
  const source = findSource(symbol, names)!;
  const truth = boxOf(world, source).readTruth(unqualifySymbol(source, symbol), { from, to: now });
  expect([status, body.data_time, body.gaps]).toEqual([200, now, undefined]);
  expect(body.ticks.map(({ t }) => t)).toEqual([...new Set(truth.t)]);
}

test('ticks come from the source of the symbol, and stay apart when they are published', async () => {
  const world = await collected();
  const service = await world.serve();
  const symbol = busySymbol(world);
  for (const [i, name] of names.entries()) {
    const before = requestsOf(world);
    await expectFresh(world, service, qualifySymbol(name, symbol));
    const requested = requestsOf(world).map((n, k) => n - before[k]!);
    expect(requested.map((n) => n > 0)).toEqual(names.map((_, k) => k === i));
  }
  expect((await publish.run(await world.context(), undefined)).exit_code).toBe(0);
  world.advance(minuteMs);
  for (const name of names) await expectFresh(world, service, qualifySymbol(name, symbol));
  const runs = service.archive.state.db.all("select source from runs where job = 'live' order by source");
  expect(runs).toEqual(names.map((source) => ({ source })));
});

test('a symbol without a source is requested of none of them', async () => {
  const world = await collected();
  const service = await world.serve();
  const before = requestsOf(world);
  for (const symbol of [busySymbol(world), `gamma:${busySymbol(world)}`]) {
    const { status, body } = await service.get(`ticks?symbol=${encodeURIComponent(symbol)}`);
    expect([status, body.code]).toEqual([404, 'unknown_symbol']);
  }
  expect(requestsOf(world)).toEqual(before);
});

test('markets are those of all sources, each as last polled, and as fresh as their upstreams', async () => {
  const world = await collected();
  const service = await world.serve('service.live.timeout_ms=60000');
  const listed = async (): Promise<[Map<string | null, number>, number | null]> => {
    const { body } = await service.get('markets');
    const ids = body.markets.map(({ canonical_id }) => findSource(String(canonical_id), names));
    return [new Map(names.map((name) => [name, ids.filter((id) => id === name).length])), body.data_time];
  };
  const [first, firstTime] = await listed();
  expect(Math.min(...first.values())).toBeGreaterThan(0);
  expect(firstTime).toBe(world.clock.nowMs());
  world.advance(10 * minuteMs);
  expect((await listed())[1]).toBe(world.clock.nowMs());
  // Published, they are the same.
  expect((await publish.run(await world.context(), undefined)).exit_code).toBe(0);
  expect(await listed()).toEqual([first, world.clock.nowMs()]);
});

test('a source that is down delays nothing of the other, and the data time is that of its last poll', async () => {
  const world = await collected();
  const service = await world.serve('service.live.timeout_ms=60000');
  const symbol = busySymbol(world);
  const polledAt = world.clock.nowMs();
  expect((await service.get('markets')).body.data_time).toBe(polledAt);
  await boxOf(world, 'beta').stop();
  world.advance(minuteMs);
  await expectFresh(world, service, qualifySymbol('alpha', symbol));
  const { status, body } = await service.get('markets');
  expect([status, body.data_time]).toEqual([200, polledAt]);
  expect(new Set(body.markets.map(({ canonical_id }) => findSource(String(canonical_id), names)))).toEqual(
    new Set(names),
  );
  const stale = await service.get(`ticks?symbol=${encodeURIComponent(qualifySymbol('beta', symbol))}`);
  expect([stale.status, stale.body.data_time, stale.body.count]).toEqual([200, null, 0]);
});

test('an order book is that of its source', async () => {
  const world = await collected();
  const service = await world.serve();
  const symbol = busySymbol(world);
  const books = await Promise.all(
    names.map((name) => service.get(`orderbook?symbol=${encodeURIComponent(qualifySymbol(name, symbol))}`)),
  );
  expect(books.map(({ status, body }) => [status, body.data_time])).toEqual(
    names.map(() => [200, world.clock.nowMs()]),
  );
  expect((await service.get(`orderbook?symbol=${symbol}`)).status).toBe(404);
});
