import { describe, expect, test } from 'vitest';
import { claimEmptyResponse, fetchSymbol } from '../../../src/collector/paging/fetch-symbol.ts';
import { among, every, later, minute, plainly, refusal, served, start, window } from './served.ts';

describe('a request', () => {
  test('says what it is for, and its answer is kept as what was asked, by whom and of when', async () => {
    const { context, queries, records, pages } = served(() => ({ times: [], generatedAt: later - 5 }));
    const outcome = await fetchSymbol(context, 'S', plainly(window));
    const asked = window;
    expect(queries).toEqual([
      {
        symbol: 'S',
        from: start - 1,
        to: window.to,
        limit: 5000,
        askedAt: later,
        meaning: { origin: 'backfill', asked, kind: 'whole' },
      },
    ]);
    const nothing = { t: new Float64Array(0), p: new Float64Array(0) };
    expect(records).toEqual([
      {
        runId: 'run',
        symbol: 'S',
        requestedWindow: asked,
        observedAt: later - 5,
        origin: 'backfill',
        rank: 1,
        rejected: [],
        ticks: nothing,
        covered: [],
      },
    ]);
    const empties = [{ symbol: 'S', ...window, observedAt: later - 5, lacksKnownTick: false }];
    expect([pages, outcome]).toEqual([[0], { empties, presumed: [], lost: [] }]);
  });

  test('is for as many ticks as the service is known to take', async () => {
    const { context, queries } = served(() => ({}), { limit: 100 });
    await fetchSymbol(context, 'S', plainly(window));
    expect(queries[0]!.limit).toBe(100);
  });

  test('is believed as far ahead of the moment of its answer as clocks may differ', async () => {
    for (const [ahead, observedAt] of [
      [minute + 1000, later + minute + 1000],
      [minute + 1001, later],
    ] as const) {
      const { context, records } = served(() => ({ generatedAt: later + ahead }));
      await fetchSymbol(context, 'S', plainly(window));
      expect(records[0]!.observedAt).toBe(observedAt);
    }
  });

  test('that goes on at a side says so, begins in the page before, and is claimed by what both brought', async () => {
    const all = every(minute / 2, 120);
    const { context, queries, records } = served((query) => ({ times: among(all, query, 50) }));
    expect((await fetchSymbol(context, 'S', plainly(window))).lost).toEqual([]);
    expect(queries[0]!.meaning!.kind).toBe('whole');
    // The last of all, for the widest gap between two ticks, is a whole one.
    expect(new Set(queries.slice(1, -1).map(({ meaning }) => meaning!.kind))).toEqual(new Set(['low', 'high']));
    const high = queries.filter(({ meaning }) => meaning!.kind === 'high');
    for (const { meaning, to } of high) {
      expect(all).toContain(meaning!.asked.from);
      expect([meaning!.asked.to, to]).toEqual([window.to, window.to]);
    }
    expect(records.flatMap(({ covered }) => covered).at(-1)).toMatchObject({ ...window, evidence: 'confirmed' });
    // Three pages, two confirmations, and the ends of a server that is not known yet.
    expect(queries.length).toBeLessThanOrEqual(3 + 2 + 4);
  });

  test('that contradicts an earlier one has what was claimed withdrawn, durably, before it is claimed again', async () => {
    const all = every(minute, 40);
    const { context, records } = served((query, nth) => ({
      times: among(all, query, 25).filter((t) => t !== all[30] || nth > 4),
    }));
    expect((await fetchSymbol(context, 'S', plainly(window))).lost).toEqual([]);
    const withdrawnAt = records.findIndex(({ withdrawn = [] }) => withdrawn.length > 0);
    expect(records[withdrawnAt]).toMatchObject({ covered: [], withdrawn: [window] });
    expect(records.slice(0, withdrawnAt).flatMap(({ covered }) => covered)).not.toEqual([]);
    expect(records.slice(withdrawnAt).flatMap(({ ticks }) => [...ticks.t])).toContain(all[30]);
  });

  test('that breaks for a fault of ours breaks the run', async () => {
    const all = every(minute / 2, 120);
    const { context } = served((query, nth) => {
      if (nth > 1) throw new TypeError('a fault of ours');
      return { times: among(all, query, 50) };
    });
    await expect(fetchSymbol(context, 'S', plainly(window))).rejects.toThrow('a fault of ours');
  });

  test('that is refused leaves what it was for as a gap, and the ticks that are there', async () => {
    const all = every(minute, 12);
    const { context, records } = served((query, nth) => {
      if (nth > 1) throw refusal();
      return { times: among(all, query) };
    });
    const reason = 'the service does not answer for this window';
    expect((await fetchSymbol(context, 'S', plainly(window))).lost).toEqual([
      { from: all.at(-1)! + 1, to: window.to, reason },
    ]);
    expect([...records[0]!.ticks.t]).toEqual(all);
    expect(records.flatMap(({ covered }) => covered.map(({ evidence }) => evidence))).not.toContain('confirmed');
  });
});

describe('an empty response', () => {
  const empty = { symbol: 'S', ...window, observedAt: later, lacksKnownTick: false };

  test('confirms its window from the oldest tick on that the server ever showed, and is provisional before it', async () => {
    const { context, records } = served(() => ({}));
    const oldest = start + 10 * minute;
    await claimEmptyResponse(context, empty, oldest);
    expect(records.flatMap(({ covered }) => covered)).toEqual([
      { from: start, to: oldest, evidence: 'inferred', fetchedAt: later },
      { from: oldest, to: window.to, evidence: 'confirmed', fetchedAt: later },
    ]);
  });

  test('confirms nothing where it lacks the tick that it was to begin with', async () => {
    const { context, records } = served(() => ({}));
    await claimEmptyResponse(context, { ...empty, lacksKnownTick: true }, start);
    expect(records.flatMap(({ covered }) => covered)).toMatchObject([{ ...window, evidence: 'inferred' }]);
  });
});
