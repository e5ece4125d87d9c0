import { afterAll, describe, expect, test } from 'vitest';
import { flows } from './flows.ts';
import { openPlaces } from './place.ts';
import { drawFrom, search, searchMsMax } from './seeds.ts';
import { recordStory, type Story } from './story.ts';
import { stumble } from './stumble.ts';
import { sweep } from './sweep.ts';

const ground = openPlaces();
afterAll(() => ground.clear());

describe('one more run completes the archive after any single fault at any changing call', () => {
  test.each(flows)('$name', { timeout: searchMsMax }, async (flow) => {
    const story = await recordStory(flow, ground);
    const step = process.env.SWEEP === 'all' ? 1 : (flow.step ?? 1);
    const { faults, reopened } = await sweep(story, step);
    console.log(`${flow.name}: ${story.calls.length} fault points, ${faults} faults, ${reopened} distinct states`);
    // At least one crash and one error at every call.
    expect(faults).toBeGreaterThanOrEqual(2 * Math.ceil(story.calls.length / step));
  });
});

test('one more run completes the archive after faults in a row', { timeout: searchMsMax }, async () => {
  const stories = new Map<string, Story>();
  await search({ name: 'faults in a row', least: 100, share: 0.1 }, async (seed) => {
    const draw = drawFrom(seed);
    const flow = draw.one(flows);
    const story = stories.get(flow.name) ?? (await recordStory(flow, ground));
    stories.set(flow.name, story);
    await stumble(story, draw);
  });
});
