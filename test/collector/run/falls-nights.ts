import { expect } from 'vitest';
import { at, type Nights } from './nights.ts';

// Ordinary nights, and their records in the state.

export const input = { seed: 5, markets: 20, ticksPerDay: 150, lifetimeDaysMax: 30 };

/** Runs ordinary nights, and expects no problems. */
export async function ordinary(nights: Nights, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const summary = await nights.night(at(n));
    expect(summary, JSON.stringify(summary.failures)).toMatchObject({ exit_code: 0, failures: [], error: null });
  }
}
