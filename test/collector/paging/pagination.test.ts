import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { intersect, subtract, union, type Window } from '../../../src/base/window.ts';
import { crowdedReason } from '../../../src/collector/paging/fetch-steps.ts';
import { type Hand, honestService, plainWays, type Row, type Ways } from './honest-service.ts';
import { forgotten, keyOf, type Run, run } from './run.ts';

const start = Date.UTC(2026, 6, 1);
const window: Window = { from: start, to: start + 40_000 };

/** Rows on a coarse or a ms grid over a window and a little around it, some of them at its very edges. */
function rowsOn(stepMs: number, countMax: number, late: boolean): fc.Arbitrary<Row[]> {
  const slots = Math.floor(44_000 / stepMs);
  const row = fc.record({
    slot: fc.oneof(fc.integer({ min: 0, max: slots }), fc.integer({ min: 0, max: Math.min(12, slots) })),
    times: fc.oneof({ weight: 5, arbitrary: fc.constant(1) }, fc.integer({ min: 1, max: 3 })),
    prices: fc.boolean(),
    lateMs: late ? fc.constantFrom(0, 0, 0, 0, 5, 40, 200) : fc.constant(0),
  });
  return fc.array(row, { maxLength: countMax, size: 'max' }).map((list) => {
    const rows: Row[] = [];
    for (const { slot, times, prices, lateMs } of new Map(list.map((r) => [r.slot, r])).values()) {
      const t = start - 2000 + slot * stepMs;
      for (let i = 0; i < times; i++) {
        const p = Math.round(((slot * 37) % 100) + (prices ? i : 0)) / 128;
        rows.push({ t, p, seenFrom: lateMs === 0 ? 0 : start + 100_000 + lateMs, usable: true });
      }
    }
    return rows.sort((a, b) => a.t - b.t);
  });
}

const truthOf = (late: boolean): fc.Arbitrary<Map<string, Row[]>> =>
  fc
    .array(fc.oneof(rowsOn(1000, 40, late), rowsOn(1000, 4, late), rowsOn(1, 60, late), rowsOn(100, 400, late)), {
      minLength: 1,
      maxLength: 5,
    })
    .map((lists) => new Map(lists.map((rows, i) => [`S${i}`, rows])));

/** No service caps a page at fewer ticks than eight. */
const caps = fc.oneof(fc.integer({ min: 8, max: 30 }), fc.integer({ min: 30, max: 500 }));

const sane: fc.Arbitrary<Ways> = fc.record({
  cap: caps,
  side: fc.constantFrom('earliest', 'latest'),
  order: fc.constantFrom('ascending', 'newest first', 'shuffled'),
  fromInclusive: fc.boolean(),
  toInclusive: fc.boolean(),
  echo: fc.constantFrom('asked', 'tightened', 'span', 'none'),
  behindMs: fc.constantFrom(0, 0, 5000, null),
  keptFrom: fc.constant(null),
  longest: fc.constant(null),
  gaps: fc.constant([]),
  latencyMs: fc.constantFrom(0, 3, 25),
  heeds: fc.constant('window'),
});

const plans: fc.Arbitrary<Window[]> = fc.oneof(
  { weight: 3, arbitrary: fc.constant<Window[]>([window]) },
  fc.uniqueArray(fc.integer({ min: start, max: window.to }), { minLength: 2, maxLength: 6 }).map((cuts) => {
    const sorted = cuts.sort((a, b) => a - b);
    return sorted
      .slice(1)
      .map((to, i) => ({ from: sorted[i]!, to }))
      .filter((_, i) => i % 2 === 0);
  }),
);

interface Story {
  readonly truth: Map<string, Row[]>;
  readonly ways: Ways;
  readonly windows: Window[];
  readonly limit: number;
  readonly workers: number;
}

const story = (ways: fc.Arbitrary<Ways>, late = false): fc.Arbitrary<Story> =>
  fc.record({
    truth: truthOf(late),
    ways,
    windows: plans,
    limit: fc.constantFrom(5000, 5000, 9),
    workers: fc.constantFrom(1, 3),
  });

/** Every answer comes well after the window; unless the service lags, all of it can be covered. */
const afterwards = start + 100_000;

async function tell(
  it: Story,
  nowMs = afterwards,
  everyPrice = true,
): Promise<{ run: Run; requests: number; firstAnswerMs: number }> {
  const hand: Hand = { nowMs };
  const service = honestService(it.truth, it.ways, hand);
  const done = await run({
    upstream: service,
    hand,
    truth: it.truth,
    plans: new Map([...it.truth.keys()].map((symbol) => [symbol, it.windows])),
    pageLimit: it.limit,
    workers: it.workers,
    everyPrice,
  });
  return { run: done, requests: service.requests(), firstAnswerMs: service.firstAnswerMs() };
}

/** More than this many requests is going round in circles: each brings a moment, or settles one of the edges. */
function boundOf(it: Story): number {
  const rows = [...it.truth.values()].reduce((sum, list) => sum + list.length, 0);
  return 10 + 4 * rows + 12 * it.truth.size * it.windows.length;
}

const holds = async (arbitrary: fc.Arbitrary<Story>, numRuns: number, check: (it: Story) => Promise<void>) => {
  await fc.assert(fc.asyncProperty(arbitrary, check), { numRuns });
};

describe('paging', () => {
  test('covers all of every window, with every tick, however a sane service pages', async () => {
    await holds(story(sane), 500, async (it) => {
      const { run, requests } = await tell(it);
      expect(run.lies).toEqual([]);
      for (const symbol of it.truth.keys()) {
        expect(subtract(it.windows, run.covered.get(symbol) ?? [])).toEqual([]);
        expect(run.lost.get(symbol) ?? []).toEqual([]);
      }
      expect(requests).toBeLessThanOrEqual(boundOf(it));
    });
  });

  test('never claims a window without a tick that was visible, though ticks come late', async () => {
    await holds(story(sane, true), 300, async (it) => {
      const { run, requests } = await tell(it);
      expect(run.lies).toEqual([]);
      for (const symbol of it.truth.keys()) expect(subtract(it.windows, run.covered.get(symbol) ?? [])).toEqual([]);
      expect(requests).toBeLessThanOrEqual(boundOf(it));
    });
  });

  test('covers a window that is still going on up to the first answer, and claims nothing after an answer', async () => {
    await holds(story(sane), 200, async (it) => {
      const { run, firstAnswerMs } = await tell(it, start + 20_000);
      expect(run.lies).toEqual([]);
      // Where the service does not say when it answered, all we know is when we asked.
      const until = it.ways.behindMs === null ? start + 20_000 : firstAnswerMs;
      for (const symbol of it.truth.keys()) expect(forgotten(run, symbol, it.windows, until)).toEqual([]);
    });
  });

  test('says what a service no longer has is lost, and covers the rest', async () => {
    const forgetful = fc
      .tuple(sane, fc.integer({ min: start - 10, max: window.to + 10 }))
      .map(([ways, keptFrom]): Ways => ({ ...ways, keptFrom, echo: ways.echo === 'none' ? 'asked' : ways.echo }));
    await holds(story(forgetful), 300, async (it) => {
      const { run, requests } = await tell(it);
      expect(run.lies).toEqual([]);
      // A start that is stated may be meant to be excluded: its one moment may be given up.
      const had = { from: it.ways.keptFrom! + 1, to: window.to };
      for (const symbol of it.truth.keys()) {
        const covered = run.covered.get(symbol) ?? [];
        expect(subtract(intersect(it.windows, [had]), covered)).toEqual([]);
        if (it.ways.echo === 'asked') expect(intersect(covered, [{ from: 0, to: it.ways.keptFrom! }])).toEqual([]);
        expect(forgotten(run, symbol, it.windows, window.to)).toEqual([]);
      }
      expect(requests).toBeLessThanOrEqual(boundOf(it));
    });
  });

  test('never claims a gap that the service names, and reports it', async () => {
    const gap = fc
      .tuple(fc.integer({ min: -50, max: 40_000 }), fc.integer({ min: 1, max: 20_000 }))
      .map(([at, length]): Window => ({ from: start + at, to: start + at + length }));
    const holey = fc
      .tuple(sane, fc.array(gap, { minLength: 1, maxLength: 3 }))
      .map(([ways, gaps]): Ways => ({ ...ways, gaps }));
    await holds(story(holey), 300, async (it) => {
      const { run } = await tell(it);
      expect(run.lies).toEqual([]);
      for (const symbol of it.truth.keys()) {
        expect(intersect(run.covered.get(symbol) ?? [], it.ways.gaps)).toEqual([]);
        expect(forgotten(run, symbol, it.windows, window.to)).toEqual([]);
        expect(union(run.lost.get(symbol) ?? [])).toEqual(intersect(it.windows, it.ways.gaps));
      }
    });
  });

  test('goes on where a service answers for so much time at once, from either end', async () => {
    const short = fc
      .tuple(
        sane,
        fc.constantFrom('first' as const, 'last' as const),
        fc.oneof(fc.integer({ min: 4000, max: 30_000 }), fc.constantFrom(4000, 4001, 10_000, 10_001)),
      )
      .map(([ways, end, ms]): Ways => ({ ...ways, echo: 'asked', longest: { ms, end } }));
    await holds(story(short), 200, async (it) => {
      const { run } = await tell(it);
      expect(run.lies).toEqual([]);
      for (const symbol of it.truth.keys()) expect(forgotten(run, symbol, it.windows, window.to)).toEqual([]);
      for (const symbol of it.truth.keys()) expect(run.lost.get(symbol) ?? []).toEqual([]);
    });
  });

  test('claims nothing falsely of a service that answers with what it likes, and says the rest is lost', async () => {
    const deaf = fc
      .tuple(
        sane,
        fc.constantFrom('nothing' as const, 'end' as const),
        fc.constantFrom('asked' as const, 'none' as const),
      )
      .map(([ways, heeds, echo]): Ways => ({ ...ways, heeds, echo }));
    // Whichever side an answer keeps, it brings a tick that nobody asked for.
    const framed = story(deaf).map((it): Story => {
      const [before, after] = [start - 3000, start + 50_000].map((t): Row => ({ t, p: 0, seenFrom: 0, usable: true }));
      return { ...it, truth: new Map([...it.truth].map(([symbol, rows]) => [symbol, [before!, ...rows, after!]])) };
    });
    // Of the last moment of a run another price may be missing; one that ends a minute before now is taken to go on.
    await holds(framed, 500, async (it) => {
      const { run, requests } = await tell(it, start + 200_000, false);
      expect(run.lies).toEqual([]);
      for (const symbol of it.truth.keys()) expect(forgotten(run, symbol, it.windows, window.to)).toEqual([]);
      expect(requests).toBeLessThanOrEqual(boundOf(it));
    });
  });

  test('pages on over unusable ticks, and forgets no window for them', async () => {
    const mixed = story(sane).map((it): Story => {
      const truth = new Map(
        [...it.truth].map(([symbol, rows]) => [symbol, rows.map((row, i) => ({ ...row, usable: i % 5 !== 2 }))]),
      );
      return { ...it, truth };
    });
    await holds(mixed, 300, async (it) => {
      const { run, requests } = await tell(it);
      expect(run.lies).toEqual([]);
      for (const symbol of it.truth.keys()) expect(forgotten(run, symbol, it.windows, window.to)).toEqual([]);
      expect(requests).toBeLessThanOrEqual(boundOf(it));
    });
  });

  const crowd = (count: number): Story => ({
    truth: new Map([
      [
        'S',
        [0, ...Array.from({ length: count }, () => 1), 2, 3].map(
          (at, i): Row => ({ t: start + at * 1000, p: i / 8, seenFrom: 0, usable: true }),
        ),
      ],
    ]),
    ways: { ...plainWays, cap: 8 },
    windows: [window],
    limit: 5000,
    workers: 1,
  });
  const sides = ['earliest', 'latest'] as const;

  test('keeps each price of a moment that fills a page but for one tick', async () => {
    for (const side of sides) {
      const it = crowd(7);
      const { run } = await tell({ ...it, ways: { ...it.ways, side } });
      expect(run.keptOf('S')).toEqual(new Set(it.truth.get('S')!.map(keyOf)));
      expect(run.lies).toEqual([]);
    }
  });

  test('leaves a moment with more ticks than a page holds as a gap, and goes on behind it', async () => {
    for (const side of sides) {
      const it = crowd(9);
      const { run } = await tell({ ...it, ways: { ...it.ways, side } });
      const moment = { from: start + 1000, to: start + 1001 };
      expect(run.lies).toEqual([]);
      expect(run.reasons.get('S')).toEqual([crowdedReason]);
      expect(run.lost.get('S')).toEqual([moment]);
      expect(subtract([window], run.covered.get('S')!)).toEqual([moment]);
      for (const at of [0, 2, 3]) expect([...run.keptOf('S')].join()).toContain(`${start + at * 1000} `);
    }
  });
});
