import { expect, onTestFinished, test } from 'vitest';
import { twoPublishers } from '../faults/two-publishers.ts';
import { scratchFolder } from './scratch.ts';

// Every call is left to two-publishers.long.test.ts.
test('the lock file removed under a publisher loses no tick, whatever it was about to do', async () => {
  const two = await twoPublishers(scratchFolder());
  onTestFinished(() => two.close());
  const wrong: string[] = [];
  for (let at = 1; at <= two.calls; at += 3)
    for (const fault of await two.interleave(at)) wrong.push(`stopped at call ${at}: ${fault}`);
  expect(wrong).toEqual([]);
  expect(two.calls).toBeGreaterThan(50);
});
