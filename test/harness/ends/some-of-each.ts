import { describe, expect, test } from 'vitest';
import { until } from '../limits.ts';
import { skippedFor } from '../needs.ts';

// Run by test/harness/reporter.test.ts.

test('passes', () => {});
test('lacks a tool', skippedFor('no such tool'), () => {});
describe('a group', skippedFor('no such browser'), () => {
  test('of one', () => {});
  test('of two', () => {});
});
test('finds it out by itself', ({ skip }) => skip('no such disk'));
test.skip('for no reason', () => {});
test('waits in vain', () => until(() => false, 'the word', 20));
test('hangs', { timeout: 20 }, () => new Promise(() => {}));
test('is wrong', () => expect(1).toBe(2));
