import { expect, test } from 'vitest';
import { hashes } from '../../archive/scratch.ts';
import { damaged, repaired } from './lost-lake.ts';
import { at, hourMs } from './nights.ts';

// With the ticks of all losses together, and of each loss alone.
test.each([300, 20])(
  'answers published apart, of %i ticks, are requested again until they prove what they bring',
  async (most) => {
    const lake = await damaged();
    // Each response is written before the next one arrives.
    lake.nights.box().set({ latencyMs: 60 });
    const summary = await repaired(lake, at(1) + hourMs, `publish.journal_ticks_max=${most}`, 'poll.page_limit=20');
    expect(summary).toMatchObject({ exit_code: 0, failures: [], warnings: [] });
    expect(hashes(lake.nights.output, 'ticks/**/*.parquet')).toEqual(lake.before);
  },
);
