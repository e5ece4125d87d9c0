import { globSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { csvOf, importInto, put } from '../e2e/import-lake.ts';
import { addsUp, dayMs, fixedNow, folder, hashes, run, sleep, start } from '../e2e/lake.ts';
import { waitFor } from '../harness/limits.ts';

const seed = Number(process.env.SEED || Math.floor(Math.random() * 1e6));
console.log(`import killed: SEED=${seed}`);

const today = Date.UTC(2025, 5, 14);
const yesterday = today - dayMs;

/** Bytes of temporary files that a run has written. */
const readTemporaryBytes = (output: string): number =>
  globSync('.oddslake/pins/*import-*/ticks', { cwd: output }).reduce(
    (sum, path) => sum + (statSync(join(output, path), { throwIfNoEntry: false })?.size ?? 0),
    0,
  );

test('a killed import resumes to the same bytes as an undisturbed one', async () => {
  const ticks = Array.from({ length: 120_000 }, (_, i) => ({
    symbol: `S${(i * 7) % 40}`,
    t: yesterday + Math.floor((i * 2 * dayMs) / 120_000),
    p: ((i * 7919 + seed) % 1000) / 1000,
  }));
  const path = put(folder(), 'a.csv.gz', csvOf(ticks), fixedNow);
  const covers = { from: yesterday, to: today + dayMs };
  const undisturbed = folder();
  expect((await importInto(undisturbed, [path], { covers })).ticks.accepted).toBe(120_000);
  const expected = hashes(undisturbed, 'ticks', 'coverage');

  const output = folder();
  const flags = ['--covers', '2025-06-13..2025-06-15'];
  const args = ['import', path, '--output', output, '--set', 'source.name=box', '--json', '--quiet', ...flags];
  let kills = 0;
  for (let round = 0; round < 4; round++) {
    const running = start(args);
    let isOver = false;
    void running.ended.then(() => {
      isOver = true;
    });
    // During reading or during a publish.
    await waitFor(() => isOver || readTemporaryBytes(output) > 0, 'temporary rows');
    // The first kill comes immediately, so that there is one; the others come at random times.
    if (round > 0) await sleep((seed * (round + 3)) % 200);
    running.child.kill('SIGKILL');
    if ((await running.ended).signal === 'SIGKILL') kills++;
  }
  expect(kills).toBeGreaterThan(0);
  const last = await run(args);
  expect(last.code, last.stderr).toBe(0);
  expect(addsUp(last.summary)).toBe(true);
  expect(hashes(output, 'ticks', 'coverage')).toEqual(expected);
  const verified = await run(['verify', '--output', output, '--json']);
  expect(verified.code, verified.stdout).toBe(0);
  // Unpacked input may be as large as the archive.
  expect(globSync('.oddslake/**/*import-*', { cwd: output })).toEqual([]);
});
