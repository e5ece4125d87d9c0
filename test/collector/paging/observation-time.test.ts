import { expect, test } from 'vitest';
import { findStalePart } from '../../../src/collector/paging/fetch-steps.ts';
import { resolveObservedAt } from '../../../src/collector/paging/observation.ts';

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
