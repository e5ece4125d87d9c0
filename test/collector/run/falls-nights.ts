import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'vitest';
import { dayMs, firstNight, type Nights } from './nights.ts';

// Ordinary nights, and their records in the state.

export const input = { seed: 5, markets: 20, ticksPerDay: 150, lifetimeDaysMax: 30 };
export const at = (n: number): number => firstNight + n * dayMs;

/** Runs ordinary nights, and expects no problems. */
export async function ordinary(nights: Nights, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const summary = await nights.night(at(n));
    expect(summary, JSON.stringify(summary.failures)).toMatchObject({ exit_code: 0, failures: [], error: null });
  }
}

export function remembered(
  output: string,
): { polled_to: number; polled_ms: number; markets: number | null; ticks: number }[] {
  const db = new DatabaseSync(join(output, '.oddslake', 'state.sqlite'), { readOnly: true });
  try {
    return db.prepare('select * from nights order by polled_to').all() as never;
  } finally {
    db.close();
  }
}
