import { join } from 'node:path';
import { expect, test } from 'vitest';
import { notePolled } from '../../src/app/steps/polled-symbols.ts';
import { planPoll } from '../../src/ingest/plan.ts';
import { coverageOf } from '../../src/state/coverage.ts';
import { openDatabase } from '../../src/state/database.ts';
import { appendTicks } from '../../src/state/journal.ts';
import { oneSymbol } from '../../src/state/symbols.ts';
import { answer, day0, dayMs, hourMs, opened } from '../archive/scratch.ts';
import { firstNight, startNights } from './nights.ts';

const rules = { overlapMs: hourMs, lookbackMs: 3 * dayMs, lingerMs: 7 * dayMs, settleMs: hourMs };

test('a first poll that broke off after its latest page is asked for the earlier ones by the next poll', () => {
  const { state } = opened();
  const end = day0 + 3 * dayMs;
  const planned = { symbol: 'AAA', windows: [{ from: day0, to: end }], first: true };
  appendTicks(state, [answer('AAA', [[end - 1, 0.5]], { windows: [{ from: end - hourMs, to: end }] })]);
  notePolled(state.db, [planned], []);
  const next = () => planPoll(oneSymbol(state.db, 'AAA')!, coverageOf(state.db, 'AAA'), end, rules);
  expect(next()).toEqual({ symbol: 'AAA', windows: [{ from: day0, to: end - hourMs }], first: true });

  notePolled(state.db, [planned], ['AAA']);
  expect(next()).toEqual({ symbol: 'AAA', windows: [], first: false });
});

test('a first poll that died when it had every answer is none for the next poll, which asks for nothing', async () => {
  const nights = await startNights({ seed: 3, markets: 2, ticksPerDay: 20 });
  await nights.night(firstNight);
  const state = openDatabase(join(nights.output, '.oddslake/state.sqlite'), 1000);
  const polledFrom = () => state.all('select symbol, polled_from from symbols order by symbol');
  const before = polledFrom();
  state.run('update symbols set polled_from = null');
  const { requests } = await nights.night(firstNight);
  expect([polledFrom(), requests]).toEqual([before, 2]);
  state.close();
});
