import { expect, test } from 'vitest';
import { isStale, planTail, type TailFacts, type TailRules } from '../../../src/server/live/refresh-policy.ts';

const now = Date.UTC(2026, 5, 4, 12);
const hourMs = 3_600_000;
const open: TailFacts = {
  coveredTo: now - 60_000,
  opensAt: null,
  endsAt: Number.POSITIVE_INFINITY,
  lostTo: null,
  ticksPerMs: null,
};
const rules: TailRules = { maxAgeMs: 5000, pageLimit: 5000, overlapMs: 30_000 };
const plan = (facts: Partial<TailFacts> = {}, to = now) => planTail({ ...open, ...facts }, to, now, rules);

test('data is stale if it is older than the maximum age, or missing', () => {
  expect([isStale(null, now, 5000), isStale(now - 5001, now, 5000)]).toEqual([true, true]);
  expect([isStale(now - 5000, now, 5000), isStale(now, now, 5000), isStale(now + 9e9, now, 5000)]).toEqual([
    false,
    false,
    false,
  ]);
});

test('reads from the end of the coverage, with the overlap, up to now', () => {
  expect(plan()).toEqual({ from: now - 90_000, to: now });
  expect(plan({ coveredTo: now - 5001 })).toEqual({ from: now - 35_001, to: now });
  // Even if the request ends a little earlier: the response then serves the next request too.
  expect(plan({}, now - 1000)).toEqual({ from: now - 90_000, to: now });
});

test('reads nothing if the archive is fresh, or has what is requested', () => {
  expect(plan({ coveredTo: now - 5000 })).toBeNull();
  expect(plan({ coveredTo: now + 1 })).toBeNull();
  expect(plan({}, now - 60_000)).toBeNull();
  expect(plan({}, now - 59_999)).not.toBeNull();
});

test('reads nothing after the end of a symbol', () => {
  expect(plan({ coveredTo: now - hourMs, endsAt: now - hourMs })).toBeNull();
  expect(plan({ coveredTo: now - hourMs, endsAt: now - hourMs + 1 })).not.toBeNull();
});

test('a long tail is the work of the collector: only its last part is read', () => {
  const longAgo = now - 40 * 24 * hourMs;
  expect(plan({ coveredTo: longAgo })).toEqual({ from: now - hourMs, to: now });
  expect(plan({ coveredTo: longAgo, ticksPerMs: 1e-9 })).toEqual({ from: now - 24 * hourMs, to: now });
  // Four pages of 5000 ticks, at one tick in 100 ms.
  expect(plan({ coveredTo: longAgo, ticksPerMs: 0.01 })).toEqual({ from: now - 2_000_000, to: now });
  expect(plan({ coveredTo: longAgo, ticksPerMs: 1e6 })).toEqual({ from: now - 60_000, to: now });
  // A request for a window before that part gets nothing from it.
  expect(plan({ coveredTo: longAgo }, now - hourMs)).toBeNull();
});

test('without coverage, reads from the opening, if that is not long ago', () => {
  expect(plan({ coveredTo: null })).toEqual({ from: now - hourMs, to: now });
  expect(plan({ coveredTo: null, opensAt: now - 10_000 })).toEqual({ from: now - 10_000, to: now });
  expect(plan({ coveredTo: null, opensAt: now + 10_000 })).toBeNull();
});

test('no part of a lost window is read', () => {
  expect(plan({ coveredTo: now - hourMs, lostTo: now - 20_000 })).toEqual({ from: now - 20_000, to: now });
});
