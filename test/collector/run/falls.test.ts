import { expect, test } from 'vitest';
import { at, input, ordinary, remembered } from './falls-nights.ts';
import { fewFiles, startNights } from './nights.ts';

test('a sharp drop of markets exits with 4, publishes, and becomes the median', async () => {
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
        symbol: null,
        from: null,
        to: null,
        reason: expect.stringMatching(
          /^markets fell by \d+ %: the lists name \d+, the median of the last 4 nights is \d+/,
        ),
      });
      expect(summary.published.files).toBeGreaterThan(0);
    }
  }
  expect(falls[0]).toBe(1);
  expect(falls.at(-1)).toBe(0);
});

test('a sharp drop of ticks exits with 4, unless the check is disabled', async () => {
  const nights = await startNights(input, fewFiles);
  await ordinary(nights, 4);
  await nights.replace({ ...input, ticksPerDay: 5 });
  const quiet = await nights.night(at(4), 'drops.ticks_share_max=1');
  expect(quiet).toMatchObject({ exit_code: 0, failures: [] });
  const summary = await nights.night(at(5));
  expect(summary.exit_code).toBe(4);
  expect(summary.failures).toEqual([
    {
      symbol: null,
      from: null,
      to: null,
      reason: expect.stringMatching(/^ticks fell by \d+ %: .* new ticks per hour/),
    },
  ]);
});

test('truncated lists are no drop and are not recorded', async () => {
  const nights = await startNights(input, fewFiles);
  await ordinary(nights, 4);
  nights.box().set({ marketsCap: 3 });
  const summary = await nights.night(at(4));
  expect(summary.failures.map(({ reason }) => reason)).toEqual([
    expect.stringMatching(/^markets of view matched: the list is truncated/),
    expect.stringMatching(/^markets of view resolving: the list is truncated/),
  ]);
  expect(remembered(nights.output).map((row) => row.markets === null)).toEqual([false, false, false, false, true]);
});
