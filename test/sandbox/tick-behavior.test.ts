import { describe, expect, test } from 'vitest';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import type { ChangeableOptions } from '../../src/sandbox/sandbox-options.ts';
import { columns, dayMs, fetchPage, findBusiest, hourMs, noon, openSandbox, type Page } from './sandbox-requests.ts';

// Each paging behaviour over HTTP: the response for a window whose ticks are known.

interface Setup {
  readonly box: Sandbox;
  readonly symbol: string;
  readonly from: number;
  readonly to: number;
  /** Times of all ticks in the window. */
  readonly truth: number[];
  /** The page of this window, or of another. */
  get(window?: { readonly from: number; readonly to: number }): Promise<Page>;
}

async function setUp(options: ChangeableOptions & { readonly seed?: number }): Promise<Setup> {
  const box = await openSandbox(options);
  const { symbol, from, to } = findBusiest(box);
  const truth = [...box.readTruth(symbol, { from, to }).t];
  return { box, symbol, from, to, truth, get: (window) => fetchPage(box, { symbol, from, to, ...window }) };
}

const timesOf = ({ ticks }: Pick<Page, 'ticks'>): number[] => ticks.map(({ t }) => t);

describe('the page cap', () => {
  test('varies by the configured share, determined by the seed', async () => {
    const counts = async (seed: number): Promise<number[]> => {
      const { get } = await setUp({ cap: 200, capVariation: 0.1, seed });
      return Promise.all(Array.from({ length: 12 }, get.bind(null, undefined))).then((pages) =>
        pages.map(({ count }) => count).sort((a, b) => a - b),
      );
    };
    const first = await counts(1);
    expect(new Set(first).size).toBeGreaterThan(4);
    expect(first[0]).toBeGreaterThanOrEqual(180);
    expect(first.at(-1)).toBeLessThanOrEqual(200);
    expect(await counts(1)).toEqual(first);
    expect(await counts(2)).not.toEqual(first);
  });

  test('counts text if its unit is bytes', async () => {
    const { get } = await setUp({ cap: 100, capUnit: 'bytes' });
    const { ticks, count } = await get();
    const bytes = ticks.reduce((sum, tick) => sum + JSON.stringify(tick).length, 0);
    expect(count).not.toBe(100);
    expect(bytes).toBeLessThanOrEqual(3200);
    expect(bytes).toBeGreaterThan(3200 - 40);
  });

  test('differs between symbols', async () => {
    const { box, from, to } = await setUp({ cap: 60, capBySymbol: true });
    const busy = box.symbols().filter((symbol) => box.readTruth(symbol, { from, to }).t.length > 60);
    const counts = await Promise.all(busy.map(async (symbol) => (await fetchPage(box, { symbol, from, to })).count));
    expect([...new Set(counts)].sort((a, b) => b - a)).toEqual([60, 30, 20, 15]);
    expect(await Promise.all(busy.map(async (symbol) => (await fetchPage(box, { symbol, from, to })).count))).toEqual(
      counts,
    );
  });

  test('falls after a number of requests of a symbol', async () => {
    const { get } = await setUp({ cap: 100, capDropsAfter: 2 });
    const counts = [await get(), await get(), await get()].map(({ count }) => count);
    expect(counts).toEqual([100, 100, 60]);
  });

  test('alternates its truncation side', async () => {
    const { get, truth } = await setUp({ cap: 50, truncate: 'alternating' });
    expect(timesOf(await get())).toEqual(truth.slice(-50));
    expect(timesOf(await get())).toEqual(truth.slice(0, 50));
  });

  test('applies only to old ticks if live ones are added on top', async () => {
    const { get, truth } = await setUp({ cap: 50, uncappedAgeMs: 2 * hourMs });
    const live = truth.filter((t) => t >= noon - 2 * hourMs);
    expect(live.length).toBeGreaterThan(0);
    expect(timesOf(await get())).toEqual([...truth.slice(0, 50), ...live]);
  });

  test('samples a window with more ticks evenly, and returns a smaller one in full', async () => {
    const { get, truth, from } = await setUp({ sample: 40 });
    const sampled = timesOf(await get());
    const step = truth.length / 40;
    expect(sampled).toEqual(Array.from({ length: 40 }, (_, i) => truth[Math.floor(i * step)]));
    const few = { from, to: truth[30]! };
    expect(timesOf(await get(few))).toEqual(truth.slice(0, 30));
  });
});

describe('the window', () => {
  test.each([
    ['window', 20, 40],
    ['end', 0, 40],
    ['nothing', 0, Number.POSITIVE_INFINITY],
  ] as const)('respects %s', async (honors, first, end) => {
    const { box, symbol, get, truth } = await setUp({ honors, cap: 1_000_000, defaultLimit: 1_000_000 });
    const all = [...box.readTruth(symbol, { from: 0, to: noon }).t];
    const offset = all.indexOf(truth[0]!);
    const returned = timesOf(await get({ from: truth[20]!, to: truth[40]! }));
    expect(returned).toEqual(all.slice(first === 0 ? 0 : offset + first, offset + end));
  });

  test('is widened to whole hours', async () => {
    const { get, truth } = await setUp({ honors: 'hours' });
    const from = truth[20]!;
    const [low, high] = [from - (from % hourMs), from - (from % hourMs) + hourMs];
    expect(timesOf(await get({ from, to: from + 1 }))).toEqual(truth.filter((t) => low <= t && t < high));
  });

  test('brings the last tick before it, always or in a share of the responses', async () => {
    const { box, get, truth } = await setUp({ carryInShare: 1 });
    const window = { from: truth[20]! + 1, to: truth[30]! };
    expect(timesOf(await get(window))).toEqual(truth.slice(20, 30));
    box.set({ carryInShare: 0.5 });
    const counts = [];
    for (let i = 0; i < 20; i++) counts.push((await get(window)).count);
    expect(new Set(counts)).toEqual(new Set([9, 10]));
  });
});

describe('the stated ends', () => {
  const later = noon + dayMs;
  test.each([
    ['clamped', ({ from }: Setup) => [from, noon]],
    ['echo', ({ from }: Setup) => [from, later]],
    ['tightened', ({ from, truth }: Setup) => [from, truth[49]! + 1]],
    ['cut', ({ truth }: Setup) => [truth[0], truth[49]]],
    ['cut-from', ({ truth }: Setup) => [truth[0], later]],
    ['cut-to', ({ from, truth }: Setup) => [from, truth[49]]],
    ['span', ({ truth }: Setup) => [truth[0], truth[49]]],
    ['none', () => [undefined, undefined]],
  ] as const)('of a truncated page: %s', async (echoWindow, ends) => {
    const box = await setUp({ cap: 50, echoWindow });
    const { from, to } = await box.get({ from: box.from, to: later });
    expect([from, to]).toEqual(ends(box));
  });

  test('tightened at the start, on a page that keeps the latest and excludes from', async () => {
    const { get, truth } = await setUp({ cap: 50, truncate: 'latest', echoWindow: 'tightened', fromInclusive: false });
    expect((await get()).from).toBe(truth.at(-50)! - 1);
    expect(timesOf(await get({ from: truth.at(-50)! - 1, to: noon }))).toEqual(truth.slice(-50));
  });

  test.each([
    ['cut', ({ from, to }: Setup) => [from, to]],
    ['span', ({ truth }: Setup) => [truth[0], truth.at(-1)]],
  ] as const)('of a full page: %s', async (echoWindow, ends) => {
    const box = await setUp({ echoWindow });
    const { from, to } = await box.get();
    expect([from, to]).toEqual(ends(box));
  });
});

describe('the elements', () => {
  test('include unusable ones, the same in every response', async () => {
    const { box, get, truth } = await setUp({ unusableShare: 0.1 });
    const isText = ({ p }: { p: unknown }): boolean => p === '?';
    for (const layout of ['spaced', 'compact'] as const) {
      box.set({ layout });
      expect((await get()).ticks.filter(isText).length).toBeGreaterThan(truth.length / 20);
    }
    const { ticks, count } = await get();
    expect(timesOf({ ticks })).toEqual(truth);
    expect(count).toBe(truth.length);
    const unusable = ticks.filter(isText);
    expect(unusable.length / count).toBeGreaterThan(0.05);
    expect(unusable.length / count).toBeLessThan(0.2);
    expect((await get()).ticks.filter(isText)).toEqual(unusable);
    expect(box.stats().tickRows).toBe(4 * (count - unusable.length));
  });

  test('include invalid ones, which count toward the cap', async () => {
    const { get, truth } = await setUp({ cap: 100, invalidShare: 0.25 });
    const { ticks, count } = await get();
    expect([ticks.length, count]).toEqual([100, 100]);
    const invalid = ticks.filter((tick) => !('t' in tick));
    expect(invalid[0]).toEqual({ type: 'heartbeat' });
    expect(invalid.length).toBeGreaterThan(8);
    expect(invalid.length).toBeLessThan(35);
    expect(timesOf({ ticks: ticks.filter((tick) => 't' in tick) })).toEqual(truth.slice(0, 100 - invalid.length));
  });

  test('include bursts within a millisecond, with the original tick at the highest price', async () => {
    const { box, symbol, from, to, get, truth } = await setUp({ burstTicks: 7, cap: 20_000, defaultLimit: 20_000 });
    const { ticks } = await get();
    const byTime = Map.groupBy(ticks, ({ t }) => t);
    expect([...byTime.keys()]).toEqual(truth);
    const sizes = [...byTime.values()].map((group) => group.length);
    expect(new Set(sizes)).toEqual(new Set([1, 7]));
    expect(columns([...byTime.values()].map((group) => group.at(-1)!))).toEqual(box.readTruth(symbol, { from, to }));
    const burst = [...byTime.values()].find((group) => group.length === 7)!;
    expect(new Set(burst.map(({ p }) => p)).size).toBe(7);
    expect(Math.max(...burst.map(({ p }) => p))).toBe(burst.at(-1)!.p);
  });
});

describe('generated_at', () => {
  test('has a lag or a resolution, or is not stated', async () => {
    const { box, get } = await setUp({ generatedAtLagMs: 700 });
    expect((await get()).generated_at).toBe(noon - 700);
    box.set({ generatedAtLagMs: 0, generatedAtResolutionMs: hourMs, nowMs: noon + 17 });
    expect((await get()).generated_at).toBe(noon);
    box.set({ generatedAtLagMs: null });
    expect(await get()).not.toHaveProperty('generated_at');
  });

  test('is that of one replica or another, one of which lags', async () => {
    const { get, truth } = await setUp({ replicaLagsMs: [0, 6 * hourMs] });
    const behind = truth.filter((t) => t < noon - 6 * hourMs);
    const counts = new Set<number>();
    for (let i = 0; i < 12; i++) counts.add((await get()).count);
    expect(counts).toEqual(new Set([truth.length, behind.length]));
  });
});

test('states windows without ticks within the requested window', async () => {
  const [first, second] = [
    { from: noon - 6 * hourMs, to: noon - 5 * hourMs },
    { from: noon - 3 * dayMs, to: noon - 22 * hourMs },
  ];
  const { box, get, truth, from } = await setUp({ gaps: [first, second] });
  const response = await get();
  expect(response).toMatchObject({ gaps: [{ from, to: second.to }, first] });
  expect(timesOf(response)).toEqual(truth.filter((t) => t >= second.to && !(first.from <= t && t < first.to)));
  box.set({ cap: 50, carryInShare: 1 });
  const after = { from: first.from + hourMs / 2, to: noon };
  const outside = truth.filter((t) => t < first.from || t >= first.to);
  const next = outside.findIndex((t) => t >= first.to);
  expect(timesOf(await get(after))).toEqual(outside.slice(next - 1, next + 49));
  box.set({ gaps: [] });
  expect(await get()).not.toHaveProperty('gaps');
});
