import { globSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { compareUtf8 } from '../../../src/base/symbol-name.ts';
import { union } from '../../../src/base/window.ts';
import type { SandboxOptions } from '../../../src/sandbox/sandbox-options.ts';
import { coverageOf, dayRows, totalTicks } from '../../e2e/lake.ts';
import { dayMs, firstNight, type Nights, startNights } from './nights.ts';

// Nights with raw responses, which are imported into another archive.

export const rawOf = (output: string): string => join(output, '.oddslake/raw');

export const rawFiles = (output: string): string[] =>
  globSync('**/*.raw', { cwd: rawOf(output) })
    .sort()
    .map((path) => join(rawOf(output), path));

/**
 * Polled contents of an archive: files and covered windows. Evidence is left out, because imported responses may prove less
 * than they did in the original run.
 */
export const polled = (output: string) => ({
  files: dayRows(output, 'ticks', 'markets', 'orderbooks', 'conflicts'),
  coverage: [...Map.groupBy(coverageOf(output), ({ symbol }) => symbol)]
    .map(([symbol, rows]) => [symbol, union(rows)] as const)
    .sort(([a], [b]) => compareUtf8(a, b)),
});

/** Fewer days to publish, for speed. */
export const briefly = 'source.first_lookback_days=1';

/** Runs some nights, including order books, and expects no problems. */
export async function calmNights(count: number, options: Partial<SandboxOptions>, ...set: string[]): Promise<Nights> {
  const nights = await startNights({ markets: 6, ticksPerDay: 100, ...options });
  for (let n = 0; n < count; n++) {
    const night = await nights.night(firstNight + n * dayMs, 'orderbooks.all_live=true', briefly, ...set);
    expect(night).toMatchObject({ exit_code: 0, failures: [] });
  }
  expect(totalTicks(nights.output)).toBeGreaterThan(0);
  return nights;
}
