import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { timeEnd, timeMin } from '../../../src/base/time.ts';
import { findStalePart } from '../../../src/collector/paging/fetch-steps.ts';
import {
  findTimeFlaw,
  observePage,
  resolveObservedAt,
  validateTicks,
} from '../../../src/collector/paging/observation.ts';

const from = Date.UTC(2026, 6, 1);
const requested = { from, to: from + 1000 };
const future = from + 500_000;
const page = (ticks: readonly (readonly [number, number])[], rejected: { reason: string; raw: string }[] = []) => ({
  t: Float64Array.from(ticks, ([t]) => t),
  p: Float64Array.from(ticks, ([, p]) => p),
  rejected,
});

describe('a page of ticks', () => {
  test('keeps the ticks in the requested window, in order', () => {
    const { ticks, rejected, outsideCount } = validateTicks(
      page([
        [from + 5, 0.5],
        [from, 0.4],
        [requested.to, 0.3],
        [from - 1, 0.2],
        [requested.to - 1, 0.1],
      ]),
      requested,
      future,
    );
    expect([...ticks.t]).toEqual([from + 5, from, requested.to - 1]);
    expect([...ticks.p]).toEqual([0.5, 0.4, 0.1]);
    expect(rejected).toEqual([]);
    expect(outsideCount).toBe(2);
  });

  test('shows all ticks of the request, however few of them are kept', () => {
    const answer = page([2, 4, 6, 8].map((ms) => [from + ms, 0.5] as const));
    const { observation } = observePage(
      { ...answer, received: 4, gaps: [], from: null, to: null, generatedAt: null },
      { from: from + 5, to: from + 7 },
      { requested, limit: 100, sentAt: from + 900, futureMs: future },
    );
    expect([...observation.times]).toEqual([from + 6]);
    expect([...observation.shownTimes]).toEqual([2, 4, 6, 8].map((ms) => from + ms));
    expect(observation.shown).toMatchObject({ count: 4, first: from + 2, last: from + 8 });
  });

  test.each<[string, number, number]>([
    ['t is not a whole number of milliseconds', from + 0.5, 0.5],
    ['t is not a whole number of milliseconds', Number.NaN, 0.5],
    ['t is outside the years 2000 to 2100', Math.floor(from / 1000), 0.5],
    ['t is outside the years 2000 to 2100', from * 1000, 0.5],
    ['t is outside the years 2000 to 2100', timeMin - 1, 0.5],
    ['t is outside the years 2000 to 2100', timeEnd, 0.5],
    ['t is in the future', future + 1, 0.5],
    ['p is not finite', from, Number.POSITIVE_INFINITY],
    ['p is not finite', from, Number.NaN],
  ])('rejects a tick if %s', (reason, t, p) => {
    const { ticks, rejected } = validateTicks(
      page([
        [t, p],
        [from + 1, 0.5],
      ]),
      requested,
      future,
    );
    expect(rejected).toEqual([{ reason, raw: JSON.stringify({ t, p }) }]);
    expect(ticks.t).toHaveLength(1);
  });

  test('accepts a tick at the end of the allowed skew, and any finite price', () => {
    const wide = { from, to: future + 10 };
    const { ticks } = validateTicks(
      page([
        [future, -3],
        [from, 5e-324],
        [from + 1, 1e300],
      ]),
      wide,
      future,
    );
    expect([...ticks.p]).toEqual([-3, 5e-324, 1e300]);
  });

  test('passes on elements that could not be decoded', () => {
    const undecodable = [{ reason: 'p is missing', raw: '{"t":1}' }];
    expect(validateTicks(page([], undecodable), requested, future).rejected).toEqual(undecodable);
  });

  test('counts each tick as usable, unusable or outside', () => {
    const anyTick = fc.tuple(
      fc.oneof(fc.integer({ min: from - 5, max: requested.to + 5 }), fc.double()),
      fc.oneof(fc.double(), fc.constant(0.5)),
    );
    fc.assert(
      fc.property(fc.array(anyTick), (ticks) => {
        const { ticks: usable, rejected, outsideCount } = validateTicks(page(ticks), requested, future);
        expect(usable.t.length + rejected.length + outsideCount).toBe(ticks.length);
        expect(usable.t.length).toBe(usable.p.length);
        for (const t of usable.t) expect(requested.from <= t && t < requested.to).toBe(true);
      }),
    );
  });

  test('validates each tick, also after many usable ones', () => {
    const good = fc.tuple(fc.integer({ min: from, max: requested.to - 1 }), fc.constantFrom(0.25, 0.5, -0));
    const odd = fc.tuple(
      fc.oneof(fc.integer({ min: from - 5, max: requested.to + 5 }), fc.constantFrom(Number.NaN, timeEnd, future + 1)),
      fc.oneof(fc.double(), fc.constant(0.5)),
    );
    const ticks = fc.array(fc.oneof({ weight: 9, arbitrary: good }, { weight: 1, arbitrary: odd }), { maxLength: 40 });
    const undecodable = [{ reason: 'is not an object', raw: '7' }];
    fc.assert(
      fc.property(ticks, (list) => {
        const reasonOf = ([t, p]: readonly [number, number]) =>
          findTimeFlaw(t, future) ?? (Number.isFinite(p) ? undefined : 'p is not finite');
        const usable = list.filter((tick) => reasonOf(tick) === undefined);
        const inside = usable.filter(([t]) => requested.from <= t && t < requested.to);
        const times = usable.map(([t]) => t);
        const input = page(list, undecodable);
        const validated = validateTicks(input, requested, future);
        expect([...validated.ticks.t]).toEqual(inside.map(([t]) => t));
        expect([...validated.ticks.p]).toEqual(inside.map(([, p]) => p));
        expect(validated.rejected).toEqual([
          ...undecodable,
          ...list.flatMap((tick) => {
            const reason = reasonOf(tick);
            return reason === undefined ? [] : [{ reason, raw: JSON.stringify({ t: tick[0], p: tick[1] }) }];
          }),
        ]);
        expect(validated.outsideCount).toBe(usable.length - inside.length);
        expect(validated.span).toEqual(
          times.length === 0 ? null : { first: Math.min(...times), last: Math.max(...times) },
        );
        // The input is not changed: the page's own columns may be returned.
        expect(input).toEqual(page(list, undecodable));
      }),
      { numRuns: 500 },
    );
  });
});

const sentAt = Date.UTC(2026, 6, 1, 12);
const futureMs = sentAt + 300_000;
const hourMs = 3_600_000;

test.each<[string, number | null, number | null, number]>([
  ['the stated time', sentAt - hourMs, sentAt, sentAt - hourMs],
  ['the stated time, up to the allowed skew ahead', sentAt + 300_000, null, sentAt + 300_000],
  ['the request time if the stated time is too far ahead', sentAt + 300_001, null, sentAt],
  ['the request time if the stated time is in seconds', sentAt / 1000, null, sentAt],
  ['the request time if none is stated', null, null, sentAt],
  ['the request time if the Date header is about the same', null, sentAt - 60_000, sentAt],
  ['the request time if the Date header is ahead', null, sentAt + hourMs, sentAt],
  ['the request time if the Date header is implausible', null, 0, sentAt],
  ['the Date header if our clock is far ahead of it', null, sentAt - hourMs, sentAt - hourMs],
])('the time of a response is %s', (_, generatedAt, servedAt, expected) => {
  expect(resolveObservedAt(generatedAt, sentAt, futureMs, servedAt)).toBe(expected);
});

test('the time of a response is never later than our clock allows, after it was set back', () => {
  const setBackMs = sentAt - hourMs;
  expect(resolveObservedAt(sentAt + 5, sentAt, setBackMs)).toBe(setBackMs);
  expect(resolveObservedAt(null, sentAt, setBackMs, sentAt - 2 * hourMs)).toBe(sentAt - 2 * hourMs);
});

test('a response is stale from an hour before the requested end on', () => {
  const window = { from: sentAt - 2 * hourMs, to: sentAt };
  expect(findStalePart(window, sentAt - hourMs + 1)).toBe(null);
  expect(findStalePart(window, sentAt - hourMs)).toMatchObject({ from: sentAt - hourMs, to: sentAt });
  expect(findStalePart(window, sentAt - 9 * hourMs)).toMatchObject({ from: window.from, to: sentAt });
});
