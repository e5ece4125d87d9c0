import { expect, test } from 'vitest';
import { findStalePart } from '../../../src/collector/paging/fetch-steps.ts';
import { resolveObservedAt } from '../../../src/collector/paging/observation.ts';

const sentAt = Date.UTC(2026, 6, 1, 12);
const futureMs = sentAt + 300_000;
const hourMs = 3_600_000;

test.each<[string, number | null, number | null, number]>([
  ['what the answer says', sentAt - hourMs, sentAt, sentAt - hourMs],
  ['what the answer says, some minutes ahead', sentAt + 300_000, null, sentAt + 300_000],
  ['when it was asked for, where the answer names a later time', sentAt + 300_001, null, sentAt],
  ['when it was asked for, where the answer names seconds', sentAt / 1000, null, sentAt],
  ['when it was asked for, where nothing is said', null, null, sentAt],
  ['when it was asked for, where its head says about the same', null, sentAt - 60_000, sentAt],
  ['when it was asked for, where its head is ahead', null, sentAt + hourMs, sentAt],
  ['when it was asked for, where its head says what cannot be', null, 0, sentAt],
  ['what its head says, where our clock is ahead of it', null, sentAt - hourMs, sentAt - hourMs],
])('the moment of an answer is %s', (_, generatedAt, servedAt, wanted) => {
  expect(resolveObservedAt(generatedAt, sentAt, futureMs, servedAt)).toBe(wanted);
});

test('the moment of an answer is no later than what our clock lets pass, which was set back since it was asked for', () => {
  const setBackMs = sentAt - hourMs;
  expect(resolveObservedAt(sentAt + 5, sentAt, setBackMs)).toBe(setBackMs);
  expect(resolveObservedAt(null, sentAt, setBackMs, sentAt - 2 * hourMs)).toBe(sentAt - 2 * hourMs);
});

test('an answer is behind where it is an hour older than the end of what was asked, and then only of what came after it', () => {
  const ask = { from: sentAt - 2 * hourMs, to: sentAt };
  expect(findStalePart(ask, sentAt - hourMs + 1)).toBe(null);
  expect(findStalePart(ask, sentAt - hourMs)).toMatchObject({ from: sentAt - hourMs, to: sentAt });
  expect(findStalePart(ask, sentAt - 9 * hourMs)).toMatchObject({ from: ask.from, to: sentAt });
});
