import { expect, onTestFinished, test } from 'vitest';
import { drawFrom } from '../faults/draw.ts';
import { twoPublishers } from '../faults/two-publishers.ts';
import { scratchFolder } from './scratch.ts';

test('at every second call of a publisher whose lock file is removed another may publish', async () => {
  const two = await twoPublishers(scratchFolder());
  onTestFinished(() => two.close());
  const wrong: string[] = [];
  for (let at = 1; at <= two.calls; at += 2)
    for (const fault of await two.interleave(at)) wrong.push(`stopped at call ${at}: ${fault}`);
  expect(wrong).toEqual([]);
  expect(two.calls).toBeGreaterThan(50);
});

test('each of two publishers without a lock may be stopped amid its work while the other one ends', async () => {
  const two = await twoPublishers(scratchFolder());
  onTestFinished(() => two.close());
  const draw = drawFrom(18);
  const wrong: string[] = [];
  for (let n = 0; n < 120; n++) {
    const at = 1 + draw.below(two.calls);
    const pauseAt = 1 + draw.below(two.secondCalls);
    for (const fault of await two.interleave(at, pauseAt)) wrong.push(`stopped at call ${at} and ${pauseAt}: ${fault}`);
  }
  expect(wrong).toEqual([]);
});
