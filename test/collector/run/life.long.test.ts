import { expect, test } from 'vitest';
import { manifestOf } from '../../e2e/lake.ts';
import { withState } from '../../harness/with-state.ts';
import { at, dayMs, fewFiles, hourMs, startNights } from './nights.ts';

/** A day has no gaps except the accepted ones. */
const whole = expect.stringMatching(/^(provisional|complete.*)$/);

test('requests only live symbols, however many there have been', async () => {
  const nights = await startNights(
    { seed: 9, markets: 6, ticksPerDay: 20, lifetimeDaysMax: 2, epochMs: at(-3) },
    fewFiles,
  );
  const planned: number[] = [];
  for (let n = 0; n < 10; n++) {
    const summary = await nights.night(at(n));
    expect(summary.exit_code, JSON.stringify(summary.failures)).toBe(0);
    planned.push(summary.symbols.planned);
  }
  const ever = nights.box().symbols().length;
  // Six markets of at most two symbols are live at a time, and an ended one is requested once or twice more.
  expect(Math.max(...planned.slice(1))).toBeLessThan(ever / 3);
  const { days, reached } = manifestOf(nights.output);
  expect(reached).toBe(at(9));
  const over = Object.keys(days).filter((day) => Date.parse(day) >= at(0) && Date.parse(day) + dayMs < at(9));
  expect(over.length).toBeGreaterThan(6);
  for (const day of over) expect(days[day], day).toMatchObject({ state: whole, missing: [] });
});

test('a complete list makes absent symbols inactive, a truncated one does not', async () => {
  const nights = await startNights({ seed: 9, markets: 12, ticksPerDay: 10, lifetimeDaysMax: 20 }, fewFiles);
  const sql = 'select symbol, inactive_since from symbols where last_seen < (select max(last_seen) from symbols)';
  const unnamed = () =>
    withState(nights.output, (db) => db.all<{ symbol: string; inactive_since: number | null }>(sql));
  await nights.night(at(0));
  expect(unnamed()).toEqual([]);
  const before = nights.box().symbols().length;
  nights.box().set({ marketsCap: 1 });
  // Longer than linger_days.
  await nights.night(at(9));
  const cut = unnamed().filter(({ inactive_since }) => inactive_since === null || inactive_since > at(0));
  expect(cut.length).toBeGreaterThan(5);
  for (const symbol of cut) expect(symbol).toMatchObject({ inactive_since: null });
  nights.box().set({ marketsCap: 100_000 });
  await nights.night(at(9) + hourMs);
  const unlisted = unnamed();
  expect(unlisted.length).toBeGreaterThan(0);
  expect(unlisted.length).toBeLessThan(before);
  for (const symbol of unlisted) expect(symbol.inactive_since).not.toBe(null);
});
