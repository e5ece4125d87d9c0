import { describe, expect, test } from 'vitest';
import { waitFor } from '../limits.ts';
import { skipWithReason } from '../needs.ts';

// Run by test/harness/reporter.long.test.ts.

test('passes', () => {});
test('lacks a tool', skipWithReason('no such tool'), () => {});
describe('a group', skipWithReason('no such browser'), () => {
  test('of one', () => {});
  test('of two', () => {});
});
test('finds it out by itself', ({ skip }) => skip('no such disk'));
test.skip('for no reason', () => {});
test('waits in vain', () => waitFor(() => false, 'the word', 20));
test('hangs', { timeout: 20 }, () => new Promise(() => {}));
test('is wrong', () => expect(1).toBe(2));
