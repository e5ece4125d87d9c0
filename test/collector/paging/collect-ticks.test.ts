import { describe, expect, test } from 'vitest';
import type { TickRecord } from '../../../src/archive/journal/journal.ts';
import { UpstreamError, type UpstreamFailure } from '../../../src/base/errors.ts';
import { union, type Window } from '../../../src/base/window.ts';
import type { StatedCoverage, TickPage, TicksQuery } from '../../../src/client/upstream.ts';
import {
  collectTicks,
  outageReason,
  type TickCollectContext,
  type TickCollectOutcome,
} from '../../../src/collector/paging/collect-ticks.ts';
import type { SymbolPlan } from '../../../src/collector/paging/plan.ts';
import { createServerBehavior } from '../../../src/collector/paging/server-behavior.ts';
import { Night, noSilences } from '../../../src/collector/proof/shown.ts';

const hour = 3_600_000;
const start = Date.UTC(2026, 6, 1);
const window: Window = { from: start, to: start + 24 * hour };
const later = window.to + hour;

const page = (times: readonly number[], fields: Partial<TickPage> = {}): TickPage => ({
  t: Float64Array.from(times),
  p: Float64Array.from(times, () => 0.5),
  received: times.length,
  rejected: [],
  from: null,
  to: null,
  generatedAt: later,
  gaps: [],
  ...fields,
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
  readonly mirror?: NonNullable<TickCollectContext['mirror']>['coverage'];
}

interface Done extends TickCollectOutcome {
  readonly requests: string[];
  readonly covered: Map<string, Window[]>;
  readonly claims: TickRecord['covered'][number][];
  /** The counts of finished symbols passed to onSymbol. */
  readonly progress: number[];
}

/** Collects, and records the requests. Coverage is durable only after `drain`. */
async function runCollect(scenario: Given): Promise<Done> {
  const covered = new Map<string, Window[]>();
  const requests: string[] = [];
  const progress: number[] = [];
  let pending: TickRecord[] = [];
  const claims: TickRecord['covered'][number][] = [];
  const { mirror } = scenario;
  const context: TickCollectContext = {
    mirror: mirror && { coverage: mirror },
    upstream: {
      async ticks(query) {
        const nth = requests.push(query.symbol);
        await Promise.resolve();
        return scenario.answer(query, nth);
      },
    },
    clock: { nowMs: () => later, monotonicMs: scenario.monotonicMs ?? (() => later), sleep: async () => {} },
    runId: 'run',
    origin: scenario.origin ?? 'poll',
    behavior: scenario.behavior ?? createServerBehavior(),
    pieces: false,
    pageLimit: 5000,
    futureSkewMs: 60_000,
    signal: scenario.signal ?? new AbortController().signal,
    append: async (record) => {
      pending.push(record);
      claims.push(...record.covered);
    },
    onPage: () => {},
    concurrency: scenario.concurrency ?? 1,
    drain: async () => {
      for (const { symbol, covered: more } of pending) covered.set(symbol, [...(covered.get(symbol) ?? []), ...more]);
      pending = [];
    },
    getCoverage: (symbol) => covered.get(symbol) ?? [],
    getUnjudged: () => [],
    onSymbol: (done) => void progress.push(done),
    night: new Night(),
    settleMs: Number.POSITIVE_INFINITY,
    knownSilences: noSilences,
    getSymbol: () => ({
      ...{ first: null, last: null, count: 0, observedAt: null },
      ...{ firstSeen: 0, opensAt: null, provenTo: 0 },
    }),
    findTick: async () => null,
  };
  return { ...(await collectTicks(context, scenario.plans)), requests, covered, progress, claims };
}

describe('a run', () => {
  test('counts finished symbols, including failed ones, and lists both', async () => {
    const collected = await runCollect({
      answer: ({ symbol }) => (symbol === 'S1' ? Promise.reject(failure('refused', 'HTTP 404', 404)) : page([])),
      plans: plansOf(3),
    });
    expect(collected).toMatchObject({
      progress: [1, 2, 3],
      done: ['S0', 'S2'],
      failed: ['S1'],
      stopError: null,
      behind: [],
    });
    expect(collected.notServed.size).toBe(0);
  });

  test('reports the uncovered windows of a failed symbol', async () => {
    const halves = [
      { from: start, to: start + hour },
      { from: start + 2 * hour, to: start + 3 * hour },
    ];
    const { failures, failed, done } = await runCollect({
      answer: (_, nth) => (nth > 1 ? Promise.reject(failure('transient', 'HTTP 500', 500)) : page([])),
      plans: [{ symbol: 'S0', windows: halves, isFirst: false }],
    });
    expect(failures).toEqual([{ symbol: 'S0', ...halves[1], reason: 'HTTP 500' }]);
    expect([failed, done]).toEqual([['S0'], []]);
  });

  test('counts an interrupted symbol as neither done nor failed', async () => {
    const stop = new AbortController();
    const { done, failed, requests } = await runCollect({
      answer(_, nth) {
        if (nth === 3) stop.abort(new Error('SIGTERM'));
        stop.signal.throwIfAborted();
        return page([]);
      },
      plans: plansOf(5),
      signal: stop.signal,
    });
    expect({ done, failed, requests }).toEqual({ done: ['S0', 'S1'], failed: [], requests: ['S0', 'S1', 'S2'] });
  });

  test('throws errors that are not of the upstream', async () => {
    const broken = runCollect({
      answer() {
        throw new TypeError('a bug');
      },
      plans: plansOf(2),
    });
    await expect(broken).rejects.toThrow('a bug');
  });
});

describe('missing history of a new symbol', () => {
  test('is not a failure if something later is covered', async () => {
    const keptFrom = start + 12 * hour;
    const { failures, shortHistories } = await runCollect({
      answer: ({ to }) => page([], { from: keptFrom, to: Math.max(to, keptFrom) }),
      plans: plansOf(1, true),
    });
    expect(failures).toEqual([]);
    expect(shortHistories).toMatchObject([{ symbol: 'S0', from: expect.any(Number) }]);
  });

  test('is a failure if it is not at the start, or nothing later is covered', async () => {
    const hole = { from: start + hour, to: start + 2 * hour };
    for (const gaps of [[hole], [{ from: start + 23 * hour, to: window.to - 1 }]]) {
      const { failures, shortHistories, notServed } = await runCollect({
        answer: (query) => page([], { ...query, gaps }),
        plans: plansOf(1, true),
      });
      expect(failures).toMatchObject([{ symbol: 'S0', ...gaps[0] }]);
      expect([...notServed]).toEqual(failures);
      expect(shortHistories).toEqual([]);
    }
  });

  test('is reported once per symbol', async () => {
    const halves = [
      { from: start, to: start + 12 * hour },
      { from: start + 12 * hour, to: window.to },
    ];
    const { shortHistories } = await runCollect({
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
    expect(shortHistories).toMatchObject([{ symbol: 'S0', from: expect.any(Number) }]);
  });

  test('is a failure if nothing is covered', async () => {
    const { failures, shortHistories } = await runCollect({
      answer: () => page([], { from: 0, to: 0 }),
      plans: plansOf(1, true),
    });
    expect(failures).toMatchObject([{ symbol: 'S0', from: window.from, to: window.to }]);
    expect(shortHistories).toEqual([]);
  });

  test('is a failure for a symbol that was covered before', async () => {
    const earlier = { from: start - 48 * hour, to: start - 47 * hour };
    const { failures, shortHistories } = await runCollect({
      answer: ({ from, to }) => page([], { from: from < start - hour ? from : start + 12 * hour, to }),
      plans: [{ symbol: 'S0', windows: [earlier, window], isFirst: false }],
    });
    expect(failures).toMatchObject([{ symbol: 'S0', from: window.from }]);
    expect(shortHistories).toEqual([]);
  });
});

describe('a service that states that it has no data yet', () => {
  const known = start + 12 * hour;
  const behind = (query: TicksQuery): TickPage => page([], { ...query, gaps: [{ from: known, to: query.to }] });

  test('is behind, which is not a failure of a poll', async () => {
    const { failures, behind: yet, done, covered } = await runCollect({ answer: behind, plans: plansOf(2) });
    expect(failures).toEqual([]);
    expect(done).toEqual(['S0', 'S1']);
    expect(yet.map(({ symbol, from, to }) => [symbol, from, to])).toEqual([
      ['S0', known, window.to],
      ['S1', known, window.to],
    ]);
    expect(covered.get('S0')).toMatchObject([{ from: start, to: known }]);
  });

  test('is behind as well if its response is hours old', async () => {
    const stale = () => page([], { generatedAt: known });
    const poll = await runCollect({ answer: stale, plans: plansOf(1) });
    expect(poll).toMatchObject({ failures: [], done: ['S0'], behind: [{ symbol: 'S0', from: known, to: window.to }] });
    const backfill = await runCollect({ answer: stale, plans: plansOf(1), origin: 'backfill' });
    expect(backfill).toMatchObject({ failures: [{ from: known, to: window.to }], behind: [] });
  });

  test('fails if it just does not cover the end', async () => {
    const { failures, behind: yet } = await runCollect({
      answer: () => page([], { from: 0, to: 0 }),
      plans: plansOf(1),
    });
    expect(failures).toMatchObject([{ from: window.from, to: window.to }]);
    expect(yet).toEqual([]);
  });

  test('fails a backfill, whose end is explicit', async () => {
    const { failures, behind: yet } = await runCollect({ answer: behind, plans: plansOf(1), origin: 'backfill' });
    expect(failures).toMatchObject([{ symbol: 'S0', from: known, to: window.to }]);
    expect(yet).toEqual([]);
  });

  test('fails for a gap before that', async () => {
    const hole = { from: start + hour, to: start + 2 * hour };
    const { failures, behind: yet } = await runCollect({
      answer: (query) => page([], { ...query, gaps: [hole, { from: known, to: query.to }] }),
      plans: plansOf(1),
    });
    expect(failures).toMatchObject([{ symbol: 'S0', ...hole }]);
    expect(yet).toMatchObject([{ from: known, to: window.to }]);
  });
});

describe('an oddslake that is mirrored', () => {
  const covered = (from: number, to: number, evidence: StatedCoverage['evidence'], fetchedAt = later - hour) => ({
    ...{ from: start + from * hour, to: start + to * hour, evidence, fetchedAt },
  });
  const stated = [covered(-9, 2, 'declared'), covered(2, 4, 'repeated'), covered(6, 8, 'inferred', later + hour)];
  const busy = ({ symbol, from, to }: TicksQuery): TickPage => {
    const times = Array.from({ length: 24 }, (_, i) => start + i * hour + 1).filter((t) => from <= t && t <= to);
    return page(symbol === 'S0' ? times : []);
  };
  const summarize = (claims: readonly StatedCoverage[] = []) => [
    ...new Set(
      claims.map((w) => [(w.from - start) / hour, (w.to - start) / hour, w.evidence, w.fetchedAt - later].join()),
    ),
  ];

  test('is claimed to cover what it states itself, with ticks and without; the rest is not served', async () => {
    const asked: object[] = [];
    for (const origin of ['poll', 'backfill'] as const) {
      const collected = await runCollect({
        plans: plansOf(2),
        origin,
        mirror: async (query) => {
          asked.push(query);
          return stated;
        },
        answer: (query) => {
          // What it publishes while its ticks are requested may have more of them.
          expect(asked.map((one) => (one as TicksQuery).symbol)).toContain(query.symbol);
          return busy(query);
        },
      });
      for (const symbol of ['S0', 'S1'])
        expect(union(collected.covered.get(symbol)!)).toEqual([
          { from: start, to: start + 4 * hour },
          { from: start + 6 * hour, to: start + 8 * hour },
        ]);
      const proofs = [`0,2,declared,${-hour}`, `2,4,repeated,${-hour}`, '6,8,inferred,0'];
      expect(summarize(collected.covered.get('S1') as StatedCoverage[])).toEqual(proofs);
      expect(new Set(collected.claims.map(({ evidence }) => evidence))).toEqual(
        new Set(['declared', 'repeated', 'inferred']),
      );
      expect(collected).toMatchObject({ done: ['S0', 'S1'], supports: [], horizon: null });
      const [hole, end] = [covered(4, 6, 'inferred'), covered(8, 24, 'inferred')].map(({ from, to }) => ({ from, to }));
      const reason = 'the service states that it has no data for this window';
      const missing = ['S0', 'S1'].map((symbol) => ({ symbol, reason }));
      expect(collected.behind).toEqual(origin === 'poll' ? missing.map((one) => ({ ...one, ...end })) : []);
      expect(collected.failures).toEqual(
        missing.flatMap((one) => (origin === 'poll' ? [hole] : [hole, end]).map((w) => ({ ...one, ...w }))),
      );
    }
    expect(asked[0]).toEqual({ symbol: 'S0', ...window });
  });

  test('is claimed to cover nothing that was not received', async () => {
    const gap = { from: start + hour, to: start + 3 * hour };
    const { covered: claimed, behind } = await runCollect({
      plans: plansOf(1),
      mirror: async () => [covered(0, 24, 'confirmed')],
      answer: (query) => ({ ...busy({ ...query, symbol: 'S1' }), gaps: [gap], generatedAt: start + 12 * hour }),
    });
    expect(summarize(claimed.get('S0') as StatedCoverage[])).toEqual([
      `0,1,confirmed,${-12 * hour - hour}`,
      `3,12,confirmed,${-12 * hour - hour}`,
    ]);
    expect(behind).toMatchObject([{ from: start + 12 * hour, to: window.to }]);
  });

  test('fails a symbol whose coverage cannot be fetched, and keeps its ticks if the request is refused', async () => {
    const errors = { S0: failure('refused', 'HTTP 404', 404), S1: failure('transient', 'HTTP 500', 500), S2: null };
    const collected = await runCollect({
      plans: plansOf(3),
      mirror: async ({ symbol }) => {
        const error = errors[symbol as keyof typeof errors];
        if (error !== null) throw error;
        return [covered(0, 24, 'confirmed')];
      },
      answer: busy,
    });
    expect(collected).toMatchObject({ failed: ['S0', 'S1'], done: ['S2'], answered: ['S0', 'S2'], unknown: [] });
    expect(collected.failures).toEqual([
      { symbol: 'S0', ...window, reason: 'HTTP 404' },
      { symbol: 'S1', ...window, reason: 'HTTP 500' },
    ]);
    expect([...collected.covered].flatMap(([symbol, own]) => own.map(() => symbol))).toEqual(['S2']);
    expect(new Set(collected.requests)).toEqual(new Set(['S0', 'S2']));
  });

  test('is behind from where its coverage ends, even if its responses are hours old', async () => {
    const { failures, behind } = await runCollect({
      plans: plansOf(1),
      mirror: async () => [covered(-9, 8, 'confirmed')],
      answer: (query) => ({
        ...busy({ ...query, to: Math.min(query.to, start + 8 * hour) }),
        generatedAt: start + 12 * hour,
      }),
    });
    expect(failures).toEqual([]);
    expect(behind).toMatchObject([{ symbol: 'S0', from: start + 8 * hour, to: window.to }]);
  });

  test('is asked for no more than the windows, because nothing is proven of it', async () => {
    const days = { from: start - 240 * hour, to: window.to };
    const plans = plansOf(6, true).map((plan) => ({ ...plan, windows: [days] }));
    const answer = (query: TicksQuery): TickPage =>
      query.to <= start + 2 || query.symbol === 'S5' ? page([]) : busy({ ...query, symbol: 'S0' });
    const without = await runCollect({ plans, answer });
    expect(without.horizon).not.toBeNull();
    const collected = await runCollect({
      plans,
      answer,
      mirror: async () => [{ ...days, evidence: 'inferred', fetchedAt: later - hour }],
    });
    expect(collected).toMatchObject({ horizon: null, shortHistories: [], failures: [], supports: [] });
    for (const { symbol } of plans) expect(union(collected.covered.get(symbol)!)).toEqual([days]);
    expect(new Set(collected.claims.map(({ evidence }) => evidence))).toEqual(new Set(['inferred']));
    expect(collected.requests.length).toBeLessThan(without.requests.length);
  });

  test('stops the run if it refuses the key', async () => {
    const refused = failure('credential', 'HTTP 403', 403);
    const collected = await runCollect({
      plans: plansOf(3),
      mirror: () => Promise.reject(refused),
      answer: busy,
    });
    expect(collected.stopError).toBe(refused);
    expect(collected.requests).toEqual([]);
  });
});

describe('an unreachable service', () => {
  const down = failure('unreachable', 'connection refused');
  const fails = (query: TicksQuery, symbols: readonly string[]): TickPage => {
    if (symbols.includes(query.symbol)) throw down;
    return page([]);
  };

  test('for one symbol fails only that symbol', async () => {
    for (const concurrency of [1, 4]) {
      const collected = await runCollect({
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

  test('for all concurrent symbols fails only those', async () => {
    const collected = await runCollect({
      answer: (query) => fails(query, ['S4', 'S5', 'S6', 'S7']),
      plans: plansOf(20),
      concurrency: 4,
    });
    expect(collected.stopError).toBeNull();
    expect(collected.done).toHaveLength(16);
  });

  test('stops the run after another symbol, requested alone, confirms it', async () => {
    const { stopError, done, failed, failures, requests } = await runCollect({
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
    expect(requests.length).toBeLessThanOrEqual(8 + 4 + 1);
  });

  test('does not stop the run if the symbol requested alone gets any response', async () => {
    const otherwise = await runCollect({
      answer: (_, nth) =>
        nth === 1 ? Promise.reject(down) : nth === 2 ? Promise.reject(failure('transient', 'x')) : page([]),
      plans: plansOf(4),
    });
    expect([otherwise.stopError, otherwise.done]).toEqual([null, ['S2', 'S3']]);
    const halves = [
      { from: start, to: start + hour },
      { from: start + 2 * hour, to: start + 3 * hour },
    ];
    const halfway = await runCollect({
      answer: (_, nth) => (nth === 1 || nth === 3 ? Promise.reject(down) : page([])),
      plans: plansOf(4).map((plan) => ({ ...plan, windows: halves })),
    });
    expect([halfway.stopError, halfway.done]).toEqual([null, ['S2', 'S3']]);
  });

  test('is reported even if there is no second symbol', async () => {
    const { stopError, done } = await runCollect({
      answer() {
        throw down;
      },
      plans: plansOf(1),
    });
    expect(stopError).toBe(down);
    expect(done).toEqual([]);
  });

  test('that only fails for ten minutes stops the run, unless it refuses some requests', async () => {
    let minute = 0;
    const monotonicMs = () => minute * 60_000;
    const broken = () => {
      minute++;
      throw failure('transient', 'HTTP 503', 503);
    };
    const ended = await runCollect({ plans: plansOf(60), answer: broken, monotonicMs });
    expect(ended.stopError).toMatchObject({ reason: 'HTTP 503' });
    expect(ended.requests).toHaveLength(20);
    expect([ended.failed.length, ended.failures.length]).toEqual([60, 60]);
    minute = 0;
    const picky = (_: TicksQuery, nth: number) =>
      nth % 10 === 0 ? Promise.reject(failure('refused', 'HTTP 404', 404)) : broken();
    expect((await runCollect({ plans: plansOf(60), answer: picky, monotonicMs })).stopError).toBeNull();
    // Failures in quick succession do not stop the run.
    const quick = await runCollect({
      plans: plansOf(60),
      answer: () => Promise.reject(failure('transient', 'x', 500)),
    });
    expect([quick.stopError, quick.requests.length]).toEqual([null, 60]);
  });

  test('does not stop the run while other requests are answered', async () => {
    const collected = await runCollect({
      // Every second request is answered, so there is a response between two failures.
      answer(_, nth) {
        if (nth % 2 === 0) throw down;
        return page([]);
      },
      plans: plansOf(20),
    });
    expect(collected.stopError).toBeNull();
    expect(collected.done).toHaveLength(10);
  });

  test('keeps the coverage of empty responses received before', async () => {
    const { stopError, done, covered } = await runCollect({
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

  test('stops the run immediately if it refuses the credential', async () => {
    const refused = failure('credential', 'HTTP 401', 401);
    const { stopError, requests } = await runCollect({
      answer() {
        throw refused;
      },
      plans: plansOf(10),
    });
    expect(stopError).toBe(refused);
    expect(requests).toHaveLength(1);
  });
});

describe('an interrupted run', () => {
  test('reports what is done so far', async () => {
    for (const concurrency of [1, 4]) {
      const stop = new AbortController();
      const { done, failed, failures } = await runCollect({
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

  test('throws an error that is not of the upstream', async () => {
    const stop = new AbortController();
    const broken = runCollect({
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
      tail: { lastTick: null, knownTick: start + 1 },
    }));
  const evidenceOf = ({ claims }: Done) => claims.map(({ evidence }) => evidence);

  test('prove nothing alone', async () => {
    const { claims } = await runCollect({ answer: () => page([]), plans: plansOf(1) });
    expect(claims).toEqual([{ ...window, evidence: 'inferred', fetchedAt: later }]);
  });

  test('for half of the symbols with known ticks, at least three, are an outage', async () => {
    const answer = ({ symbol }: TicksQuery) => page(Number(symbol.slice(1)) < 3 ? [] : [start + 1, start + hour]);
    const outage = await runCollect({ answer, plans: polled(6) });
    expect(outage.failures.map(({ symbol, reason }) => [symbol, reason])).toEqual(
      ['S0', 'S1', 'S2'].map((symbol) => [symbol, outageReason]),
    );
    for (const symbol of ['S0', 'S1', 'S2']) expect(outage.covered.get(symbol) ?? []).toEqual([]);
    // Three of seven, or two of two, are not an outage.
    const few = await runCollect({ answer, plans: polled(7) });
    const two = await runCollect({ answer, plans: polled(2) });
    for (const some of [few, two]) expect(some.failures).toEqual([]);
    expect(new Set(evidenceOf(two))).toEqual(new Set(['inferred']));
  });

  test('are no outage if the symbols are requested for the first time', async () => {
    const first = await runCollect({ answer: () => page([]), plans: plansOf(9, true) });
    expect(first.failures).toEqual([]);
    expect(first.done).toHaveLength(9);
  });
});
