import { afterAll, describe, expect, test } from 'vitest';
import { flows } from './flows.ts';
import { openPlaces } from './place.ts';
import { drawFrom, listSweptCalls, search, searchMsMax } from './seeds.ts';
import { recordStory, type Story } from './story.ts';
import { stumble } from './stumble.ts';
import { sweep } from './sweep.ts';

const places = openPlaces();
afterAll(() => places.clear());

describe('one more run completes the archive after any single fault at any changing call', () => {
  test.each(flows)('$name', { timeout: searchMsMax }, async (flow) => {
    const story = await recordStory(flow, places);
    const calls = listSweptCalls(flow.name, story.calls.length, flow.step ?? 1, 0.22 / flows.length);
    const { calls: struck, faults, reopened } = await sweep(story, calls);
    console.log(`${flow.name}: ${story.calls.length} fault points, ${faults} faults, ${reopened} distinct states`);
    // At least one crash and one error at every call.
    expect(faults).toBeGreaterThanOrEqual(2 * struck);
    expect(struck).toBeGreaterThan(0);
  });
});

test('one more run completes the archive after faults in a row', { timeout: searchMsMax }, async () => {
  const stories = new Map<string, Story>();
  await search({ name: 'faults in a row', least: 100, share: 0.08 }, async (seed) => {
    const draw = drawFrom(seed);
    const flow = draw.one(flows);
    const story = stories.get(flow.name) ?? (await recordStory(flow, places));
    stories.set(flow.name, story);
    await stumble(story, draw);
  });
});
