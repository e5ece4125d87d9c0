import { describe, expect, test } from 'vitest';
import { systemClock } from '../../src/base/system.ts';
import { createRateLimit, formatRateHeaders, type LimiterKind, limiterKinds } from '../../src/sandbox/rate-limit.ts';
import { openSandbox, sendRequest } from './sandbox-requests.ts';

/** Times at which a limit of 4 per second allows a request, with one request every 50 ms for 3 s. */
function passedAt(kind: LimiterKind): number[] {
  const limit = createRateLimit();
  return Array.from({ length: 60 }, (_, i) => 10_300 + i * 50).filter((at) => limit.take(at, 4, kind).waitMs === 0);
}

describe('a limit of four a second', () => {
  test.each<[LimiterKind, string, number[]]>([
    ['sliding', 'slides', [0, 50, 100, 150, 1000, 1050, 1100, 1150, 2000]],
    ['fixed', 'resets each second, so that two bursts can be adjacent', [0, 50, 100, 150, 700, 750, 800, 850, 1700]],
    ['bucket', 'is a bucket that refills steadily', [0, 50, 100, 150, 250, 500, 750, 1000, 1250]],
  ])('%s: %s', (kind, _, passed) => {
    expect(
      passedAt(kind)
        .slice(0, 9)
        .map((at) => at - 10_300),
    ).toEqual(passed);
  });

  test.each(limiterKinds)('states the wait and the remaining requests, %s', (kind) => {
    const limit = createRateLimit();
    const decisions = Array.from({ length: 5 }, () => limit.take(10_300, 4, kind));
    expect(decisions.map(({ remaining }) => remaining)).toEqual([3, 2, 1, 0, 0]);
    const { waitMs } = decisions[4]!;
    expect(limit.take(10_300 + waitMs - 1, 4, kind).waitMs).toBeGreaterThan(0);
    expect(limit.take(10_300 + waitMs, 4, kind).waitMs).toBe(0);
  });
});

test('sends the limit in every header form, with responses and refusals', async () => {
  const clock = { ...systemClock, monotonicMs: () => 10_300 };
  const box = await openSandbox({ requestsPerSecond: 2, limiter: 'fixed', rateHeaders: 'draft' }, { clock });
  const headersOf = async (...names: string[]) => {
    const { headers, status } = await sendRequest(box, 'markets', { limit: 1 });
    return [status, ...names.map((name) => headers.get(name))];
  };
  const draft = ['ratelimit-policy', 'ratelimit'];
  expect(await headersOf(...draft)).toEqual([200, '"default";q=2;w=1', '"default";r=1;t=1']);
  box.set({ rateHeaders: 'old' });
  const old = ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset', 'ratelimit-policy'];
  expect(await headersOf(...old)).toEqual([200, '2', '0', '1', '2;w=1']);
  expect(await headersOf(...old)).toEqual([429, '2', '0', '1', '2;w=1']);
  box.set({ rateHeaders: 'none' });
  expect(await headersOf(...draft, ...old)).toEqual([429, null, null, null, null, null, null]);
  const decision = { waitMs: 0, quota: 2, spanMs: 1000, remaining: 1, resetMs: 700 };
  expect(formatRateHeaders(decision, 'x', 5_000_400)).toMatchObject({
    'x-ratelimit-reset': '5002',
    'x-ratelimit-remaining': '1',
  });
});
