import { globSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { openDatabase } from '../../src/archive/journal/database.ts';
import { dayMs, firstNight, startNights } from '../collector/run/nights.ts';
import { untruths } from '../e2e/lake.ts';
import { limitMs } from '../harness/limits.ts';

// Nights one after another in one process, as `schedule` runs them: what is held must not grow with their number.

/** Nights that are run; NIGHTS=180 for half a year. */
const count = Number(process.env.NIGHTS || 30);
const seed = Number(process.env.SEED || 11);

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

interface Held {
  /** Bytes of live objects and buffers, after a collection of garbage. */
  readonly memory: number;
  readonly descriptors: number;
  /** Files under .oddslake other than what keeps history on purpose. */
  readonly files: number;
  readonly stateBytes: number;
}

async function held(output: string): Promise<Held> {
  // What is freed by a finalizer is gone with the next turn only.
  for (let turn = 0; turn < 3; turn++) {
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

test('months of nights hold no more memory, files and descriptors at their end than after the first weeks', {
  timeout: limitMs + count * 20_000,
}, async () => {
  const faults = { faultShare: 0.05, lateShare: 0.02, reviseShare: 0.005, stallMs: 50 };
  const service = { seed, markets: 20, lifeDaysMax: 10, ticksPerDay: 100, ...faults };
  const nights = await startNights(service);
  const seen: Held[] = [];
  for (let n = 0; n < count; n++) {
    const summary = await nights.night(firstNight + n * dayMs, 'upstream.request_deadline_seconds=1');
    expect([0, 4], JSON.stringify(summary)).toContain(summary.exit_code);
    const { fetched, accepted, duplicates, conflicts, quarantined } = summary.ticks;
    expect(fetched).toBe(accepted + duplicates + conflicts + quarantined);
    // The same service anew: what it remembers of past answers is not what is looked at.
    await nights.replace(service);
    seen.push(await held(nights.output));
  }
  const third = Math.floor(count / 3);
  const [early, late] = [seen.slice(third, 2 * third), seen.slice(-third)];
  const of = (list: readonly Held[], name: keyof Held): number => mean(list.map((one) => one[name]));
  const said = (['memory', 'descriptors', 'files', 'stateBytes'] as const).map(
    (name) => `${name} ${of(early, name).toFixed(0)} then ${of(late, name).toFixed(0)}`,
  );
  console.info(`${count} nights, seed ${seed}: ${said.join(', ')}`);
  expect(of(late, 'descriptors')).toBeLessThanOrEqual(of(early, 'descriptors') + 2);
  expect(of(late, 'files')).toBeLessThanOrEqual(of(early, 'files') + 1);
  expect(of(late, 'memory')).toBeLessThan(1.1 * of(early, 'memory') + 1e6);

  const state = openDatabase(join(nights.output, '.oddslake/state.sqlite'), 1000);
  const journaled = ['journal', 'journal_ticks', 'journal_cover', 'journal_rejected', 'intents'].map(
    (table) => state.one<{ n: number }>(`select count(*) as n from ${table}`)!.n,
  );
  state.close();
  expect(journaled).toEqual([0, 0, 0, 0, 0]);
  expect(untruths(nights.output, nights.box())).toEqual([]);
});
