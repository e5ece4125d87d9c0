import { rmSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { SandboxOptions } from '../../src/sandbox/sandbox-options.ts';
import { scratchFolder } from '../archive/scratch.ts';
import { calmNights, polled, rawOf } from '../collector/run/raw-nights.ts';
import { importInto } from '../e2e/import-lake.ts';
import { drawFrom, search } from './seeds.ts';

test('nights replayed from their raw responses give the same archive with any service', async () => {
  const name = 'raw pages replayed';
  const seeds = await search({ name, least: 12, share: 0.02 }, async (seed) => {
    const draw = drawFrom(seed);
    const options: Partial<SandboxOptions> = {
      seed,
      markets: 3 + draw.below(6),
      ticksPerDay: 30 + draw.below(150),
      cap: draw.one([10, 25, 60, 5000]),
      truncate: draw.one(['earliest', 'latest']),
      order: draw.one(['ascending', 'newest-first', 'shuffled']),
      fromInclusive: draw.chance(0.7),
      toInclusive: draw.chance(0.3),
      layout: 'mixed',
      echoWindow: draw.one(['clamped', 'tightened', 'none']),
      repeatShare: draw.one([0, 0, 0.3]),
      lateShare: draw.one([0, 0.2]),
      reviseShare: draw.one([0, 0.2]),
      marketsCap: draw.one([1000, 2000]),
      faultShare: draw.one([0, 0.1]),
      faults: ['500', 'bad-json', 'html', 'wrong-symbol', 'half-body'],
    };
    const nights = await calmNights(2, options, `upstream.concurrency=${draw.one([1, 4])}`);
    const replayed = scratchFolder();
    expect(await importInto(replayed, [rawOf(nights.output)]), JSON.stringify(options)).toMatchObject({ exit_code: 0 });
    expect(polled(replayed), JSON.stringify(options)).toEqual(polled(nights.output));
    // There may be thousands of seeds.
    await nights.box().stop();
    for (const path of [replayed, nights.output]) rmSync(path, { recursive: true });
  });
  expect(seeds).toBeGreaterThan(0);
});
