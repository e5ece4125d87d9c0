import { afterAll, describe, expect, test } from 'vitest';
import { flows } from './flows.ts';
import { startGround } from './place.ts';
import { sweep } from './sweep.ts';

// Every call of every flow that changes something, met by every fault.

const ground = startGround();
afterAll(() => ground.clear());

describe('a fault at any call that changes something leaves an archive which one more run makes whole', () => {
  test.each(flows)('$name', async (flow) => {
    const { points, faults, reopened } = await sweep(flow, ground);
    console.log(`${flow.name}: ${points} points, ${faults} faults, ${reopened} different leavings`);
    expect(points).toBeGreaterThan(3);
  });
});
