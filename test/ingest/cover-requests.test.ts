import { describe, expect, test } from 'vitest';
import { UpstreamError } from '../../src/core/errors.ts';
import { union, type Window, within } from '../../src/core/window.ts';
import { type CoverContext, cover, settle } from '../../src/ingest/cover.ts';
import { type Learned, nothingLearned } from '../../src/ingest/learned.ts';
import type { TickRecord } from '../../src/state/journal.ts';
import type { TickPage, TicksQuery } from '../../src/upstream/upstream.ts';

const minute = 60_000;
const start = Date.UTC(2026, 6, 1);
const window: Window = { from: start, to: start + 60 * minute };
const later = window.to + 60 * minute;

type Answers = (query: TicksQuery, nth: number) => Partial<TickPage> & { readonly times?: readonly number[] };

/** A service and its clock, which moves on by a second for each answer, with all that is asked and made durable. */
function served(answers: Answers, known: Partial<Learned> = {}, rest: Partial<CoverContext> = {}) {
  const queries: TicksQuery[] = [];
  const records: TickRecord[] = [];
  const pages: number[] = [];
  const learned: Learned = { ...nothingLearned(), ...known };
  let nowMs = later;
  const context: CoverContext = {
    upstream: {
      async ticks(query) {
        const nth = queries.push(query);
        if (nth > 500) throw new Error('it goes round in circles');
        await Promise.resolve();
        const { times = [], ...said } = answers(query, nth);
        nowMs += 1000;
        const t = Float64Array.from(times);
        const page = { t, p: t.map(() => 0.5), received: times.length, rejected: [], gaps: [] };
        return { ...page, from: null, to: null, generatedAt: null, ...said };
      },
    },
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs, sleep: async () => {} },
    ...{ runId: 'run', origin: 'backfill', learned, pageLimit: 5000, futureSkewMs: minute },
    signal: new AbortController().signal,
    append: async (record) => void records.push(record),
    onPage: (ticks) => void pages.push(ticks),
    ...rest,
  };
  return { context, queries, records, pages, learned };
}

const every = (stepMs: number, count: number): number[] => Array.from({ length: count }, (_, i) => start + i * stepMs);
/** Those of the window asked for, of a service that keeps the earliest. */
const among = (times: readonly number[], { from, to }: Window, cap = 5000) =>
  times.filter((t) => within(t, { from, to })).slice(0, cap);
const refusal = (status = 400): UpstreamError =>
  new UpstreamError('tick page', { failure: 'refused', reason: `answered ${status}`, status });

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

describe('what is lost', () => {
  test('is what the service names as a gap, of what was asked', async () => {
    const gaps = [{ from: start - minute, to: start + minute }];
    const { context } = served(() => ({ gaps }));
    const reason = 'the service says that it lacks this window';
    expect((await cover(context, 'S', [window])).lost).toEqual([{ from: start, to: start + minute, reason }]);
  });

  test('is an answer of which nothing can be used, whatever it states to cover', async () => {
    const rejected = [{ reason: 'p is missing', raw: '{}' }];
    const { context, records, learned } = served(() => ({ received: 1, rejected }));
    expect((await cover(context, 'S', [window])).lost).toEqual([
      { ...window, reason: 'none of 1 tick can be used: p is missing' },
    ]);
    expect(records).toMatchObject([{ rejected, covered: [] }]);
    expect(learned.capState).toBe('unseen');
    const two = served(() => ({ received: 2, rejected: [...rejected, ...rejected] }));
    expect((await cover(two.context, 'S', [window])).lost[0]!.reason).toBe('none of 2 ticks can be used: p is missing');
  });

  test('is what lies after the moment of an answer that is an hour old, and nothing after a younger one', async () => {
    const stale = served(() => ({ generatedAt: start }));
    expect((await cover(stale.context, 'S', [window])).lost).toEqual([
      { ...window, reason: 'the service answers as of an earlier moment' },
    ]);
    const fresh = served(() => ({ generatedAt: start + 1 }));
    expect((await cover(fresh.context, 'S', [window])).lost).toEqual([]);
  });

  test('is a window that is refused where another is answered; a symbol refused for all fails with the first refusal', async () => {
    const windows = [0, 1].map((i) => ({ from: start + i * 10 * minute, to: start + (i * 10 + 5) * minute }));
    const some = served(({ to }) => {
      if (to === windows[1]!.to) throw refusal();
      return {};
    });
    expect((await cover(some.context, 'S', windows)).lost).toEqual([{ ...windows[1], reason: 'answered 400' }]);
    const errors: UpstreamError[] = [];
    const none = served(() => {
      errors.push(refusal());
      throw errors.at(-1)!;
    });
    const failed: unknown = await cover(none.context, 'S', windows).catch((error: unknown) => error);
    expect(failed).toBe(errors[0]);
  });

  test('is nothing where nothing is to be asked, and a silent answer tells nothing of the past of others', async () => {
    expect(await cover(served(() => ({})).context, 'S', [])).toEqual({ waiting: [], lost: [] });
    const silent = served(() => ({ from: 0, to: 0 }));
    expect((await cover(silent.context, 'S', [window])).lost).toMatchObject([window]);
    expect(silent.learned.refusesEarlier).toBe(false);
  });

  test('is not what lies before the start that the service states, where asking for it fails in passing', async () => {
    const failing = new UpstreamError('tick page', { failure: 'transient', reason: 'answered 500', status: 500 });
    const { context } = served(({ from, to }, nth) => {
      if (nth > 1) throw failing;
      return { from: from + minute, to };
    });
    await expect(cover(context, 'S', [window])).rejects.toBe(failing);
  });

  test('is not asked again where it lies before the start that the service states', async () => {
    const keptFrom = start + 20 * minute;
    for (const refuses of [true, false]) {
      const { context, queries, learned } = served(
        ({ from, to }) => {
          if (to > keptFrom + 1) return { from: Math.max(from, keptFrom), to };
          if (refuses) throw refusal();
          return { from: keptFrom, to: keptFrom };
        },
        { fromInclusive: true },
      );
      for (const symbol of ['A', 'B']) {
        const { lost } = await cover(context, symbol, [window]);
        expect(lost).toEqual([{ from: start, to: keptFrom, reason: 'the service does not answer for this window' }]);
      }
      expect(queries.map(({ symbol, meaning }) => `${symbol} ${meaning!.kind}`)).toEqual([
        ...['A whole', 'A earlier', 'B whole'],
      ]);
      expect(learned.refusesEarlier).toBe(true);
    }
  });
});

describe('a service that brings hardly anything', () => {
  /** Answers for a second at a time. */
  const creeping = ({ from, to }: Window) => ({ from, to: Math.min(to, from + 1001) });

  test('is given up after twenty such answers and one more, with all that is still to be asked', async () => {
    const { context, queries, records } = served(creeping, { fromInclusive: true });
    const { lost } = await cover(context, 'S', [window]);
    expect(queries).toHaveLength(21);
    const to = start + 21 * 1001;
    expect(union(records.flatMap(({ covered }) => covered))).toEqual([{ from: start, to }]);
    expect(lost).toEqual([{ from: to, to: window.to, reason: 'the service does not answer for this window' }]);
  });

  test('is not, where one of twenty-one speaks for a minute', async () => {
    const { context, queries } = served(
      (query, nth) =>
        nth % 20 === 0 ? { from: query.from, to: Math.min(query.to, query.from + 20 * minute) } : creeping(query),
      { fromInclusive: true },
    );
    expect((await cover(context, 'S', [window])).lost).toEqual([]);
    expect(queries.length).toBeGreaterThan(40);
  });
});
