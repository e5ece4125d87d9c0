import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import { readAllSymbols } from '../../../src/archive/journal/symbol-store.ts';
import { decodeTicks } from '../../../src/archive/parquet/ticks-file.ts';
import { withState } from '../../harness/with-state.ts';

// Nights for tests of the summary, with their state and ticks.

export const input = { seed: 5, markets: 12, ticksPerDay: 150, lifetimeDaysMax: 30 };
export const ticksOf = ({ night }: Summary) => night!.ticks;

/** Symbol and time of every published tick. */
export function rowsOf(output: string): Set<string> {
  const rows = new Set<string>();
  for (const path of globSync('ticks/date=*/*.parquet', { cwd: output })) {
    const { symbols, offsets, t } = decodeTicks(readFileSync(join(output, path)));
    for (const [i, symbol] of symbols.entries())
      for (const time of t.subarray(offsets[i]!, offsets[i + 1]!)) rows.add(`${symbol} ${time}`);
  }
  return rows;
}

/** Listed symbols. */
export const listed = (output: string): Set<string> =>
  new Set(withState(output, (db) => readAllSymbols(db).flatMap((facts) => (facts.listed ? [facts.symbol] : []))));
