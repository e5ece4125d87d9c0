import { describe, expect, test } from 'vitest';
import { union } from '../../src/core/window.ts';
import { cover, settle } from '../../src/ingest/cover.ts';
import { among, every, later, minute, refusal, served, start, window } from './served.ts';

describe('a request', () => {
  test('says what it is for, and its answer is kept as what was asked, by whom and of when', async () => {
    const { context, queries, records, pages } = served(() => ({ times: [], generatedAt: later - 5 }));
    const outcome = await cover(context, 'S', [window]);
    const asked = window;
    expect(queries).toEqual([
      {
        ...{ symbol: 'S', from: start - 1, to: window.to, limit: 5000, askedAt: later },
        meaning: { origin: 'backfill', asked, kind: 'whole' },
      },
    ]);
    const nothing = { t: new Float64Array(0), p: new Float64Array(0) };
    expect(records).toEqual([
      {
        ...{ runId: 'run', symbol: 'S', asked, observedAt: later - 5, origin: 'backfill', rank: 1, rejected: [] },
        ...{ ticks: nothing, covered: [{ ...window, fetchedAt: later - 5 }] },
      },
    ]);
    expect([pages, outcome]).toEqual([[0], { waiting: [], lost: [] }]);
  });

  test('is for as many ticks as the service is known to take', async () => {
    const { context, queries } = served(() => ({}), { limit: 100 });
    await cover(context, 'S', [window]);
    expect(queries[0]!.limit).toBe(100);
  });

  test('is believed as far ahead of the moment of its answer as clocks may differ', async () => {
    for (const [ahead, observedAt] of [
      [minute + 1000, later + minute + 1000],
      [minute + 1001, later],
    ] as const) {
      const { context, records } = served(() => ({ generatedAt: later + ahead }));
      await cover(context, 'S', [window]);
      expect(records[0]!.observedAt).toBe(observedAt);
    }
  });

  test('that goes on names the answer that it goes on from, and a probe the stretch that it is about', async () => {
    const all = every(minute / 2, 120);
    const { context, queries } = served((query) => ({ times: among(all, query, Math.min(query.limit, 50)) }), {
      ...{ cap: 50, capState: 'proved', fromInclusive: true },
    });
    const { lost } = await cover(context, 'S', [window]);
    expect(lost).toEqual([]);
    const [first, last] = [all[0]!, all[49]!];
    expect(queries.map(({ limit, meaning }) => [limit, meaning!.kind])).toEqual([
      ...[
        [5000, 'whole'],
        [1, 'probe'],
        [5000, 'high'],
        [5000, 'high'],
      ],
    ]);
    expect(queries[1]).toMatchObject({
      ...{ symbol: 'S', from: first - 1, to: last + 1 },
      meaning: { origin: 'backfill', asked: { from: first, to: last + 1 }, kind: 'probe' },
    });
    expect(queries[2]).toMatchObject({ from: last, to: window.to });
    expect(queries[2]!.meaning).toEqual({
      ...{ origin: 'backfill', asked: { from: last, to: window.to }, kind: 'high' },
      parent: { count: 50, first, last, observedAt: later },
    });
  });
});

describe('a probe', () => {
  const all = every(minute / 2, 120);
  test('that fails, or tells nothing, is tried once more in a run and then no more', async () => {
    for (const times of [null, [], [start + 7 * minute], [start, start]]) {
      const { context, queries, learned } = served(
        (query) => {
          if (query.limit > 1) return { times: [...among(all, query, 9)] };
          if (times === null) throw refusal();
          return { times };
        },
        { cap: 9, capState: 'proved' },
      );
      expect((await cover(context, 'S', [window])).lost).toEqual([]);
      expect(queries.filter(({ limit }) => limit === 1)).toHaveLength(2);
      expect(learned.probesLeft).toBe(0);
    }
  });

  test('is made by one of those that need it, while the others wait for what it tells', async () => {
    const { context, queries, learned } = served((query) => ({ times: among(all, query, Math.min(query.limit, 50)) }), {
      ...{ cap: 50, capState: 'proved', fromInclusive: true },
    });
    await Promise.all(['A', 'B', 'C'].map((symbol) => cover(context, symbol, [window])));
    expect(queries.filter(({ limit }) => limit === 1).map(({ symbol }) => symbol)).toEqual(['A']);
    expect(queries.filter(({ meaning }) => meaning!.kind === 'low')).toEqual([]);
    expect(learned).toMatchObject({ side: 'earliest', probe: null, probesLeft: 1 });
  });

  test('is not needed after an answer that is not full, and tells nothing where it brought more than it was asked for', async () => {
    const some = served((query) => ({ times: among(all, query) }), { cap: 500, capState: 'proved' });
    await cover(some.context, 'S', [window]);
    expect(some.queries).toHaveLength(1);
    const more = served(
      (query) => (query.limit > 1 ? { times: among(all, query, 9) } : { times: [start], received: 2 }),
      { cap: 9, capState: 'proved' },
    );
    await cover(more.context, 'S', [window]);
    expect(more.learned.side).toBeNull();
  });

  test('that breaks for a fault of ours breaks the run', async () => {
    const { context } = served(
      (query) => {
        if (query.limit === 1) throw new TypeError('a fault of ours');
        return { times: among(all, query, 50) };
      },
      { cap: 50, capState: 'proved' },
    );
    await expect(cover(context, 'S', [window])).rejects.toThrow('a fault of ours');
  });
});

describe('an answer that waits for the end of the run', () => {
  const all = every(minute, 12);

  test('has its ticks kept at once, and is settled by a fuller one of another symbol without a request', async () => {
    const { context, queries, records, learned } = served((query) => ({ times: among(all, query) }));
    const { waiting, lost } = await cover(context, 'S', [window]);
    expect([waiting.length, lost, queries.length]).toEqual([1, [], 1]);
    expect(records).toMatchObject([{ covered: [] }]);
    expect([...records[0]!.ticks.t]).toEqual(all);
    learned.cap = 13;
    expect(await settle(context, waiting[0]!)).toEqual({ waiting: [], lost: [] });
    expect(queries).toHaveLength(1);
    expect(records[1]).toEqual({
      ...records[0]!,
      ...{ ticks: { t: new Float64Array(0), p: new Float64Array(0) }, covered: [{ ...window, fetchedAt: later }] },
    });
  });

  test('is asked on where none came, and leaves nothing waiting', async () => {
    const { context, queries, records } = served((query) => ({ times: among(all, query, query.limit) }));
    const { waiting } = await cover(context, 'S', [window]);
    expect(await settle(context, waiting[0]!)).toEqual({ waiting: [], lost: [] });
    expect(queries.map(({ meaning }) => meaning!.kind)).toEqual(['whole', 'probe', 'high']);
    expect(union(records.flatMap(({ covered }) => covered))).toEqual([window]);
    expect(records.every(({ ticks, covered }) => ticks.t.length + covered.length > 0)).toBe(true);
  });

  test('says what of it the service does not bring, and keeps no record of nothing', async () => {
    const times = every(minute, 12).slice(1);
    const { context, records } = served((_, nth) => {
      if (nth === 1) return { times, from: start + minute / 2, to: window.to };
      return { from: 0, to: 0 };
    });
    const { waiting } = await cover(context, 'S', [window]);
    const { lost } = await settle(context, waiting[0]!);
    const reason = 'the service does not answer for this window';
    expect(lost).toEqual([
      { from: start, to: start + minute + 1, reason },
      { from: start + 11 * minute, to: window.to, reason },
    ]);
    const silent = { ...waiting[0]!, answer: { ...waiting[0]!.answer, spoke: false } };
    const before = records.length;
    expect((await settle(context, silent)).lost).toEqual([{ ...window, reason }]);
    expect(records.length).toBe(before);
  });

  test('leaves nothing waiting of the past that it goes on to, though that is as full', async () => {
    const keptFrom = start + 30 * minute;
    const page = (from: number) => Array.from({ length: 12 }, (_, i) => from + i * minute);
    const { context } = served(({ from, to, limit }) => {
      if (limit === 1) return { times: [] };
      if (to <= keptFrom + minute) return { times: among(page(start), { from, to }) };
      return { times: among(page(keptFrom), { from, to }), from: Math.max(from, keptFrom), to };
    });
    const { waiting } = await cover(context, 'S', [window]);
    expect(waiting).toHaveLength(1);
    expect(await settle(context, waiting[0]!)).toEqual({ waiting: [], lost: [] });
  });
});
