import { existsSync, globSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Summary } from '../../src/archive/journal/run-summary.ts';
import { csvOf, importInto, put } from '../e2e/import-lake.ts';
import { addsUp, dayMs, dayRows, fixedNow, folder, runProcess as run, sleep, start } from '../e2e/lake.ts';
import { waitFor } from '../harness/limits.ts';

const seed = Number(process.env.SEED || Math.floor(Math.random() * 1e6));
console.log(`import killed: SEED=${seed}`);

const today = Date.UTC(2025, 5, 14);
const yesterday = today - dayMs;

/** Bytes of temporary files that a run has written. */
const readTemporaryBytes = (output: string): number =>
  globSync('.oddslake/pins/*import-*/{ticks,quotes}', { cwd: output }).reduce(
    (sum, path) => sum + (statSync(join(output, path), { throwIfNoEntry: false })?.size ?? 0),
    0,
  );

/**
 * Kills an import, and then runs it to its end. It is killed as soon as it has written temporary files, then three times at
 * random, and then when it has published a file of the dataset.
 */
async function importKilled(output: string, args: readonly string[], dataset: string): Promise<Summary> {
  let kills = 0;
  for (let round = 0; round < 5; round++) {
    const running = start(args);
    let isOver = false;
    void running.ended.then(() => {
      isOver = true;
    });
    // During reading or during a publish.
    await waitFor(() => isOver || readTemporaryBytes(output) > 0, 'temporary rows');
    if (round === 4) await waitFor(() => isOver || existsSync(join(output, dataset)), 'a publish');
    // The first kill comes immediately, so that there is one; the others come at random times.
    if (round > 0 && round < 4) await sleep((seed * (round + 3)) % 200);
    running.child.kill('SIGKILL');
    if ((await running.ended).signal === 'SIGKILL') kills++;
  }
  expect(kills).toBeGreaterThan(0);
  const last = await run(args);
  expect(last.code, last.stderr).toBe(0);
  expect(addsUp(last.summary)).toBe(true);
  const verified = await run(['verify', '--output', output, '--json']);
  expect(verified.code, verified.stdout).toBe(0);
  // Unpacked input may be as large as the archive.
  expect(globSync('.oddslake/**/*import-*', { cwd: output })).toEqual([]);
  return last.summary;
}

const covers = { from: yesterday, to: today + dayMs };
const flags = ['--set', 'source.name=box', '--json', '--quiet', '--covers', '2025-06-13..2025-06-15'];

test('a killed import resumes to the same rows as an undisturbed one', async () => {
  const ticks = Array.from({ length: 120_000 }, (_, i) => ({
    symbol: `S${(i * 7) % 40}`,
    t: yesterday + Math.floor((i * 2 * dayMs) / 120_000),
    p: ((i * 7919 + seed) % 1000) / 1000,
  }));
  const path = put(folder(), 'a.csv.gz', csvOf(ticks), fixedNow);
  const undisturbed = folder();
  expect((await importInto(undisturbed, [path], { covers })).ticks.accepted).toBe(120_000);
  const output = folder();
  await importKilled(output, ['import', path, '--output', output, ...flags], 'ticks');
  expect(dayRows(output, 'ticks', 'coverage')).toEqual(dayRows(undisturbed, 'ticks', 'coverage'));
});

test('a killed import of ticks and quotes resumes to the same rows as an undisturbed one', async () => {
  const rows = Array.from({ length: 60_000 }, (_, i) => {
    // Some times repeat, with other quotes.
    const t = yesterday + Math.floor(((i - (i % 9 === 8 ? 300 : 0)) * 2 * dayMs) / 60_000);
    const bid = ((i * 7919 + seed) % 900) / 1000;
    return `S${(i * 7) % 300},${t},${i % 2 === 0 ? bid : ''},${bid},${i % 5 === 0 ? '' : bid + 0.01},${i % 100}\n`;
  });
  // Several files and many symbols, so that there are several transactions and publishes.
  const files = folder();
  for (let i = 0; i < 4; i++)
    put(
      files,
      `${i}.csv`,
      `symbol,t,p,bid,ask,bid_size\n${rows.slice(i * 15_000, (i + 1) * 15_000).join('')}`,
      fixedNow,
    );
  const undisturbed = folder();
  const whole = await importInto(undisturbed, [files], { covers, datasets: ['ticks', 'quotes'] });
  expect(whole).toMatchObject({ exit_code: 0, quotes: { fetched: 60_000, quarantined: 0 } });
  expect(whole.quotes!.conflicts).toBeGreaterThan(0);
  const output = folder();
  const often = ['--set', 'publish.journal_ticks_max=80000'];
  const args = ['import', files, '--output', output, ...flags, ...often, '--dataset', 'ticks,quotes'];
  const { quotes } = await importKilled(output, args, 'quotes');
  expect(quotes!.fetched).toBe(quotes!.accepted + quotes!.duplicates + quotes!.conflicts);
  // What a killed run had journaled is recovered, and then it is a duplicate.
  expect(quotes!.accepted + quotes!.recovered).toBe(whole.quotes!.accepted);
  const published = ['ticks', 'quotes', 'coverage', 'quote_conflicts'] as const;
  expect(dayRows(output, ...published)).toEqual(dayRows(undisturbed, ...published));
});
