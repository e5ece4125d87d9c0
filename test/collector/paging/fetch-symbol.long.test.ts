import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UpstreamError } from '../../../src/base/errors.ts';
import { isWithin, subtract, type Window } from '../../../src/base/window.ts';
import type { TickPage, TicksQuery, Upstream } from '../../../src/client/upstream.ts';
import { honestService, type ManualTime, type PagingTraits, plainTraits, type Row } from './honest-service.ts';
import { findUnaccounted, type Run, run } from './run.ts';

const start = Date.UTC(2026, 6, 1);
const minute = 60_000;
const day = { from: start, to: start + 86_400_000 };
const later = start + 2 * 86_400_000;

const rowsAt = (times: readonly number[]): Row[] =>
  times.map((t, i) => ({ t, p: (i % 100) / 128, seenFrom: 0, usable: true }));

/** `count` ticks at even distances from the start. */
const evenly = (count: number, stepMs: number): Row[] =>
  rowsAt(Array.from({ length: count }, (_, i) => start + i * stepMs));

interface Bill {
  readonly requests: number;
  readonly minimum: number;
  readonly run: Run;
}

/** Extra requests that a run may spend on an unknown server. */
const requestsToLearn = 24;

/** Requests of a run, and their minimum: the pages, and two confirmations per window with ticks. */
async function countRequests(
  truth: Map<string, Row[]>,
  ways: PagingTraits,
  windows: readonly Window[],
  workers = 4,
): Promise<Bill> {
  const hand: ManualTime = { nowMs: later };
  const service = honestService(truth, ways, hand);
  const plans = new Map([...truth.keys()].map((symbol) => [symbol, windows]));
  const done = await run({ upstream: service, hand, truth, plans, workers });
  const counts = [...truth.values()].flatMap((rows) =>
    windows.map((w) => rows.filter((row) => isWithin(row.t, w)).length),
  );
  const cap = Math.min(ways.cap, Math.max(1, ...counts));
  const minimum = counts.reduce((sum, n) => sum + Math.max(1, Math.ceil(n / cap)) + (n > 0 ? 2 : 0), 0);
  return { requests: service.requests(), minimum, run: done };
}

/** Symbols with very different numbers of ticks: some have none, some a hundred times those of others. */
const uneven = (counts: readonly number[], stepMs: number): Map<string, Row[]> =>
  new Map(counts.map((count, i) => [`S${i}`, evenly(count, stepMs)]));

const waysOf = (capMin: number, capMax: number): fc.Arbitrary<PagingTraits> =>
  fc
    .record({
      cap: fc.integer({ min: capMin, max: capMax }),
      side: fc.constantFrom('earliest' as const, 'latest' as const),
      order: fc.constantFrom('ascending' as const, 'newest first' as const, 'shuffled' as const),
      fromInclusive: fc.boolean(),
      toInclusive: fc.boolean(),
      echo: fc.constantFrom('requested' as const, 'tightened' as const, 'none' as const),
    })
    .map((some) => ({ ...plainTraits, ...some }));

const halves = [
  { from: day.from, to: day.from + 43_200_000 },
  { from: day.from + 43_200_000, to: day.to },
];

describe('the requests of a run', () => {
  const counts = fc.array(
    fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 350 }), fc.integer({ min: 0, max: 2000 })),
    { minLength: 60, maxLength: 60 },
  );

  test('are the pages, two confirmations per window and few checks, for any cap and side', async () => {
    const one = async (sizes: readonly number[], ways: PagingTraits, windows: readonly Window[], workers: number) => {
      const { requests, minimum, run } = await countRequests(uneven(sizes, 40_000), ways, windows, workers);
      expect(run.lies).toEqual([]);
      expect(requests).toBeLessThanOrEqual(1.05 * minimum + requestsToLearn);
    };
    const cuts = fc.constantFrom([day], halves);
    await fc.assert(fc.asyncProperty(counts, waysOf(25, 200), cuts, fc.constantFrom(1, 4), one), { numRuns: 25 });
    await fc.assert(fc.asyncProperty(counts, waysOf(200, 2500), cuts, fc.constantFrom(1, 4), one), { numRuns: 15 });
  });

  test('are three per symbol if all have the same complete pages', async () => {
    for (const side of ['earliest', 'latest'] as const) {
      for (const count of [2, 9, 10, 720]) {
        const truth = uneven(
          Array.from({ length: 40 }, () => count),
          2 * minute,
        );
        const { requests, run } = await countRequests(truth, { ...plainTraits, cap: 5000, side }, [day]);
        expect(requests).toBeLessThanOrEqual(3 * 40 * 1.05 + requestsToLearn);
        expect(run.lies).toEqual([]);
        for (const covered of run.covered.values()) expect(covered).toEqual([day]);
      }
    }
  });

  test('are one per symbol without ticks', async () => {
    const { requests } = await countRequests(uneven([0, 0, 0, 0, 0], minute), plainTraits, [day]);
    expect(requests).toBe(5);
  });
});

const window = { from: start, to: start + 3_600_000 };
const answer = (page: Partial<TickPage> & { readonly times?: readonly number[] }): TickPage => {
  const times = page.times ?? [];
  return {
    t: Float64Array.from(times),
    p: Float64Array.from(times, () => 0.5),
    received: times.length,
    rejected: [],
    from: null,
    to: null,
    generatedAt: later,
    gaps: [],
    ...page,
  };
};

/** Runs against one symbol. The truth is empty, because the responses of a hostile server have none. */
async function runAgainst(page: (query: TicksQuery, nth: number) => TickPage): Promise<{ run: Run; requests: number }> {
  const hand = { nowMs: later };
  let requests = 0;
  const upstream: Pick<Upstream, 'ticks'> = {
    async ticks(query) {
      requests++;
      if (requests > 20_000) throw new Error('too many requests');
      return page(query, requests);
    },
  };
  const plans = new Map([['S', [window]]]);
  const done = await run({ upstream, hand, truth: new Map(), plans, workers: 1 });
  return { run: done, requests };
}

const unheeded = 'the service ignores from/to';

const coveredOf = (run: Run): readonly Window[] => run.covered.get('S') ?? [];
const lostOf = (run: Run): readonly Window[] => run.lost.get('S') ?? [];

describe('an untrustworthy service', () => {
  const middle = Array.from({ length: 50 }, (_, i) => start + 1_000_000 + i * 1000);

  test('is given up if it always sends the same full page, and only that page is claimed', async () => {
    const { run, requests } = await runAgainst(() => answer({ times: middle }));
    expect(requests).toBeLessThanOrEqual(10);
    const claimable = { from: middle[0]!, to: middle.at(-1)! + 1 };
    expect(subtract(coveredOf(run), [claimable])).toEqual([]);
    expect(findUnaccounted(run, 'S', [window], window.to)).toEqual([]);
    expect(lostOf(run).length).toBeGreaterThan(0);
  });

  test('is given up if it covers nothing', async () => {
    for (const claims of [
      { from: 0, to: 0 },
      { from: window.to, to: window.from },
      { from: later, to: later + 1 },
    ]) {
      const { run, requests } = await runAgainst(() => answer(claims));
      expect(requests).toBe(1);
      expect(coveredOf(run)).toEqual([]);
      expect(lostOf(run)).toMatchObject([window]);
    }
  });

  test('is given up if it advances by a millisecond at a time', async () => {
    const creeping = [
      (query: TicksQuery) => answer({ from: query.from, to: query.from + 2 }),
      (query: TicksQuery) => answer({ from: query.from, to: query.from + 2, times: [query.from + 1] }),
      (query: TicksQuery) => answer({ times: Array.from({ length: 100 }, () => query.from + 1) }),
      (query: TicksQuery) => answer({ times: Array.from({ length: 100 }, () => query.to - 1) }),
      (query: TicksQuery) => answer({ from: query.to - 2, to: query.to }),
    ];
    for (const page of creeping) {
      const { run, requests } = await runAgainst((query, nth) =>
        nth === 1 ? answer({ ...page(query), received: 100 }) : page(query),
      );
      expect(requests).toBeLessThanOrEqual(1500);
      expect(coveredOf(run).reduce((sum, w) => sum + w.to - w.from, 0)).toBeLessThan(1000);
      expect(findUnaccounted(run, 'S', [window], window.to)).toEqual([]);
    }
  });

  test('always ends, with each part of the window covered or lost, for any responses', async () => {
    const moment = fc.integer({ min: -5, max: 60 }).map((n) => start + n * 60_000);
    const edge = fc.oneof(fc.constant(null), moment, fc.constantFrom(0, later, 2 ** 50));
    const garbage = fc.record({
      times: fc.array(moment, { maxLength: 12 }),
      from: edge,
      to: edge,
      generatedAt: fc.constant(later),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(garbage, { minLength: 1, maxLength: 6 }), async (pages) => {
        const { run } = await runAgainst((_, nth) => answer(pages[nth % pages.length]!));
        expect(findUnaccounted(run, 'S', [window], window.to)).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  test('is dated by the request if its times are in seconds or in the future', async () => {
    for (const generatedAt of [Math.floor(later / 1000), 0, later * 1000, later + 3_600_000]) {
      const { run } = await runAgainst(() => answer({ generatedAt }));
      expect(run.lies).toEqual([]);
      expect(coveredOf(run)).toEqual([window]);
    }
  });
});

describe('a service that ignores from/to', () => {
  const hour = 60 * minute;
  const lastDay = Array.from({ length: 24 }, (_, i) => later - (24 - i) * hour);
  const echoes = [() => ({}), ({ from, to }: TicksQuery) => ({ from, to })];

  test('covers nothing before or after its ticks', async () => {
    for (const echo of echoes) {
      const { run, requests } = await runAgainst((query) => answer({ times: lastDay, ...echo(query) }));
      expect(coveredOf(run)).toEqual([]);
      expect(run.reasons.get('S')).toEqual([unheeded]);
      expect(lostOf(run)).toEqual([window]);
      expect(requests).toBeLessThanOrEqual(3);
    }
  });

  test('covers the span of its ticks', async () => {
    const times = [start - hour, start + 1000, start + 2000];
    for (const echo of echoes) {
      const { run } = await runAgainst((query) => answer({ times, received: 3, ...echo(query) }));
      expect(subtract(coveredOf(run), [{ from: start, to: start + 2001 }])).toEqual([]);
      expect(findUnaccounted(run, 'S', [window], window.to)).toEqual([]);
      expect([...run.keptOf('S')]).toHaveLength(2);
    }
  });

  test('covers the time up to its response if the last tick is recent', async () => {
    const now = { from: later - hour, to: later };
    const plans = new Map([['S', [now]]]);
    for (const [last, covered] of [
      [later - 1000, [now]],
      [later - 10 * minute, [{ from: now.from, to: later - 10 * minute + 1 }]],
    ] as const) {
      const upstream: Pick<Upstream, 'ticks'> = {
        ticks: async () => answer({ times: [later - 6 * hour, later - 5 * hour, later - 30 * minute, last] }),
      };
      const done = await run({ upstream, hand: { nowMs: later }, truth: new Map(), plans, workers: 1 });
      expect(coveredOf(done)).toEqual(covered);
    }
  });

  test('differs from one that includes both ends or states a larger window', async () => {
    const pages = [
      ({ from, to }: TicksQuery) => answer({ times: [from, to] }),
      ({ from, to }: TicksQuery) => answer({ times: [from, to], from, to }),
      () => answer({ times: [start - hour, window.to + hour], from: start - 2 * hour, to: window.to + 2 * hour }),
    ];
    for (const page of pages) {
      const { run } = await runAgainst(page);
      expect(run.reasons.get('S') ?? []).not.toContain(unheeded);
    }
  });
});

describe('a service that refuses large requests', () => {
  const week = { from: later - 7 * 86_400_000, to: later };
  const perHour = (count: number): Row[] =>
    rowsAt(Array.from({ length: count }, (_, i) => week.from + i * 3_600_000 + 1234));

  interface Bounds {
    readonly limitMax?: number;
    readonly windowMsMax?: number;
    readonly keptMs?: number;
    readonly status?: number;
    readonly unknown?: readonly string[];
  }
  async function refusing(bounds: Bounds, symbols = 20, windows: readonly Window[] = [week], workers = 4) {
    const truth = new Map(Array.from({ length: symbols }, (_, i) => [`S${i}`, perHour(168 - i)]));
    // One symbol has many ticks, so that the other pages are known to be complete.
    truth.get('S0')!.push(...rowsAt(Array.from({ length: 300 }, (_, i) => later - 300_000 + i * 1000)));
    const hand: ManualTime = { nowMs: later };
    const service = honestService(truth, { ...plainTraits, cap: 1000 }, hand);
    const { limitMax = 5000, windowMsMax = Infinity, keptMs = Infinity, unknown = [], status = 400 } = bounds;
    let requests = 0;
    const upstream: Pick<Upstream, 'ticks'> = {
      async ticks(query) {
        requests++;
        const reason =
          query.limit > limitMax
            ? 'limit too large'
            : query.to - query.from > windowMsMax
              ? 'window too long'
              : query.from < later - keptMs
                ? 'from too old'
                : unknown.includes(query.symbol)
                  ? 'no such symbol'
                  : null;
        if (reason === null) return service.ticks(query);
        await Promise.resolve();
        throw new UpstreamError('tick page', { failure: 'refused', reason, status });
      },
    };
    const plans = new Map([...truth.keys()].map((symbol) => [symbol, windows]));
    const outcome = run({ upstream, hand, truth, plans, workers }).catch((error: unknown) => error);
    return { outcome: (await outcome) as Run, requests: () => requests };
  }

  test.each([400, 413, 416, 422])('with %d because of the limit is requested with a smaller one', async (status) => {
    for (const limitMax of [1000, 4000, 500]) {
      const { outcome, requests } = await refusing({ limitMax, status });
      expect(outcome.lies).toEqual([]);
      for (const covered of outcome.covered.values()) expect(covered).toEqual([week]);
      expect(requests()).toBeLessThanOrEqual(20 * 3 + requestsToLearn + (limitMax === 500 ? 60 : 0));
    }
  });

  test('because of the window length is requested with shorter windows', async () => {
    const { outcome, requests } = await refusing({ windowMsMax: 86_400_000 });
    expect(outcome.lies).toEqual([]);
    for (const covered of outcome.covered.values()) expect(covered).toEqual([week]);
    expect(requests()).toBeLessThanOrEqual(20 * 8 * 3 + 2 * requestsToLearn);
  });

  test('because of limit, length and age at once is requested for what it has', async () => {
    const { outcome, requests } = await refusing({
      limitMax: 1000,
      windowMsMax: 86_400_000,
      keptMs: 3 * 86_400_000,
    });
    expect(outcome.lies).toEqual([]);
    const kept = { from: later - 3 * 86_400_000 + 3_600_000, to: later };
    for (const covered of outcome.covered.values()) expect(subtract([kept], covered)).toEqual([]);
    for (const [symbol, reasons] of outcome.reasons) {
      expect(findUnaccounted(outcome, symbol, [week], later)).toEqual([]);
      expect(reasons).toEqual(['from too old']);
    }
    expect(requests()).toBeLessThanOrEqual(20 * (3 * 4 + 5) + 60);
  });

  test('because of their age returns the recent part, with two extra requests per symbol', async () => {
    const { outcome, requests } = await refusing({ keptMs: 3 * 86_400_000 });
    for (const covered of outcome.covered.values()) {
      expect(subtract([{ from: later - 3 * 86_400_000 + 3_600_000, to: later }], covered)).toEqual([]);
    }
    expect(requests()).toBeLessThanOrEqual(20 * (3 * 2 + 2) + 60);
  });

  test('because of the age of a gap still returns what follows', async () => {
    const old = { from: week.from, to: week.from + 7_200_000 };
    const recent = { from: later - 86_400_000, to: later };
    const { outcome } = await refusing({ keptMs: 3 * 86_400_000 }, 1, [old, recent]);
    expect(outcome.covered.get('S0')).toEqual([recent]);
    expect(outcome.lost.get('S0')).toEqual([old]);
  });

  test('for every request of a symbol fails that symbol after a few requests', async () => {
    const unknown = Array.from({ length: 20 }, (_, i) => `S${i}`);
    const { outcome, requests } = await refusing({ unknown }, 20, [week], 1);
    expect(outcome).toMatchObject({ reason: 'no such symbol' });
    expect(requests()).toBeLessThanOrEqual(4);
  });

  test('with 404 fails the symbol immediately', async () => {
    const { outcome, requests } = await refusing({ limitMax: 1000, status: 404 }, 1);
    expect(outcome).toMatchObject({ status: 404 });
    expect(requests()).toBe(1);
  });
});

describe('covering', () => {
  const refused = new UpstreamError('tick page', { failure: 'refused', reason: 'HTTP 400', status: 400 });

  test('treats a refusal before the stated start as a response', async () => {
    const keptFrom = start + 1_800_000;
    const { run } = await runAgainst((query) => {
      if (query.from < keptFrom && query.to <= keptFrom + 1) throw refused;
      return answer({ from: keptFrom, to: query.to });
    });
    expect(coveredOf(run)).toEqual([{ from: keptFrom + 1, to: window.to }]);
    expect(lostOf(run)).toMatchObject([{ from: start, to: keptFrom + 1 }]);
  });

  test('throws the error of a request', async () => {
    const failing = runAgainst(() => {
      throw refused;
    });
    await expect(failing).rejects.toBe(refused);
  });

  test('leaves the end of a window as a gap if its confirmation is refused', async () => {
    const { run } = await runAgainst((_, nth) => {
      if (nth > 1) throw refused;
      return answer({ times: [start + minute, start + 2 * minute] });
    });
    expect(lostOf(run)).toEqual([
      { from: window.from, to: start + minute },
      { from: start + 2 * minute + 1, to: window.to },
    ]);
    expect(coveredOf(run)).toEqual([{ from: start + minute, to: start + 2 * minute + 1 }]);
  });

  test('rejects ticks in the future and claims no future time', async () => {
    const { run } = await runAgainst((query) =>
      answer({ times: [start, later + 120_000], from: query.from, to: query.to }),
    );
    expect([...run.keptOf('S')]).toEqual([`${start} 0.5`]);
  });
});
