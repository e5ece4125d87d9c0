import { globSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { openDatabase } from '../../src/archive/journal/database.ts';
import { dayMs, firstNight, startNights } from '../collector/run/nights.ts';
import { findWrongWindows } from '../e2e/lake.ts';
import { limitMs } from '../harness/limits.ts';

// Consecutive nights in one process, like `schedule`: resources must not grow with their number.

/** Number of nights; NIGHTS=180 for half a year. */
const count = Number(process.env.NIGHTS || 30);
const seed = Number(process.env.SEED || 11);

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

interface Resources {
  /** Bytes of live objects and buffers, after a garbage collection. */
  readonly memory: number;
  readonly descriptors: number;
  /** Files under .oddslake, except for the history that is kept on purpose. */
  readonly files: number;
  readonly stateBytes: number;
}

async function measureResources(output: string): Promise<Resources> {
  // Finalizers run in the next turn.
  for (let round = 0; round < 3; round++) {
    collectGarbage();
    await setImmediate();
  }
  const { heapUsed, external } = process.memoryUsage();
  const files = globSync('.oddslake/**', { cwd: output }).filter((path) => !/quarantine|raw/.test(path));
  return {
    memory: heapUsed + external,
    descriptors: readdirSync('/proc/self/fd').length,
    files: files.length,
    stateBytes: statSync(join(output, '.oddslake/state.sqlite')).size,
  };
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

test('months of nights use no more memory, files and descriptors than the first weeks', {
  timeout: limitMs + count * 20_000,
}, async () => {
  const faults = { faultShare: 0.05, lateShare: 0.02, reviseShare: 0.005, stallMs: 50 };
  const service = { seed, markets: 20, lifetimeDaysMax: 10, ticksPerDay: 100, ...faults };
  const nights = await startNights(service);
  const seen: Resources[] = [];
  for (let n = 0; n < count; n++) {
    const summary = await nights.night(firstNight + n * dayMs, 'upstream.request_deadline_seconds=1');
    expect([0, 4], JSON.stringify(summary)).toContain(summary.exit_code);
    const { fetched, accepted, duplicates, conflicts, quarantined } = summary.ticks;
    expect(fetched).toBe(accepted + duplicates + conflicts + quarantined);
    // A new instance of the same service: its memory of past responses is not measured.
    await nights.replace(service);
    seen.push(await measureResources(nights.output));
  }
  const third = Math.floor(count / 3);
  const [early, late] = [seen.slice(third, 2 * third), seen.slice(-third)];
  const of = (list: readonly Resources[], name: keyof Resources): number => mean(list.map((one) => one[name]));
  const summaryParts = (['memory', 'descriptors', 'files', 'stateBytes'] as const).map(
    (name) => `${name} ${of(early, name).toFixed(0)} then ${of(late, name).toFixed(0)}`,
  );
  console.info(`${count} nights, seed ${seed}: ${summaryParts.join(', ')}`);
  expect(of(late, 'descriptors')).toBeLessThanOrEqual(of(early, 'descriptors') + 2);
  expect(of(late, 'files')).toBeLessThanOrEqual(of(early, 'files') + 1);
  expect(of(late, 'memory')).toBeLessThan(1.1 * of(early, 'memory') + 1e6);

  const state = openDatabase(join(nights.output, '.oddslake/state.sqlite'), 1000);
  const journaled = ['journal', 'journal_ticks', 'journal_coverage', 'journal_rejected', 'intents'].map(
    (table) => state.one<{ n: number }>(`select count(*) as n from ${table}`)!.n,
  );
  state.close();
  expect(journaled).toEqual([0, 0, 0, 0, 0]);
  expect(findWrongWindows(nights.output, nights.box())).toEqual([]);
});
