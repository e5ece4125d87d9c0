import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { intersect, subtract, union, type Window } from '../../../src/base/window.ts';
import { crowdedReason } from '../../../src/collector/paging/fetch-steps.ts';
import { checkAsyncProperty } from '../../harness/properties.ts';
import { honestService, type ManualTime, type PagingTraits, plainTraits, type Row } from './honest-service.ts';
import { findUnaccounted, type Run, run, toKey } from './run.ts';

const start = Date.UTC(2026, 6, 1);
const window: Window = { from: start, to: start + 40_000 };

/** Rows on a coarse or a millisecond grid, in and around a window, some of them at its edges. */
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

/** No server has a page cap below eight. */
const caps = fc.oneof(fc.integer({ min: 8, max: 30 }), fc.integer({ min: 30, max: 500 }));

const sane: fc.Arbitrary<PagingTraits> = fc.record({
  cap: caps,
  side: fc.constantFrom('earliest', 'latest'),
  order: fc.constantFrom('ascending', 'newest first', 'shuffled'),
  fromInclusive: fc.boolean(),
  toInclusive: fc.boolean(),
  echo: fc.constantFrom('requested', 'tightened', 'span', 'none'),
  behindMs: fc.constantFrom(0, 0, 5000, null),
  keptFrom: fc.constant(null),
  longest: fc.constant(null),
  gaps: fc.constant([]),
  latencyMs: fc.constantFrom(0, 3, 25),
  respects: fc.constant('window'),
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

interface Scenario {
  readonly truth: Map<string, Row[]>;
  readonly ways: PagingTraits;
  readonly windows: Window[];
  readonly limit: number;
  readonly workers: number;
}

const scenarios = (ways: fc.Arbitrary<PagingTraits>, late = false): fc.Arbitrary<Scenario> =>
  fc.record({
    truth: truthOf(late),
    ways,
    windows: plans,
    limit: fc.constantFrom(5000, 5000, 9),
    workers: fc.constantFrom(1, 3),
  });

/** All responses come well after the window, so all of it can be covered unless the server lags. */
const afterwards = start + 100_000;

async function runScenario(
  scenario: Scenario,
  nowMs = afterwards,
  everyPrice = true,
): Promise<{ run: Run; requests: number; firstAnswerMs: number }> {
  const hand: ManualTime = { nowMs };
  const service = honestService(scenario.truth, scenario.ways, hand);
  const done = await run({
    upstream: service,
    hand,
    truth: scenario.truth,
    plans: new Map([...scenario.truth.keys()].map((symbol) => [symbol, scenario.windows])),
    pageLimit: scenario.limit,
    workers: scenario.workers,
    everyPrice,
  });
  return { run: done, requests: service.requests(), firstAnswerMs: service.firstAnswerMs() };
}

/** Limit of requests: each one returns a new time or settles an edge. */
function computeRequestsMax(scenario: Scenario): number {
  const rows = [...scenario.truth.values()].reduce((sum, list) => sum + list.length, 0);
  return 10 + 4 * rows + 12 * scenario.truth.size * scenario.windows.length;
}

interface Checked extends Scenario {
  readonly run: Run;
  readonly firstAnswerMs: number;
}

/** Runs scenarios, of which none claims a window without its ticks or needs too many requests, and checks each. */
async function assertProperty(
  arbitrary: fc.Arbitrary<Scenario>,
  numRuns: number,
  check: (checked: Checked) => void,
  { nowMs = afterwards, everyPrice = true } = {},
): Promise<void> {
  await checkAsyncProperty([arbitrary], numRuns, async (scenario) => {
    const { run, requests, firstAnswerMs } = await runScenario(scenario, nowMs, everyPrice);
    expect(run.lies).toEqual([]);
    expect(requests).toBeLessThanOrEqual(computeRequestsMax(scenario));
    check({ ...scenario, run, firstAnswerMs });
  });
}

/** Expects that each part of the windows before `untilMs` is covered or reported. */
function expectAccounted({ run, truth, windows }: Checked, untilMs = window.to): void {
  for (const symbol of truth.keys()) expect(findUnaccounted(run, symbol, windows, untilMs)).toEqual([]);
}

describe('paging', () => {
  test('covers every window with every tick, in any way that a sane server pages', async () => {
    await assertProperty(scenarios(sane), 500, ({ truth, windows, run }) => {
      for (const symbol of truth.keys()) {
        expect(subtract(windows, run.covered.get(symbol) ?? [])).toEqual([]);
        expect(run.lost.get(symbol) ?? []).toEqual([]);
      }
    });
  });

  test('never claims a window without its visible ticks, even if ticks are late', async () => {
    await assertProperty(scenarios(sane, true), 300, ({ truth, windows, run }) => {
      for (const symbol of truth.keys()) expect(subtract(windows, run.covered.get(symbol) ?? [])).toEqual([]);
    });
  });

  test('covers a current window up to the first response, and claims nothing later', async () => {
    const nowMs = start + 20_000;
    // If the response states no time, only the time of the request is known.
    const check = (checked: Checked): void =>
      expectAccounted(checked, checked.ways.behindMs === null ? nowMs : checked.firstAnswerMs);
    await assertProperty(scenarios(sane), 200, check, { nowMs });
  });

  test('reports expired windows as lost and covers the rest', async () => {
    const forgetful = fc.tuple(sane, fc.integer({ min: start - 10, max: window.to + 10 })).map(
      ([ways, keptFrom]): PagingTraits => ({
        ...ways,
        keptFrom,
        echo: ways.echo === 'none' ? 'requested' : ways.echo,
      }),
    );
    await assertProperty(scenarios(forgetful), 300, ({ truth, windows, ways, run }) => {
      // A stated start may be exclusive, so its millisecond may be lost.
      const kept = { from: ways.keptFrom! + 1, to: window.to };
      for (const symbol of truth.keys()) {
        const covered = run.covered.get(symbol) ?? [];
        expect(subtract(intersect(windows, [kept]), covered)).toEqual([]);
        if (ways.echo === 'requested') expect(intersect(covered, [{ from: 0, to: ways.keptFrom! }])).toEqual([]);
        expect(findUnaccounted(run, symbol, windows, window.to)).toEqual([]);
      }
    });
  });

  test('never claims a stated gap, and reports it', async () => {
    const gap = fc
      .tuple(fc.integer({ min: -50, max: 40_000 }), fc.integer({ min: 1, max: 20_000 }))
      .map(([at, length]): Window => ({ from: start + at, to: start + at + length }));
    const holey = fc
      .tuple(sane, fc.array(gap, { minLength: 1, maxLength: 3 }))
      .map(([ways, gaps]): PagingTraits => ({ ...ways, gaps }));
    await assertProperty(scenarios(holey), 300, ({ truth, windows, ways, run }) => {
      for (const symbol of truth.keys()) {
        expect(intersect(run.covered.get(symbol) ?? [], ways.gaps)).toEqual([]);
        expect(findUnaccounted(run, symbol, windows, window.to)).toEqual([]);
        expect(union(run.lost.get(symbol) ?? [])).toEqual(intersect(windows, ways.gaps));
      }
    });
  });

  test('continues if a server limits the window per response, at either end', async () => {
    const short = fc
      .tuple(
        sane,
        fc.constantFrom('first' as const, 'last' as const),
        fc.oneof(fc.integer({ min: 4000, max: 30_000 }), fc.constantFrom(4000, 4001, 10_000, 10_001)),
      )
      .map(([ways, end, ms]): PagingTraits => ({ ...ways, echo: 'requested', longest: { ms, end } }));
    await assertProperty(scenarios(short), 200, (checked) => {
      expectAccounted(checked);
      for (const symbol of checked.truth.keys()) expect(checked.run.lost.get(symbol) ?? []).toEqual([]);
    });
  });

  test('claims nothing wrong if a server ignores from/to, and reports the rest as lost', async () => {
    const deaf = fc
      .tuple(
        sane,
        fc.constantFrom('nothing' as const, 'end' as const),
        fc.constantFrom('requested' as const, 'none' as const),
      )
      .map(([ways, respects, echo]): PagingTraits => ({ ...ways, respects, echo }));
    // Each response contains a tick outside of the window, whichever side it keeps.
    const framed = scenarios(deaf).map((scenario): Scenario => {
      const [before, after] = [start - 3000, start + 50_000].map((t): Row => ({ t, p: 0, seenFrom: 0, usable: true }));
      return {
        ...scenario,
        truth: new Map([...scenario.truth].map(([symbol, rows]) => [symbol, [before!, ...rows, after!]])),
      };
    });
    // Another price may be missing at the last time. A run that ends less than a minute ago counts as continuing.
    await assertProperty(framed, 500, (checked) => expectAccounted(checked), {
      nowMs: start + 200_000,
      everyPrice: false,
    });
  });

  test('pages past unusable ticks without losing a window', async () => {
    const mixed = scenarios(sane).map((scenario): Scenario => {
      const truth = new Map(
        [...scenario.truth].map(([symbol, rows]) => [symbol, rows.map((row, i) => ({ ...row, usable: i % 5 !== 2 }))]),
      );
      return { ...scenario, truth };
    });
    await assertProperty(mixed, 300, (checked) => expectAccounted(checked));
  });

  const crowd = (count: number): Scenario => ({
    truth: new Map([
      [
        'S',
        [0, ...Array.from({ length: count }, () => 1), 2, 3].map(
          (at, i): Row => ({ t: start + at * 1000, p: i / 8, seenFrom: 0, usable: true }),
        ),
      ],
    ]),
    ways: { ...plainTraits, cap: 8 },
    windows: [window],
    limit: 5000,
    workers: 1,
  });
  const sides = ['earliest', 'latest'] as const;

  test('keeps each price of a millisecond that nearly fills a page', async () => {
    for (const side of sides) {
      const scenario = crowd(7);
      const { run } = await runScenario({ ...scenario, ways: { ...scenario.ways, side } });
      expect(run.keptOf('S')).toEqual(new Set(scenario.truth.get('S')!.map(toKey)));
      expect(run.lies).toEqual([]);
    }
  });

  test('leaves a millisecond with more ticks than a page as a gap and continues after it', async () => {
    for (const side of sides) {
      const scenario = crowd(9);
      const { run } = await runScenario({ ...scenario, ways: { ...scenario.ways, side } });
      const moment = { from: start + 1000, to: start + 1001 };
      expect(run.lies).toEqual([]);
      expect(run.reasons.get('S')).toEqual([crowdedReason]);
      expect(run.lost.get('S')).toEqual([moment]);
      expect(subtract([window], run.covered.get('S')!)).toEqual([moment]);
      for (const at of [0, 2, 3]) expect([...run.keptOf('S')].join()).toContain(`${start + at * 1000} `);
    }
  });
});
