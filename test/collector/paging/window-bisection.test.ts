import { describe, expect, test } from 'vitest';
import { UpstreamError, type UpstreamFailure } from '../../../src/base/errors.ts';
import type { TicksQuery } from '../../../src/client/upstream.ts';
import { createServerBehavior, type ServerBehavior } from '../../../src/collector/paging/server-behavior.ts';
import {
  isSizeRefusal,
  noteAcceptedSize,
  partitionOlder,
  planSmallerRequests,
  splitToLength,
  type WindowRequest,
} from '../../../src/collector/paging/window-bisection.ts';

const hour = 3_600_000;
const start = Date.UTC(2026, 6, 1);
const whole = (fromHours: number, toHours: number, part?: WindowRequest['part']): WindowRequest => ({
  from: start + fromHours * hour,
  to: start + toHours * hour,
  ...(part === undefined ? {} : { part }),
});
const failure = (kind: UpstreamFailure, status?: number): UpstreamError =>
  new UpstreamError('page', {
    failure: kind,
    reason: `answered ${status}`,
    ...(status === undefined ? {} : { status }),
  });

/** What to ask in place of an ask that was refused, by a service that takes what `takes` says. */
function refusing(takes: (query: TicksQuery) => boolean, known: Partial<ServerBehavior> = {}) {
  const behavior: ServerBehavior = { ...createServerBehavior(), ...known };
  const asked: string[] = [];
  const page = { t: new Float64Array(0), p: new Float64Array(0), received: 0, rejected: [], gaps: [] };
  const upstream = {
    ticks: async (query: TicksQuery) => {
      asked.push(`${query.symbol} ${(query.from + 1 - start) / hour} to ${(query.to - start) / hour}, ${query.limit}`);
      await Promise.resolve();
      if (!takes(query)) throw failure('refused', 400);
      return { ...page, from: null, to: null, generatedAt: null };
    },
  };
  const { signal } = new AbortController();
  const heard = { responses: 0, refusal: null };
  const ask = async (
    one: WindowRequest,
    limit = 5000,
    symbol = 'S',
    its: { responses: number; refusal: null } = heard,
  ) =>
    (await planSmallerRequests({ upstream, behavior, signal }, symbol, one, limit, its))?.map(
      ({ from, to, part }) => `${(from - start) / hour} to ${(to - start) / hour}, ${part}`,
    ) ?? null;
  return { behavior, asked, heard, ask };
}

describe('a refusal', () => {
  test('may be about how much was asked for, or how old it is', () => {
    for (const status of [400, 413, 416, 422]) expect(isSizeRefusal(failure('refused', status))).toBe(true);
    for (const error of [failure('refused', 404), failure('refused'), failure('transient', 400), new Error('400')])
      expect(isSizeRefusal(error)).toBe(false);
  });

  const edges = {};

  test('of a day is answered by asking for its last hour, and then for its halves, the recent first', async () => {
    const { behavior, asked, heard, ask } = refusing(({ from, to }) => to - from <= 12 * hour, edges);
    expect(await ask(whole(0, 24))).toEqual(['12 to 24, some', '0 to 12, older half']);
    expect(asked).toEqual(['S 23 to 24, 5000']);
    expect(heard.responses).toBe(1);
    expect(behavior).toEqual({ ...createServerBehavior(), ...edges });
    // What a symbol has been answered for needs no more proof.
    expect(await ask(whole(12, 24))).toEqual(['18 to 24, some', '12 to 18, older half']);
    expect(asked).toHaveLength(1);
    expect(await ask({ ...whole(0, 2), to: start + 2 * hour + 1 })).toHaveLength(2);
  });

  test('of the limit is answered by asking for less, the larger first, and the same with that', async () => {
    const { behavior, asked, ask } = refusing(({ limit }) => limit <= 1000, edges);
    expect(await ask(whole(0, 24))).toEqual(['0 to 24, undefined']);
    expect(asked).toEqual(['S 23 to 24, 5000', 'S 23 to 24, 1000']);
    expect(behavior.limit).toBe(1000);
    const lower = refusing(({ limit }) => limit <= 100, edges);
    await lower.ask(whole(0, 24), 1000);
    expect(lower.asked).toEqual(['S 23 to 24, 1000', 'S 23 to 24, 100']);
    expect(lower.behavior).toEqual({ ...createServerBehavior(), ...edges, limit: 100 });
    // Of an hour the same would be the same again.
    const short = refusing(({ limit }) => limit <= 100, edges);
    await short.ask(whole(0, 1));
    expect(short.asked).toEqual(['S 0 to 1, 1000', 'S 0 to 1, 100']);
  });

  test('is not about the limit once one so large was answered', async () => {
    const { behavior, asked, ask } = refusing(({ limit }) => limit < 5000, { ...edges, isLimitConfirmed: true });
    expect(await ask(whole(0, 24))).toBeNull();
    expect(asked).toEqual(['S 23 to 24, 5000']);
    expect(await ask(whole(0, 1))).toBeNull();
    expect(asked).toHaveLength(1);
    expect(behavior).toMatchObject({ limit: Number.POSITIVE_INFINITY, sizeSearchesLeft: 2 });
  });

  test('of all that is tried gives the symbol up, and after four of those no more is tried', async () => {
    const { behavior, asked, heard, ask } = refusing(() => false, edges);
    for (let i = 0; i < 6; i++) expect(await ask(whole(0, 24), 5000, `S${i}`)).toBeNull();
    expect(asked).toHaveLength(4 * 3);
    expect([behavior.sizeSearchesLeft, heard.responses, behavior.sizeSearch]).toEqual([0, 0, null]);
  });

  test('of several symbols at a time is looked into once, and the others ask for less at once', async () => {
    const { asked, ask } = refusing(({ limit }) => limit <= 1000, edges);
    const fresh = () => ({ responses: 0, refusal: null });
    const all = await Promise.all(['A', 'B', 'C'].map((symbol) => ask(whole(0, 24), 5000, symbol, fresh())));
    expect(all).toEqual(all.map(() => ['0 to 24, undefined']));
    expect(asked).toEqual(['A 23 to 24, 5000', 'A 23 to 24, 1000']);
  });

  test('is asked again as it is where shorter windows have been learned to be taken meanwhile', async () => {
    const { behavior, asked, ask } = refusing(() => true, { ...edges, windowMsMax: 6 * hour });
    expect(await ask(whole(0, 24))).toEqual(['0 to 24, undefined']);
    expect(asked).toEqual([]);
    expect(await ask(whole(0, 6))).toEqual(['3 to 6, some', '0 to 3, older half']);
    expect(behavior.windowMsMax).toBe(6 * hour);
  });

  test('of an hour is not about its length', async () => {
    const { ask, heard } = refusing(() => true, edges);
    heard.responses = 1;
    expect(await ask(whole(0, 1))).toBeNull();
    expect(await ask({ ...whole(0, 1), to: start + hour + 1 })).toHaveLength(2);
  });

  test('is cut where another symbol was refused what is older, with an hour more', async () => {
    const { ask, heard } = refusing(() => true, { ...edges, refusedBefore: start + 10 * hour });
    heard.responses = 1;
    expect(await ask(whole(0, 24))).toEqual(['10 to 24, some', '9 to 10, some', '0 to 9, some']);
    for (const one of [whole(9, 24), whole(0, 10)]) expect(await ask(one)).toHaveLength(2);
    expect(await ask({ ...whole(9, 24), from: start + 9 * hour - 1 })).toHaveLength(3);
    expect(await ask({ ...whole(0, 10), to: start + 10 * hour + 1 })).toHaveLength(3);
  });

  test('throws what has nothing to do with size, and leaves the next one free to look', async () => {
    const down = failure('unreachable');
    const behavior = createServerBehavior();
    let requests = 0;
    const upstream = {
      ticks: async () => {
        requests++;
        throw down;
      },
    };
    const { signal } = new AbortController();
    const ask = () =>
      planSmallerRequests({ upstream, behavior, signal }, 'S', whole(0, 24), 5000, { responses: 0, refusal: null });
    const both = await Promise.allSettled([ask(), ask()]);
    expect(both).toEqual([down, down].map((reason) => ({ status: 'rejected', reason })));
    expect([requests, behavior.sizeSearch, behavior.sizeSearchesLeft]).toEqual([2, null, 4]);
  });
});

describe('what is too long', () => {
  test('is cut at the recent end, where it is a window as planned', () => {
    const behavior = { ...createServerBehavior(), windowMsMax: 6 * hour };
    expect(splitToLength(behavior, whole(0, 24))).toEqual([whole(18, 24, 'some'), whole(0, 18)]);
    expect(splitToLength(behavior, whole(0, 6))).toBeUndefined();
    expect(splitToLength(createServerBehavior(), whole(0, 24))).toBeUndefined();
  });

  test('is known once both halves were answered, unless something longer has been', () => {
    const behavior = createServerBehavior();
    noteAcceptedSize(behavior, whole(12, 24, 'some'), 5000);
    expect(behavior).toMatchObject({ windowMsMax: Number.POSITIVE_INFINITY, windowMsAcceptedMax: 12 * hour });
    noteAcceptedSize(behavior, whole(0, 12, 'older half'), 5000);
    expect(behavior.windowMsMax).toBe(12 * hour);
    noteAcceptedSize(behavior, whole(0, 3, 'older half'), 5000);
    expect(behavior).toMatchObject({ windowMsMax: 12 * hour, windowMsAcceptedMax: 12 * hour });
    // An odd number of milliseconds makes halves that differ by one.
    const odd = createServerBehavior();
    noteAcceptedSize(odd, { ...whole(12, 24, 'some'), to: start + 24 * hour + 1 }, 5000);
    noteAcceptedSize(odd, whole(0, 12, 'older half'), 5000);
    expect(odd.windowMsMax).toBe(12 * hour);
    const longer = { ...createServerBehavior(), windowMsAcceptedMax: 12 * hour + 2 };
    noteAcceptedSize(longer, whole(0, 12, 'older half'), 5000);
    expect(longer.windowMsMax).toBe(Number.POSITIVE_INFINITY);
  });

  test('is no longer the limit once one was answered that is as large as may be', () => {
    const behavior = createServerBehavior();
    noteAcceptedSize(behavior, whole(0, 1), 5000);
    expect(behavior.isLimitConfirmed).toBe(true);
    const lowered = { ...createServerBehavior(), limit: 1000 };
    noteAcceptedSize(lowered, whole(0, 1), 999);
    expect(lowered.isLimitConfirmed).toBe(false);
    noteAcceptedSize(lowered, whole(0, 1), 1000);
    expect(lowered.isLimitConfirmed).toBe(true);
    noteAcceptedSize(lowered, whole(0, 1), 1);
    expect(lowered.isLimitConfirmed).toBe(true);
  });
});

test('what is older than a part that was refused is not asked for; remainders and what overlaps it are', () => {
  const asks = [whole(0, 5), whole(0, 6), whole(10, 12)];
  expect(partitionOlder(asks, whole(5, 10, 'some'))).toEqual({ older: [asks[0]], rest: asks.slice(1) });
  expect(partitionOlder(asks, whole(5, 10))).toEqual({ older: [], rest: asks });
});
