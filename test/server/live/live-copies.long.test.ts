import { expect, onTestFinished, test } from 'vitest';
import { job as markets } from '../../../jobs/markets.ts';
import { job as nightly } from '../../../jobs/nightly.ts';
import { job as orderbook } from '../../../jobs/orderbook.ts';
import { job as ticks } from '../../../jobs/ticks.ts';
import { readCollectedEnds } from '../../../src/archive/journal/collected-ends.ts';
import { readSymbolCoverage } from '../../../src/archive/journal/coverage-store.ts';
import { watchManifest } from '../../../src/archive/read/manifest-watcher.ts';
import { openOrderBookReader } from '../../../src/archive/read/read-order-book.ts';
import { openVerifiedFiles } from '../../../src/archive/read/verified-files.ts';
import { openConfiguredArchive } from '../../../src/context/open-configured.ts';
import type { SandboxOptions } from '../../../src/sandbox/sandbox-options.ts';
import { startMs, startWorld } from './live-world.ts';

// What others rely on: another archive that polls this service, and the collector of this archive.

const minuteMs = 60_000;

test('an archive that polls this service claims no more than its data, however late the responses are generated', async () => {
  const world = await startWorld({ ticksPerDay: 8000 });
  const polled = 'orderbooks.all_live=true';
  expect((await nightly.run(await world.context(polled), { day: null })).exit_code).toBe(0);
  const service = await world.serve('service.live.enabled=false');
  world.advance(40 * minuteMs);
  const copyOf = () => world.copyContext(service);
  expect((await markets.run(await copyOf(), undefined)).exit_code).toBe(0);
  const symbol = service.archive.state.db.one<{ symbol: string }>(
    'select symbol from journal_books union select symbol from symbols where listed = 1 and inactive_since is null',
  )!.symbol;
  expect((await service.get(`orderbook?symbol=${symbol}`)).body.data_time).toBe(startMs);
  expect((await service.get('markets')).body).toMatchObject({
    data_time: startMs,
    generated_at: startMs + 40 * minuteMs,
  });
  await ticks.run(await copyOf(), { symbols: [symbol] });
  await orderbook.run(await copyOf(), { symbols: [symbol] });
  const copy = openConfiguredArchive(await copyOf(), false);
  onTestFinished(copy.close);
  const { db } = copy.state;
  const coveredTo = readSymbolCoverage(db, symbol).at(-1)!.to;
  expect(coveredTo).toBe(startMs);
  const books = openOrderBookReader(copy, watchManifest(copy), openVerifiedFiles(copy, 1 << 20));
  expect((await books.readLatest(symbol))!.fetchedAt).toBe(startMs);
  expect(db.one("select max(at) as at from listings where view = '*'")).toEqual({ at: startMs });
});

test('the collector reads again what live reads covered before late ticks had arrived', async () => {
  const world = await startWorld({ ticksPerDay: 8000, lateShare: 0.2, lateDelayMsMax: 30 * minuteMs });
  expect((await nightly.run(await world.context(), { day: null })).exit_code).toBe(0);
  const service = await world.serve('service.ticks_limit_max=100000');
  const symbol = world.box
    .symbols()
    .map((name) => ({ name, n: world.box.readTruth(name, { from: startMs - 60 * minuteMs, to: startMs }).t.length }))
    .sort((a, b) => b.n - a.n)[0]!.name;
  const times = async (from: number, to: number): Promise<number[]> =>
    (await service.get(`ticks?symbol=${symbol}&from=${from}&to=${to}&limit=100000`)).body.ticks.map(
      ({ t }: { t: number }) => t,
    );
  // Four hours with a reader every five minutes: far more than the overlap of a poll, which is one hour.
  for (let i = 0; i < 48; i++) {
    world.advance(5 * minuteMs);
    await service.get(`ticks?symbol=${symbol}`);
  }
  const to = world.clock.nowMs() - 30 * minuteMs;
  const truth = [...new Set(world.box.readTruth(symbol, { from: startMs, to }).t)];
  expect((await times(startMs, to)).length).toBeLessThan(truth.length);
  expect((await ticks.run(await world.context(), { symbols: [symbol] })).exit_code).toBe(0);
  expect(await times(startMs, to)).toEqual(truth);
  // The next poll begins where this one ended, and not where the live reads began.
  world.advance(5 * minuteMs);
  await service.get(`ticks?symbol=${symbol}`);
  expect((await ticks.run(await world.context(), { symbols: [symbol] })).exit_code).toBe(0);
  expect(readCollectedEnds(service.archive.state.db).get(symbol)).toBe(world.clock.nowMs());
});

const oddities = {
  'pages of 25 ticks': { cap: 25 },
  'a clock that is a minute behind': { behindMs: minuteMs },
  'a clock that is a minute ahead': { behindMs: -minuteMs },
  'a replica that lags by forty seconds': { replicaLagsMs: [0, 40_000] },
  'faults in every third response': {
    faultShare: 0.33,
    faults: ['503', 'reset', 'half-body', 'bad-json', 'wrong-symbol', 'wrong-count'],
  },
} as const;

test.each(Object.keys(oddities) as (keyof typeof oddities)[])('covers only what it has, with %s', async (oddity) => {
  const { behindMs = 0, ...options }: Partial<SandboxOptions> & { behindMs?: number } = oddities[oddity];
  const world = await startWorld({ ticksPerDay: 20_000 });
  // Where nobody knows when a market opened, a poll collects little more than what the live reads have.
  const brief = ['source.first_lookback_days=0.05', 'source.field_paths.opens_at=none/such'];
  expect((await markets.run(await world.context(...brief), undefined)).exit_code).toBe(0);
  const service = await world.serve('service.live.timeout_ms=60000', 'service.ticks_limit_max=100000');
  const known = world.box.symbols().map((name) => {
    return { name, n: world.box.readTruth(name, { from: startMs - 60 * minuteMs, to: startMs }).t.length };
  });
  const symbols = known.sort((a, b) => b.n - a.n).slice(0, 3);
  const isLate = 'replicaLagsMs' in options;
  let fresh = 0;
  for (let i = 0; i < 20; i++) {
    world.advance(20_000);
    const now = world.clock.nowMs();
    world.box.set({ ...options, ...(behindMs !== 0 && { nowMs: now - behindMs }) });
    for (const { name } of symbols) {
      const from = startMs - 5 * minuteMs;
      const { status, body } = await service.get(`ticks?symbol=${name}&from=${from}&limit=100000`);
      expect(status).toBe(200);
      const gaps: { from: number; to: number }[] = body.gaps ?? [];
      const isCovered = (t: number): boolean => !gaps.some((gap) => gap.from <= t && t < gap.to);
      const truth = world.box.readTruth(name, { from, to: body.to }, now + 10 * minuteMs).t;
      const times = new Set(body.ticks.map(({ t }: { t: number }) => t));
      // For a client of a replica its ticks are late: only the next poll of the collector can find them.
      if (!isLate) expect([...truth].filter((t) => isCovered(t) && !times.has(t))).toEqual([]);
      expect([...times].filter((t) => !truth.includes(t as number))).toEqual([]);
      expect(body.data_time ?? 0).toBeLessThanOrEqual(now);
      if (body.data_time !== null && now - body.data_time <= Math.max(5000, behindMs)) fresh++;
    }
  }
  world.box.set({ replicaLagsMs: [0], faultShare: 0, nowMs: null });
  world.advance(2 * minuteMs);
  expect((await ticks.run(await world.context(...brief), { symbols: symbols.map(({ name }) => name) })).exit_code).toBe(
    0,
  );
  for (const { name } of symbols) {
    const window = { from: startMs - 5 * minuteMs, to: world.clock.nowMs() };
    const { body } = await service.get(`ticks?symbol=${name}&from=${window.from}&to=${window.to}&limit=100000`);
    const truth = world.box.readTruth(name, window).t;
    expect(body.ticks.map(({ t }: { t: number }) => t)).toEqual([...new Set(truth)]);
    expect(body.gaps).toBeUndefined();
  }
  // Most responses are as fresh as the upstream can be.
  expect(fresh).toBeGreaterThan(20);
});
