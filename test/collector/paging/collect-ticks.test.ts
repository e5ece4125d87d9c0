import { describe, expect, test } from 'vitest';
import type { TickRecord } from '../../../src/archive/journal/journal.ts';
import { UpstreamError, type UpstreamFailure } from '../../../src/base/errors.ts';
import { isWithin, union, type Window } from '../../../src/base/window.ts';
import type { TickPage, TicksQuery } from '../../../src/client/upstream.ts';
import {
  allEmptyReason,
  collectTicks,
  type TickCollectContext,
  type TickCollectOutcome,
} from '../../../src/collector/paging/collect-ticks.ts';
import type { SymbolPlan } from '../../../src/collector/paging/plan.ts';
import { createServerBehavior } from '../../../src/collector/paging/server-behavior.ts';

const hour = 3_600_000;
const start = Date.UTC(2026, 6, 1);
const window: Window = { from: start, to: start + 24 * hour };
const later = window.to + hour;

const page = (times: readonly number[], said: Partial<TickPage> = {}): TickPage => ({
  t: Float64Array.from(times),
  p: Float64Array.from(times, () => 0.5),
  received: times.length,
  rejected: [],
  from: null,
  to: null,
  generatedAt: later,
  gaps: [],
  ...said,
});

const failure = (kind: UpstreamFailure, reason: string, status?: number): UpstreamError =>
  new UpstreamError('tick page', { failure: kind, reason, ...(status === undefined ? {} : { status }) });

const plansOf = (count: number, first = false): SymbolPlan[] =>
  Array.from({ length: count }, (_, i) => ({ symbol: `S${i}`, windows: [window], isFirst: first }));

interface Given {
  readonly answer: (query: TicksQuery, nth: number) => TickPage | Promise<TickPage>;
  readonly plans: readonly SymbolPlan[];
  readonly concurrency?: number;
  readonly signal?: AbortSignal;
  readonly monotonicMs?: () => number;
  readonly origin?: TickCollectContext['origin'];
  readonly behavior?: TickCollectContext['behavior'];
}

interface Done extends TickCollectOutcome {
  readonly asked: string[];
  readonly covered: Map<string, Window[]>;
  readonly claims: TickRecord['covered'][number][];
  /** How many symbols were done, as it was told. */
  readonly told: number[];
}

/** Collects, and says what was asked for; an answer is durable only once the sink was drained. */
async function collecting(given: Given): Promise<Done> {
  const covered = new Map<string, Window[]>();
  const asked: string[] = [];
  const told: number[] = [];
  let taken: TickRecord[] = [];
  const claims: TickRecord['covered'][number][] = [];
  const context: TickCollectContext = {
    upstream: {
      async ticks(query) {
        const nth = asked.push(query.symbol);
        await Promise.resolve();
        return given.answer(query, nth);
      },
    },
    clock: { nowMs: () => later, monotonicMs: given.monotonicMs ?? (() => later), sleep: async () => {} },
    runId: 'run',
    origin: given.origin ?? 'poll',
    behavior: given.behavior ?? createServerBehavior(),
    pageLimit: 5000,
    futureSkewMs: 60_000,
    signal: given.signal ?? new AbortController().signal,
    append: async (record) => {
      taken.push(record);
      claims.push(...record.covered);
    },
    onPage: () => {},
    concurrency: given.concurrency ?? 1,
    drain: async () => {
      for (const { symbol, covered: more } of taken) covered.set(symbol, [...(covered.get(symbol) ?? []), ...more]);
      taken = [];
    },
    getCoverage: (symbol) => covered.get(symbol) ?? [],
    onSymbol: (done) => void told.push(done),
  };
  return { ...(await collectTicks(context, given.plans)), asked, covered, told, claims };
}

describe('a run', () => {
  test('tells how many symbols are done, with those that failed, and says of each which it is', async () => {
    const collected = await collecting({
      answer: ({ symbol }) => (symbol === 'S1' ? Promise.reject(failure('refused', 'answered 404', 404)) : page([])),
      plans: plansOf(3),
    });
    expect(collected).toMatchObject({
      told: [1, 2, 3],
      done: ['S0', 'S2'],
      failed: ['S1'],
      stopError: null,
      behind: [],
    });
    expect(collected.notServed.size).toBe(0);
  });

  test('says of a symbol that fails what of it is not covered', async () => {
    const halves = [
      { from: start, to: start + hour },
      { from: start + 2 * hour, to: start + 3 * hour },
    ];
    const { failures, failed, done } = await collecting({
      answer: (_, nth) => (nth > 1 ? Promise.reject(failure('transient', 'answered 500', 500)) : page([])),
      plans: [{ symbol: 'S0', windows: halves, isFirst: false }],
    });
    expect(failures).toEqual([{ symbol: 'S0', ...halves[1], reason: 'answered 500' }]);
    expect([failed, done]).toEqual([['S0'], []]);
  });

  test('fetches again what was taken for whole by its size, where sizes turned out to mean nothing', async () => {
    const behavior = {
      ...createServerBehavior(),
      largestWhole: 50,
      truncatedPages: 1,
      truncatedMin: 90,
      truncatedMax: 90,
    };
    const tail = { lastTick: null, knownTick: null, inferred: [], confirm: 'next' as const };
    const one = async (isErratic: boolean) =>
      collecting({
        answer: (query, nth) => {
          if (nth === 2) behavior.isErratic = isErratic;
          return page([1, 2, 3].map((i) => start + i * hour).filter((t) => isWithin(t, query)));
        },
        plans: plansOf(2).map((plan) => ({ ...plan, tail })),
        behavior,
      });
    const steady = await one(false);
    const erratic = await one(true);
    expect(steady.asked.length).toBeLessThanOrEqual(2 * 4);
    expect(erratic.asked.length).toBeGreaterThanOrEqual(steady.asked.length + 4);
    expect(erratic.done).toEqual(['S0', 'S1']);
  });

  test('leaves as it is what it was stopped in, and says that it is neither done nor failed', async () => {
    const stop = new AbortController();
    const { done, failed, asked } = await collecting({
      answer(_, nth) {
        if (nth === 3) stop.abort(new Error('SIGTERM'));
        stop.signal.throwIfAborted();
        return page([]);
      },
      plans: plansOf(5),
      signal: stop.signal,
    });
    expect({ done, failed, asked }).toEqual({ done: ['S0', 'S1'], failed: [], asked: ['S0', 'S1', 'S2'] });
  });

  test('throws what is no failure of the service', async () => {
    const broken = collecting({
      answer() {
        throw new TypeError('a fault of ours');
      },
      plans: plansOf(2),
    });
    await expect(broken).rejects.toThrow('a fault of ours');
  });
});

describe('the past that a service does not have of a new symbol', () => {
  test('is no failure where something later was covered', async () => {
    const keptFrom = start + 12 * hour;
    const { failures, shortHistories } = await collecting({
      answer: ({ to }) => page([], { from: keptFrom, to: Math.max(to, keptFrom) }),
      plans: plansOf(1, true),
    });
    expect(failures).toEqual([]);
    expect(shortHistories).toEqual([{ symbol: 'S0', from: expect.any(Number) }]);
  });

  test('is a failure where it does not reach back to the start, or lies after all that was covered', async () => {
    const hole = { from: start + hour, to: start + 2 * hour };
    for (const gaps of [[hole], [{ from: start + 23 * hour, to: window.to - 1 }]]) {
      const { failures, shortHistories, notServed } = await collecting({
        answer: (query) => page([], { ...query, gaps }),
        plans: plansOf(1, true),
      });
      expect(failures).toMatchObject([{ symbol: 'S0', ...gaps[0] }]);
      expect([...notServed]).toEqual(failures);
      expect(shortHistories).toEqual([]);
    }
  });

  test('is told of once for a symbol', async () => {
    const halves = [
      { from: start, to: start + 12 * hour },
      { from: start + 12 * hour, to: window.to },
    ];
    const { shortHistories } = await collecting({
      answer: (query) =>
        page([], {
          ...query,
          gaps: [
            { from: start - 1, to: start + hour },
            { from: start + hour, to: start + 2 * hour },
          ],
        }),
      plans: [{ symbol: 'S0', windows: halves, isFirst: true }],
    });
    expect(shortHistories).toEqual([{ symbol: 'S0', from: expect.any(Number) }]);
  });

  test('is a failure where nothing was covered at all', async () => {
    const { failures, shortHistories } = await collecting({
      answer: () => page([], { from: 0, to: 0 }),
      plans: plansOf(1, true),
    });
    expect(failures).toMatchObject([{ symbol: 'S0', from: window.from, to: window.to }]);
    expect(shortHistories).toEqual([]);
  });

  test('is a failure of a symbol that was covered before', async () => {
    const earlier = { from: start - 48 * hour, to: start - 47 * hour };
    const { failures, shortHistories } = await collecting({
      answer: ({ from, to }) => page([], { from: from < start - hour ? from : start + 12 * hour, to }),
      plans: [{ symbol: 'S0', windows: [earlier, window], isFirst: false }],
    });
    expect(failures).toMatchObject([{ symbol: 'S0', from: window.from }]);
    expect(shortHistories).toEqual([]);
  });
});

describe('a service that says that it has nothing yet', () => {
  const known = start + 12 * hour;
  const behind = (query: TicksQuery): TickPage => page([], { ...query, gaps: [{ from: known, to: query.to }] });

  test('is behind, which is no failure of a poll', async () => {
    const { failures, behind: yet, done, covered } = await collecting({ answer: behind, plans: plansOf(2) });
    expect(failures).toEqual([]);
    expect(done).toEqual(['S0', 'S1']);
    expect(yet.map(({ symbol, from, to }) => [symbol, from, to])).toEqual([
      ['S0', known, window.to],
      ['S1', known, window.to],
    ]);
    expect(covered.get('S0')).toMatchObject([{ from: start, to: known }]);
  });

  test('by answers as of a moment hours ago is behind, too', async () => {
    const stale = () => page([], { generatedAt: known });
    const poll = await collecting({ answer: stale, plans: plansOf(1) });
    expect(poll).toMatchObject({ failures: [], done: ['S0'], behind: [{ symbol: 'S0', from: known, to: window.to }] });
    const backfill = await collecting({ answer: stale, plans: plansOf(1), origin: 'backfill' });
    expect(backfill).toMatchObject({ failures: [{ from: known, to: window.to }], behind: [] });
  });

  test('and just does not answer for the end fails, whatever was asked for', async () => {
    const { failures, behind: yet } = await collecting({
      answer: () => page([], { from: 0, to: 0 }),
      plans: plansOf(1),
    });
    expect(failures).toMatchObject([{ from: window.from, to: window.to }]);
    expect(yet).toEqual([]);
  });

  test('fails a backfill, whose end was named', async () => {
    const { failures, behind: yet } = await collecting({ answer: behind, plans: plansOf(1), origin: 'backfill' });
    expect(failures).toMatchObject([{ symbol: 'S0', from: known, to: window.to }]);
    expect(yet).toEqual([]);
  });

  test('and lacks something before that, too, fails for what it lacks', async () => {
    const hole = { from: start + hour, to: start + 2 * hour };
    const { failures, behind: yet } = await collecting({
      answer: (query) => page([], { ...query, gaps: [hole, { from: known, to: query.to }] }),
      plans: plansOf(1),
    });
    expect(failures).toMatchObject([{ symbol: 'S0', ...hole }]);
    expect(yet).toMatchObject([{ from: known, to: window.to }]);
  });
});

describe('a service that cannot be reached', () => {
  const down = failure('unreachable', 'connection refused');
  const fails = (query: TicksQuery, symbols: readonly string[]): TickPage => {
    if (symbols.includes(query.symbol)) throw down;
    return page([]);
  };

  test('for one symbol fails that symbol, and the others are done', async () => {
    for (const concurrency of [1, 4]) {
      const collected = await collecting({
        answer: (query) => fails(query, ['S7']),
        plans: plansOf(60),
        concurrency,
      });
      expect(collected.stopError).toBeNull();
      expect(collected.failed).toEqual(['S7']);
      expect(collected.done).toHaveLength(59);
      expect(collected.failures).toMatchObject([{ symbol: 'S7', ...window, reason: 'connection refused' }]);
    }
  });

  test('for all that were under way at a time fails those, and the others are done', async () => {
    const collected = await collecting({
      answer: (query) => fails(query, ['S4', 'S5', 'S6', 'S7']),
      plans: plansOf(20),
      concurrency: 4,
    });
    expect(collected.stopError).toBeNull();
    expect(collected.done).toHaveLength(16);
  });

  test('any more stops the run once another symbol, tried alone, has found it so', async () => {
    const { stopError, done, failed, failures, asked } = await collecting({
      answer(_, nth) {
        if (nth > 8) throw down;
        return page([]);
      },
      plans: plansOf(60),
      concurrency: 4,
    });
    expect(stopError).toBe(down);
    expect(done).toHaveLength(8);
    expect(failed).toHaveLength(52);
    expect(failures).toHaveLength(52);
    expect(asked.length).toBeLessThanOrEqual(8 + 4 + 1);
  });

  test('stops nothing where the one that is tried alone fails otherwise, or was answered before it fails', async () => {
    const otherwise = await collecting({
      answer: (_, nth) =>
        nth === 1 ? Promise.reject(down) : nth === 2 ? Promise.reject(failure('transient', 'x')) : page([]),
      plans: plansOf(4),
    });
    expect([otherwise.stopError, otherwise.done]).toEqual([null, ['S2', 'S3']]);
    const halves = [
      { from: start, to: start + hour },
      { from: start + 2 * hour, to: start + 3 * hour },
    ];
    const halfway = await collecting({
      answer: (_, nth) => (nth === 1 || nth === 3 ? Promise.reject(down) : page([])),
      plans: plansOf(4).map((plan) => ({ ...plan, windows: halves })),
    });
    expect([halfway.stopError, halfway.done]).toEqual([null, ['S2', 'S3']]);
  });

  test('at all is told, though there is no other symbol to try', async () => {
    const { stopError, done } = await collecting({
      answer() {
        throw down;
      },
      plans: plansOf(1),
    });
    expect(stopError).toBe(down);
    expect(done).toEqual([]);
  });

  test('but failures for ten minutes stops the run, and what it refuses in between is no failure', async () => {
    let minute = 0;
    const monotonicMs = () => minute * 60_000;
    const broken = () => {
      minute++;
      throw failure('transient', 'answered 503', 503);
    };
    const ended = await collecting({ plans: plansOf(60), answer: broken, monotonicMs });
    expect(ended.stopError).toMatchObject({ reason: 'answered 503' });
    expect(ended.asked).toHaveLength(20);
    expect([ended.failed.length, ended.failures.length]).toEqual([60, 60]);
    minute = 0;
    const picky = (_: TicksQuery, nth: number) =>
      nth % 10 === 0 ? Promise.reject(failure('refused', 'answered 404', 404)) : broken();
    expect((await collecting({ plans: plansOf(60), answer: picky, monotonicMs })).stopError).toBeNull();
    // Failures that follow one another quickly are no long time.
    const quick = await collecting({
      plans: plansOf(60),
      answer: () => Promise.reject(failure('transient', 'x', 500)),
    });
    expect([quick.stopError, quick.asked.length]).toEqual([null, 60]);
  });

  test('while others are answered does not stop the run', async () => {
    const collected = await collecting({
      // Each second request is answered: there is always an answer between two failures.
      answer(_, nth) {
        if (nth % 2 === 0) throw down;
        return page([]);
      },
      plans: plansOf(20),
    });
    expect(collected.stopError).toBeNull();
    expect(collected.done).toHaveLength(10);
  });

  test('any more leaves what was answered empty before as covered', async () => {
    const { stopError, done, covered } = await collecting({
      answer(_, nth) {
        if (nth > 5) throw down;
        return page([]);
      },
      plans: plansOf(9),
    });
    expect(stopError).toBe(down);
    expect(done).toEqual(['S0', 'S1', 'S2', 'S3', 'S4']);
    for (const symbol of done) expect(union(covered.get(symbol)!)).toEqual([window]);
  });

  test('with this credential stops the run at once', async () => {
    const refused = failure('credential', 'answered 401', 401);
    const { stopError, asked } = await collecting({
      answer() {
        throw refused;
      },
      plans: plansOf(10),
    });
    expect(stopError).toBe(refused);
    expect(asked).toHaveLength(1);
  });
});

describe('a run that is interrupted', () => {
  test('says what was done until then', async () => {
    for (const concurrency of [1, 4]) {
      const stop = new AbortController();
      const { done, failed, failures } = await collecting({
        answer(_, nth) {
          if (nth === 9) stop.abort(new Error('SIGTERM'));
          stop.signal.throwIfAborted();
          return page([]);
        },
        plans: plansOf(20),
        concurrency,
        signal: stop.signal,
      });
      expect(done).toHaveLength(8);
      expect(failed).toEqual([]);
      expect(failures).toEqual([]);
    }
  });

  test('throws what broke it, all the same', async () => {
    const stop = new AbortController();
    const broken = collecting({
      answer() {
        stop.abort(new Error('SIGTERM'));
        throw new Error('disk full');
      },
      plans: plansOf(2),
      signal: stop.signal,
    });
    await expect(broken).rejects.toThrow('disk full');
  });
});

describe('empty responses', () => {
  const polled = (count: number): SymbolPlan[] =>
    plansOf(count).map((plan) => ({
      ...plan,
      tail: { lastTick: null, knownTick: start + 1, inferred: [], confirm: 'next' as const },
    }));
  const evidenceOf = ({ claims }: Done) => claims.map(({ evidence }) => evidence);

  test('confirm their windows from the oldest tick on that the service ever showed', async () => {
    const oldestTick = start + 6 * hour;
    const { claims } = await collecting({
      answer: () => page([]),
      plans: plansOf(1),
      behavior: createServerBehavior(oldestTick),
    });
    expect(claims).toEqual([
      { from: start, to: oldestTick, evidence: 'inferred', fetchedAt: later },
      { from: oldestTick, to: window.to, evidence: 'confirmed', fetchedAt: later },
    ]);
  });

  test('of half of the symbols that had ticks, three at least, are an outage: gaps, and nothing is claimed', async () => {
    const answer = ({ symbol }: TicksQuery) => page(Number(symbol.slice(1)) < 3 ? [] : [start + 1, start + hour]);
    const outage = await collecting({ answer, plans: polled(6) });
    expect(outage.failures.map(({ symbol, reason }) => [symbol, reason])).toEqual(
      ['S0', 'S1', 'S2'].map((symbol) => [symbol, allEmptyReason]),
    );
    for (const symbol of ['S0', 'S1', 'S2']) expect(outage.covered.get(symbol) ?? []).toEqual([]);
    // Three of seven, or two of two, are symbols of their own.
    const few = await collecting({ answer, plans: polled(7) });
    const two = await collecting({ answer, plans: polled(2) });
    for (const some of [few, two]) expect(some.failures).toEqual([]);
    expect(new Set(evidenceOf(two))).toEqual(new Set(['inferred']));
  });

  test('count as none where the symbols are asked for the first time', async () => {
    const first = await collecting({ answer: () => page([]), plans: plansOf(9, true) });
    expect(first.failures).toEqual([]);
    expect(first.done).toHaveLength(9);
  });
});
