import { expect, test } from 'vitest';
import { readLastNight } from '../../../src/archive/journal/nightly-memory.ts';
import { readAllSymbols } from '../../../src/archive/journal/symbol-store.ts';
import { withState } from '../../harness/with-state.ts';
import { input, ordinary } from './falls-nights.ts';
import { at, fewFiles, hourMs, startNights } from './nights.ts';

test('suddenly short lists exit with 4, delist nothing, publish, and become usual', async () => {
  const nights = await startNights(input, fewFiles);
  await ordinary(nights, 4);
  const countActive = () =>
    withState(nights.output, (db) => readAllSymbols(db).filter(({ inactiveSince }) => inactiveSince === null).length);
  const active = countActive();
  await nights.replace({ ...input, markets: 5 });
  const short: number[] = [];
  for (let n = 4; n < 10; n++) {
    const summary = await nights.night(at(n));
    short.push(summary.failures.filter(({ reason }) => reason.startsWith('markets: the lists name')).length);
    if (n > 4) continue;
    expect(summary).toMatchObject({ exit_code: 4, outcome: 'incomplete', error: null });
    expect(summary.failures).toContainEqual({
      symbol: null,
      from: null,
      to: null,
      reason: expect.stringMatching(/^markets: the lists name \d+, the median of the last 4 days is \d+/),
    });
    expect(countActive()).toBeGreaterThanOrEqual(active);
    expect(summary.published.files).toBeGreaterThan(0);
  }
  expect(short[0]).toBe(1);
  expect(short.at(-1)).toBe(0);
});

test('a repeated run or one with hardly any new time is no night', async () => {
  const nights = await startNights(input, fewFiles);
  await ordinary(nights, 4);
  const last = () => withState(nights.output, readLastNight);
  expect(last()).toBe(at(3));
  for (const later of [0, 1000, hourMs - 1]) {
    expect((await nights.night(at(3) + later)).rechecks!.windows).toBe(0);
    expect(last()).toBe(at(3));
  }
});
