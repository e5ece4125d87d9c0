import { expect, onTestFinished, test } from 'vitest';
import { job as markets } from '../../../jobs/markets.ts';
import { job as nightly } from '../../../jobs/nightly.ts';
import { job as publish } from '../../../jobs/publish.ts';
import { job as verify } from '../../../jobs/verify.ts';
import { readSymbolCoverage } from '../../../src/archive/journal/coverage-store.ts';
import { openConfiguredArchive } from '../../../src/context/open-configured.ts';
import { startMs, startWorld } from './live-world.ts';

const hourMs = 3_600_000;
const minuteMs = 60_000;

/** Readers at a time, each of which keeps what it has seen. */
const readersMax = 1000;

interface Page {
  readonly ticks: readonly { readonly t: number; readonly p: number }[];
  readonly from: number;
  readonly to: number;
  readonly data_time: number | null;
  readonly gaps?: readonly { readonly from: number; readonly to: number }[];
}

test('a thousand readers through a midnight, publishes and an outage: no tick vanishes, none comes twice', async () => {
  // The upstream leaves ticks out until they are up to 20 s late.
  const world = await startWorld({ ticksPerDay: 20_000, lateShare: 0.1, lateDelayMsMax: 20_000 });
  expect((await markets.run(await world.context(), undefined)).exit_code).toBe(0);
  const service = await world.serve('service.live.timeout_ms=60000', 'service.ticks_limit_max=100000');
  const from = startMs;
  // To shortly before midnight; the rounds pass it.
  world.advance(12 * hourMs - 2 * minuteMs);
  const symbols = world.box
    .symbols()
    .map((symbol) => ({ symbol, n: world.box.readTruth(symbol, { from, to: world.clock.nowMs() }).t.length }))
    .sort((a, b) => b.n - a.n)
    .slice(0, 4)
    .map(({ symbol }) => symbol);
  const window = { from: world.clock.nowMs() - 10 * minuteMs };
  /** The ticks that any reader has seen, by symbol. */
  const seen = new Map(symbols.map((symbol) => [symbol, new Map<number, number>()]));
  const covered = new Map<string, number>();
  const rounds = 24;
  let outages = 0;
  for (let round = 0; round < rounds; round++) {
    world.advance(10_000);
    const isOutage = round % 6 === 4;
    world.box.set({ faultShare: isOutage ? 1 : 0, faults: ['503', 'reset', 'bad-json', 'half-body'] });
    // A publish, and a whole night, take what was journaled while it is read.
    const other =
      round % 5 === 3
        ? publish.run(await world.context(), undefined)
        : round === 17
          ? nightly.run(await world.context(), { day: null })
          : null;
    const count = round % 8 === 0 ? readersMax : 40;
    const pages = await Promise.all(
      Array.from({ length: count }, async (_, i) => {
        const symbol = symbols[i % symbols.length]!;
        const { status, body } = await service.get(`ticks?symbol=${symbol}&from=${window.from}&limit=100000`);
        expect(status, JSON.stringify(body)).toBe(200);
        return { symbol, page: body as Page };
      }),
    );
    if (other !== null) expect([0, 4]).toContain((await other).exit_code);
    if (isOutage) outages++;
    for (const { page } of pages) {
      const times = page.ticks.map(({ t }) => t);
      // Ascending, and none twice.
      expect(times.every((t, k) => k === 0 || times[k - 1]! < t)).toBe(true);
      expect(page.data_time ?? 0).toBeLessThanOrEqual(world.clock.nowMs());
    }
    for (const symbol of symbols) {
      const known = seen.get(symbol)!;
      const own = pages.filter((one) => one.symbol === symbol).map(({ page }) => page);
      for (const page of own) {
        const ticks = new Map(page.ticks.map(({ t, p }) => [t, p]));
        // What was seen in an earlier round is there, with the same price.
        for (const [t, p] of known) expect(ticks.get(t)).toBe(p);
        // Coverage never shrinks.
        expect(page.data_time ?? 0).toBeGreaterThanOrEqual(covered.get(symbol) ?? 0);
        if (!isOutage && other === null) expect(page.data_time).toBe(world.clock.nowMs());
      }
      for (const page of own) for (const { t, p } of page.ticks) known.set(t, p);
      covered.set(symbol, Math.min(...own.map(({ data_time }) => data_time ?? 0)));
    }
  }
  expect(outages).toBe(4);
  expect(world.clock.nowMs()).toBeGreaterThan(Date.UTC(2026, 5, 5));
  await service.stop();

  // Late ticks have arrived at the upstream. The collector reads again what the live reads covered too early.
  world.box.set({ faultShare: 0 });
  world.advance(2 * hourMs);
  expect((await nightly.run(await world.context(), { day: null })).exit_code).toBe(0);
  const archive = openConfiguredArchive(await world.context(), false);
  onTestFinished(archive.close);
  const later = await world.serve('service.ticks_limit_max=100000');
  for (const symbol of symbols) {
    const to = window.from + rounds * 10_000;
    const { body } = await later.get(`ticks?symbol=${symbol}&from=${window.from}&to=${to}&limit=100000`);
    const truth = world.box.readTruth(symbol, { from: window.from, to });
    expect(body.ticks.map(({ t }: { t: number }) => t)).toEqual([...new Set(truth.t)]);
    expect(body.gaps).toBeUndefined();
    expect(readSymbolCoverage(archive.state.db, symbol).at(-1)!.to).toBeGreaterThanOrEqual(to);
  }
  const verified = await verify.run(await world.context(), { onVerified: () => {} });
  expect([verified.exit_code, verified.failures]).toEqual([0, []]);
});
