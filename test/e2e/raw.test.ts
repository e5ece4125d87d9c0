import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { waitFor } from '../harness/limits.ts';
import {
  access,
  coverageOf,
  fixedDay,
  fixedNow,
  folder,
  hashes,
  jobArgs,
  rowHashes,
  sandbox,
  start,
  totalTicks,
} from './lake.ts';
import { runJob as job, run } from './run-program.ts';

const input = { seed: 8, nowMs: fixedNow, markets: 6, ticksPerDay: 60 };
const briefly = ['--set', 'source.first_lookback_days=1'];

const rawOf = (output: string): string => join(output, '.oddslake/raw');
const importRaw = (output: string, from: string, ...flags: string[]) =>
  run(jobArgs('import', output, rawOf(from), ...flags));

test('a nightly run keeps raw responses, and their import gives the same archive', async () => {
  const box = await sandbox(input);
  const [output, again] = [folder(), folder()];
  const result = await job('nightly', box.url, output, '--date', fixedDay, ...briefly);
  expect(result.code, result.stderr).toBe(0);
  expect(globSync('*/*.raw', { cwd: rawOf(output) })).toEqual([
    expect.stringMatching(`${result.summary.run_id}-000\\.raw$`),
  ]);
  const imported = await importRaw(again, output, '--format', 'raw');
  expect(imported.code, imported.stderr).toBe(0);
  expect(hashes(again, 'ticks', 'markets')).toEqual(hashes(output, 'ticks', 'markets'));
  expect(coverageOf(again)).toEqual(coverageOf(output));
  // Drift between nights is reported by the whole program.
  box.set({ reshape: { 'markets:markets/*/question': 'gone' } });
  const next = await job('nightly', box.url, output, '--date', fixedDay, ...briefly);
  expect(next.code, next.stderr).toBe(0);
  expect(next.summary.warnings.join()).toContain('responses changed (markets): question is missing');
  const question = { resource: 'markets', field: 'question', change: 'vanished', before: ['string'], now: [] };
  expect(next.summary.schema_drift).toEqual([question]);
});

test('raw responses of a killed nightly are read as far as they were written', async () => {
  const box = await sandbox({ ...input, latencyMs: 20 });
  const [output, again, control] = [folder(), folder(), folder()];
  const running = start(jobArgs('nightly', output, '--date', fixedDay, ...briefly), access(box.url));
  const written = (): number =>
    globSync('*/*.raw', { cwd: rawOf(output) }).reduce(
      (sum, path) => sum + readFileSync(join(rawOf(output), path)).length,
      0,
    );
  await waitFor(() => box.stats().tickRows > 0 && written() > 0, 'a raw response');
  running.child.kill('SIGKILL');
  await running.ended;
  const imported = await importRaw(again, output);
  expect(imported.code, imported.stderr).toBe(0);
  box.set({ latencyMs: 0 });
  for (const archive of [output, again, control]) {
    const result = await job('nightly', box.url, archive, '--date', fixedDay, ...briefly);
    expect(result.code, result.stderr).toBe(0);
  }
  expect(totalTicks(control)).toBeGreaterThan(0);
  for (const archive of [output, again]) expect(rowHashes(archive, 'ticks')).toEqual(rowHashes(control, 'ticks'));
});
