import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { job as ticksJob } from '../../jobs/ticks.ts';
import { dayMs, fewFiles, firstNight, hourMs, type Nights, startNights } from './nights.ts';

const input = { seed: 5, markets: 20, ticksPerDay: 150, lifeDaysMax: 30 };
const at = (n: number): number => firstNight + n * dayMs;

/** Runs so many ordinary nights, which raise nothing. */
async function ordinary(nights: Nights, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const summary = await nights.night(at(n));
    expect(summary, JSON.stringify(summary.failures)).toMatchObject({ exit_code: 0, failures: [], error: null });
  }
}

function remembered(output: string): { polled_to: number; polled_ms: number; markets: number | null; ticks: number }[] {
  const db = new DatabaseSync(join(output, '.oddslake', 'state.sqlite'), { readOnly: true });
  try {
    return db.prepare('select * from nights order by polled_to').all() as never;
  } finally {
    db.close();
  }
}

test('markets that fall sharply are exit 4 with a sentence, all is published, and the lower level becomes the usual', async () => {
  const nights = await startNights(input, fewFiles);
  await ordinary(nights, 4);
  await nights.replace({ ...input, markets: 5 });
  const falls: number[] = [];
  for (let n = 4; n < 10; n++) {
    const summary = await nights.night(at(n));
    falls.push(summary.failures.filter(({ reason }) => reason.startsWith('markets fell by')).length);
    if (n === 4) {
      expect(summary).toMatchObject({ exit_code: 4, outcome: 'incomplete', error: null });
      expect(summary.failures[0]).toEqual({
        ...{ symbol: null, from: null, to: null },
        reason: expect.stringMatching(
          /^markets fell by \d+ %: the lists name \d+, and \d+ in the median of the last 4/,
        ),
      });
      expect(summary.published.files).toBeGreaterThan(0);
    }
  }
  expect(falls[0]).toBe(1);
  expect(falls.at(-1)).toBe(0);
});

test('ticks that fall sharply are exit 4, and falls that are switched off are not', async () => {
  const nights = await startNights(input, fewFiles);
  await ordinary(nights, 4);
  await nights.replace({ ...input, ticksPerDay: 5 });
  const quiet = await nights.night(at(4), 'falls.ticks_share_max=1');
  expect(quiet).toMatchObject({ exit_code: 0, failures: [] });
  const summary = await nights.night(at(5));
  expect(summary.exit_code).toBe(4);
  expect(summary.failures).toEqual([
    { symbol: null, from: null, to: null, reason: expect.stringMatching(/^ticks fell by \d+ %: .* new ones an hour/) },
  ]);
});

test('a run that is repeated, or that polls hardly more than the last one, is no night', async () => {
  const nights = await startNights(input, fewFiles);
  await ordinary(nights, 4);
  const before = remembered(nights.output);
  expect(before.map((row) => row.polled_ms)).toEqual([7 * dayMs, dayMs, dayMs, dayMs]);
  expect(before.map((row) => row.polled_to)).toEqual([0, 1, 2, 3].map(at));
  for (const later of [0, 1000, hourMs - 1]) expect((await nights.night(at(3) + later)).exit_code).toBe(0);
  expect(remembered(nights.output)).toEqual(before);
});

test('ticks that another job polled in between count for the night', async () => {
  const nights = await startNights(input, fewFiles);
  await ordinary(nights, 4);
  const before = remembered(nights.output).at(-1)!.ticks;
  for (let hour = 6; hour < 24; hour += 6) {
    const summary = await ticksJob.run(await nights.contextAt(at(3) + hour * hourMs), { symbols: [] });
    expect(summary.exit_code).toBe(0);
  }
  const ended = await ticksJob.run(await nights.contextAt(at(4) - 60_000), { symbols: [] });
  expect(ended.exit_code).toBe(0);
  const night = await nights.night(at(4));
  expect(night).toMatchObject({ exit_code: 0, failures: [] });
  expect(night.ticks.accepted).toBeLessThan(before / 5);
  expect(remembered(nights.output).at(-1)!.ticks).toBeGreaterThan(before / 2);
});

test('lists that were cut off are no fall, and are not remembered as one', async () => {
  const nights = await startNights(input, fewFiles);
  await ordinary(nights, 4);
  nights.box().set({ marketsCap: 3 });
  const summary = await nights.night(at(4));
  expect(summary.failures).toEqual([]);
  expect(summary.warnings).toContainEqual(expect.stringContaining('cut off'));
  expect(remembered(nights.output).map((row) => row.markets === null)).toEqual([false, false, false, false, true]);
});
