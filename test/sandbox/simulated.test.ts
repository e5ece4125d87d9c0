import { expect, test } from 'vitest';
import type { TickColumns } from '../../src/base/ticks.ts';
import { checkSandboxOptions } from '../../src/sandbox/sandbox-options.ts';
import { createSimulatedFeed } from '../../src/sandbox/simulated-feed.ts';
import { columns, dayMs, fetchPage, findBusiest, hourMs, noon, openSandbox } from './sandbox-requests.ts';

const feedOf = (seed: number, ticksPerDay = 400) => createSimulatedFeed(checkSandboxOptions({ seed, ticksPerDay }));
const lastDay = { from: noon - dayMs, to: noon };

test('returns the same ticks for any split of a window and for any sandbox of the seed', async () => {
  const one = await openSandbox({ seed: 7, ticksPerDay: 400 });
  const other = await openSandbox({ seed: 7, ticksPerDay: 400 });
  const { symbol, from, to, rows } = findBusiest(one);
  expect(rows).toBeGreaterThan(400);
  const whole = await fetchPage(one, { symbol, from, to });
  expect(await fetchPage(one, { symbol, from, to })).toEqual(whole);
  const middle = from + 7 * hourMs + 123_457;
  const late = await fetchPage(other, { symbol, from: middle, to });
  const early = await fetchPage(other, { symbol, from, to: middle });
  expect([...early.ticks, ...late.ticks]).toEqual(whole.ticks);
  expect(columns(whole.ticks)).toEqual(one.readTruth(symbol, { from, to }));
});

test('returns other markets and ticks for another seed', () => {
  expect(feedOf(1).symbols(noon)).not.toEqual(feedOf(2).symbols(noon));
});

test('keeps times whole, ascending and inside the window, and prices on the grid inside (0, 1) while open', () => {
  const feed = feedOf(3);
  const open = feed.markets(noon).filter((market) => market.is_active);
  expect(open.length).toBeGreaterThan(25);
  const grids = new Set<number>();
  for (const market of open) {
    for (const symbol of market.venues?.map(({ ticker }) => ticker) ?? [market.symbol!]) {
      const { t, p } = feed.ticks(symbol, lastDay);
      expect(t.every((at, i) => Number.isInteger(at) && at >= lastDay.from && at < noon && !(at <= t[i - 1]!))).toBe(
        true,
      );
      expect(p.every((price) => price > 0 && price < 1)).toBe(true);
      const parts = [100, 1000].find((grid) => p.every((price) => Math.round(price * grid) / grid === price));
      grids.add(parts ?? 0);
    }
  }
  expect([...grids].sort()).toEqual([100, 1000]);
});

test('moves like a probability: small steps, and change within a day', () => {
  const feed = feedOf(4);
  const steps: number[] = [];
  const spans: number[] = [];
  for (const symbol of feed.symbols(noon)) {
    const { p } = feed.ticks(symbol, lastDay);
    for (let i = 1; i < p.length; i++) steps.push(Math.abs(p[i]! - p[i - 1]!));
    if (p.length > 100) spans.push(Math.max(...p) - Math.min(...p));
  }
  steps.sort((a, b) => a - b);
  expect(steps[Math.floor(steps.length / 2)]).toBeLessThanOrEqual(0.01);
  expect(Math.max(...spans)).toBeGreaterThan(0.1);
});

test('has busy and quiet symbols, bursts and quiet hours, and about the configured mean', () => {
  const feed = feedOf(5, 2_000);
  const active = feed.markets(noon).filter(({ is_active, opens_at }) => is_active && opens_at! < lastDay.from);
  const daily = active
    .flatMap((market) => market.venues?.map(({ ticker }) => ticker) ?? [market.symbol!])
    .map((symbol) => ({ symbol, rows: feed.ticks(symbol, lastDay).t.length }))
    .sort((a, b) => b.rows - a.rows);
  expect(daily[0]!.rows).toBeGreaterThan(10 * daily.at(-1)!.rows);
  const mean = daily.reduce((sum, { rows }) => sum + rows, 0) / daily.length;
  expect(mean).toBeGreaterThan(1_000);
  expect(mean).toBeLessThan(4_000);
  const hourly = Array.from({ length: 24 }, (_, i) => {
    const from = lastDay.from + i * hourMs;
    return feed.ticks(daily[0]!.symbol, { from, to: from + hourMs }).t.length;
  });
  expect(Math.max(...hourly)).toBeGreaterThan(10 * Math.max(1, Math.min(...hourly)));
});

test('moves two venues of a market together with different ticks', () => {
  const feed = feedOf(6, 2_000);
  const pair = feed
    .markets(noon)
    .find(({ is_active, venues, opens_at }) => is_active && venues && opens_at! < lastDay.from)!;
  const [one, other] = pair.venues!.map(({ ticker }) => feed.ticks(ticker, lastDay)) as [TickColumns, TickColumns];
  expect(one.t.some((at) => other.t.includes(at) === false)).toBe(true);
  const apart = one.p.map((price, i) => Math.abs(price - other.p[other.t.findLastIndex((at) => at <= one.t[i]!)]!));
  expect(apart.filter((distance) => distance > 0.1).length).toBeLessThan(one.p.length / 20);
});

test('ends every market with its last ticks at exactly the outcome', () => {
  const feed = feedOf(8);
  const resolved = feed
    .markets(noon)
    .filter(({ resolved_at }) => resolved_at !== undefined && resolved_at < noon - 60_000);
  expect(resolved.length).toBeGreaterThan(3);
  for (const market of resolved) {
    for (const symbol of market.venues?.map(({ ticker }) => ticker) ?? [market.symbol!]) {
      const { t, p } = feed.ticks(symbol, { from: market.opens_at!, to: noon });
      expect(t[t.indexOf(market.resolved_at!)]).toBe(market.resolved_at);
      expect(p.at(-1)).toBe(market.outcome);
      expect(t.at(-1)).toBeGreaterThanOrEqual(market.resolved_at!);
      expect(feed.getLifetime(symbol, noon)!.from).toBeLessThanOrEqual(t[0]!);
    }
  }
  expect(new Set(resolved.map(({ outcome }) => outcome))).toEqual(new Set([0, 1]));
});
