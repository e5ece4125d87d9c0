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
    reason: `HTTP ${status}`,
    ...(status === undefined ? {} : { status }),
  });

/** Plans what to request in place of a refused request, from a server that accepts what `takes` returns true for. */
function refusing(takes: (query: TicksQuery) => boolean, known: Partial<ServerBehavior> = {}) {
  const behavior: ServerBehavior = { ...createServerBehavior(), ...known };
  const requests: string[] = [];
  const page = { t: new Float64Array(0), p: new Float64Array(0), received: 0, rejected: [], gaps: [] };
  const upstream = {
    ticks: async (query: TicksQuery) => {
      requests.push(
        `${query.symbol} ${(query.from + 1 - start) / hour} to ${(query.to - start) / hour}, ${query.limit}`,
      );
      await Promise.resolve();
      if (!takes(query)) throw failure('refused', 400);
      return { ...page, from: null, to: null, generatedAt: null };
    },
  };
  const { signal } = new AbortController();
  const responses = { responses: 0, refusal: null };
  const plan = async (
    one: WindowRequest,
    limit = 5000,
    symbol = 'S',
    its: { responses: number; refusal: null } = responses,
  ) =>
    (await planSmallerRequests({ upstream, behavior, signal }, symbol, one, limit, its))?.map(
      ({ from, to, part }) => `${(from - start) / hour} to ${(to - start) / hour}, ${part}`,
    ) ?? null;
  return { behavior, requests, responses, plan };
}

describe('a refusal', () => {
  test('may concern the size or the age of a request', () => {
    for (const status of [400, 413, 416, 422]) expect(isSizeRefusal(failure('refused', status))).toBe(true);
    for (const error of [failure('refused', 404), failure('refused'), failure('transient', 400), new Error('400')])
      expect(isSizeRefusal(error)).toBe(false);
  });

  const edges = {};

  test('of a day is followed by its last hour, and then its halves, the recent one first', async () => {
    const { behavior, requests, responses, plan } = refusing(({ from, to }) => to - from <= 12 * hour, edges);
    expect(await plan(whole(0, 24))).toEqual(['12 to 24, some', '0 to 12, older half']);
    expect(requests).toEqual(['S 23 to 24, 5000']);
    expect(responses.responses).toBe(1);
    expect(behavior).toEqual({ ...createServerBehavior(), ...edges });
    // A symbol with a response needs no further proof.
    expect(await plan(whole(12, 24))).toEqual(['18 to 24, some', '12 to 18, older half']);
    expect(requests).toHaveLength(1);
    expect(await plan({ ...whole(0, 2), to: start + 2 * hour + 1 })).toHaveLength(2);
  });

  test('of the limit is followed by smaller limits, the larger one first', async () => {
    const { behavior, requests, plan } = refusing(({ limit }) => limit <= 1000, edges);
    expect(await plan(whole(0, 24))).toEqual(['0 to 24, undefined']);
    expect(requests).toEqual(['S 23 to 24, 5000', 'S 23 to 24, 1000']);
    expect(behavior.limit).toBe(1000);
    const lower = refusing(({ limit }) => limit <= 100, edges);
    await lower.plan(whole(0, 24), 1000);
    expect(lower.requests).toEqual(['S 23 to 24, 1000', 'S 23 to 24, 100']);
    expect(lower.behavior).toEqual({ ...createServerBehavior(), ...edges, limit: 100 });
    // For an hour, the same request would be repeated.
    const short = refusing(({ limit }) => limit <= 100, edges);
    await short.plan(whole(0, 1));
    expect(short.requests).toEqual(['S 0 to 1, 1000', 'S 0 to 1, 100']);
  });

  test('does not concern the limit after a response with the same limit', async () => {
    const { behavior, requests, plan } = refusing(({ limit }) => limit < 5000, { ...edges, isLimitConfirmed: true });
    expect(await plan(whole(0, 24))).toBeNull();
    expect(requests).toEqual(['S 23 to 24, 5000']);
    expect(await plan(whole(0, 1))).toBeNull();
    expect(requests).toHaveLength(1);
    expect(behavior).toMatchObject({ limit: Number.POSITIVE_INFINITY, sizeSearchesLeft: 2 });
  });

  test('of everything gives the symbol up, and after four symbols nothing more is tried', async () => {
    const { behavior, requests, responses, plan } = refusing(() => false, edges);
    for (let i = 0; i < 6; i++) expect(await plan(whole(0, 24), 5000, `S${i}`)).toBeNull();
    expect(requests).toHaveLength(4 * 3);
    expect([behavior.sizeSearchesLeft, responses.responses, behavior.sizeSearch]).toEqual([0, 0, null]);
  });

  test('of several concurrent symbols is investigated once', async () => {
    const { requests, plan } = refusing(({ limit }) => limit <= 1000, edges);
    const fresh = () => ({ responses: 0, refusal: null });
    const all = await Promise.all(['A', 'B', 'C'].map((symbol) => plan(whole(0, 24), 5000, symbol, fresh())));
    expect(all).toEqual(all.map(() => ['0 to 24, undefined']));
    expect(requests).toEqual(['A 23 to 24, 5000', 'A 23 to 24, 1000']);
  });

  test('is repeated if shorter windows are known to be accepted meanwhile', async () => {
    const { behavior, requests, plan } = refusing(() => true, { ...edges, windowMsMax: 6 * hour });
    expect(await plan(whole(0, 24))).toEqual(['0 to 24, undefined']);
    expect(requests).toEqual([]);
    expect(await plan(whole(0, 6))).toEqual(['3 to 6, some', '0 to 3, older half']);
    expect(behavior.windowMsMax).toBe(6 * hour);
  });

  test('of an hour does not concern its length', async () => {
    const { plan, responses } = refusing(() => true, edges);
    responses.responses = 1;
    expect(await plan(whole(0, 1))).toBeNull();
    expect(await plan({ ...whole(0, 1), to: start + hour + 1 })).toHaveLength(2);
  });

  test("is split where another symbol's history begins, with one hour more", async () => {
    const { plan, responses } = refusing(() => true, { ...edges, refusedBefore: start + 10 * hour });
    responses.responses = 1;
    expect(await plan(whole(0, 24))).toEqual(['10 to 24, some', '9 to 10, some', '0 to 9, some']);
    for (const one of [whole(9, 24), whole(0, 10)]) expect(await plan(one)).toHaveLength(2);
    expect(await plan({ ...whole(9, 24), from: start + 9 * hour - 1 })).toHaveLength(3);
    expect(await plan({ ...whole(0, 10), to: start + 10 * hour + 1 })).toHaveLength(3);
  });

  test('throws other errors and allows the next search', async () => {
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
    const plan = () =>
      planSmallerRequests({ upstream, behavior, signal }, 'S', whole(0, 24), 5000, { responses: 0, refusal: null });
    const both = await Promise.allSettled([plan(), plan()]);
    expect(both).toEqual([down, down].map((reason) => ({ status: 'rejected', reason })));
    expect([requests, behavior.sizeSearch, behavior.sizeSearchesLeft]).toEqual([2, null, 4]);
  });
});

describe('the accepted window length', () => {
  test('cuts a longer window at its recent end; the rest overlaps it', () => {
    const behavior = { ...createServerBehavior(), windowMsMax: 6 * hour };
    expect(splitToLength(behavior, whole(0, 24))).toEqual([whole(18, 24, 'some'), whole(0, 18.5)]);
    expect(splitToLength(behavior, whole(0, 6))).toBeUndefined();
    expect(splitToLength(createServerBehavior(), whole(0, 24))).toBeUndefined();
  });

  test('is known after both halves were answered, unless a longer one was', () => {
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

  test('is not confused with the limit, which is confirmed by a response', () => {
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

test('requests older than a refused part are dropped; remainders and overlapping ones are kept', () => {
  const asks = [whole(0, 5), whole(0, 6), whole(10, 12)];
  expect(partitionOlder(asks, whole(5, 10, 'some'))).toEqual({ older: [asks[0]], rest: asks.slice(1) });
  expect(partitionOlder(asks, whole(5, 10))).toEqual({ older: [], rest: asks });
});
