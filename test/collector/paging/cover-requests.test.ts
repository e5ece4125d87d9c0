import { describe, expect, test } from 'vitest';
import { fetchSymbol } from '../../../src/collector/paging/fetch-symbol.ts';
import {
  createScriptedContext,
  every,
  later,
  minute,
  refusal,
  selectTicks,
  start,
  toPlainPlans,
  window,
} from './served.ts';

describe('a request', () => {
  test('states its purpose, and its response is stored with it', async () => {
    const { context, queries, records, pages } = createScriptedContext(() => ({ times: [], generatedAt: later - 5 }));
    const outcome = await fetchSymbol(context, 'S', toPlainPlans(window));
    const requested = window;
    expect(queries).toEqual([
      {
        symbol: 'S',
        from: start - 1,
        to: window.to,
        limit: 5000,
        askedAt: later,
        meaning: { origin: 'backfill', asked: requested, kind: 'whole' },
      },
    ]);
    const nothing = { t: new Float64Array(0), p: new Float64Array(0) };
    expect(records).toEqual([
      {
        runId: 'run',
        symbol: 'S',
        requestedWindow: requested,
        observedAt: later - 5,
        origin: 'backfill',
        rank: 1,
        rejected: [],
        ticks: nothing,
        covered: [],
      },
    ]);
    const empties = [
      {
        symbol: 'S',
        ...window,
        observedAt: later - 5,
        lacksKnownTick: false,
        hasOthers: false,
        sent: expect.anything(),
      },
    ];
    expect([pages, outcome]).toEqual([[0], { edges: [], empties, lost: [] }]);
  });

  test('has the largest limit that the server is known to accept', async () => {
    const { context, queries } = createScriptedContext(() => ({}), { limit: 100 });
    await fetchSymbol(context, 'S', toPlainPlans(window));
    expect(queries[0]!.limit).toBe(100);
  });

  test('accepts a response time up to the allowed skew ahead', async () => {
    for (const [ahead, observedAt] of [
      [minute + 1000, later + minute + 1000],
      [minute + 1001, later],
    ] as const) {
      const { context, records } = createScriptedContext(() => ({ generatedAt: later + ahead }));
      await fetchSymbol(context, 'S', toPlainPlans(window));
      expect(records[0]!.observedAt).toBe(observedAt);
    }
  });

  test('at a side begins at the outermost tick of the page before', async () => {
    const all = every(minute / 2, 120);
    const { context, queries, records } = createScriptedContext((query) => ({ times: selectTicks(all, query, 50) }));
    expect((await fetchSymbol(context, 'S', toPlainPlans(window))).lost).toEqual([]);
    expect(queries[0]!.meaning!.kind).toBe('whole');
    expect(new Set(queries.slice(1).map(({ meaning }) => meaning!.kind))).toEqual(new Set(['low', 'high']));
    const high = queries.filter(({ meaning }) => meaning!.kind === 'high');
    for (const { meaning, to } of high) {
      expect(all).toContain(meaning!.asked.from);
      expect([meaning!.asked.to, to]).toEqual([window.to, window.to]);
    }
    expect(records.flatMap(({ covered }) => covered).at(-1)).toMatchObject({
      from: all[0],
      to: all.at(-1)! + 1,
      evidence: 'confirmed',
    });
    // Three pages, and one more request at each side.
    expect(queries).toHaveLength(3 + 2);
  });

  test('that fails with a bug fails the run', async () => {
    const all = every(minute / 2, 120);
    const { context } = createScriptedContext((query, nth) => {
      if (nth > 1) throw new TypeError('a bug');
      return { times: selectTicks(all, query, 50) };
    });
    await expect(fetchSymbol(context, 'S', toPlainPlans(window))).rejects.toThrow('a bug');
  });

  test('that is refused leaves a gap, and keeps the ticks received before', async () => {
    const all = every(minute, 12);
    const { context, records } = createScriptedContext((query, nth) => {
      if (nth > 1) throw refusal();
      return { times: selectTicks(all, query) };
    });
    const reason = 'the service does not serve this window';
    expect((await fetchSymbol(context, 'S', toPlainPlans(window))).lost).toEqual([
      { from: all.at(-1)! + 1, to: window.to, reason },
    ]);
    expect([...records[0]!.ticks.t]).toEqual(all);
    const proven = records.flatMap(({ covered }) => covered.filter(({ evidence }) => evidence === 'confirmed'));
    expect(proven).toMatchObject([{ to: all.at(-1) }]);
  });
});
