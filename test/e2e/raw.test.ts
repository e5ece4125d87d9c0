import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { until } from '../harness/limits.ts';
import { jobHere as job, runHere as run } from './here.ts';
import { access, coverageOf, fixedDay, fixedNow, folder, hashes, jobArgs, sandbox, start, totalTicks } from './lake.ts';

const input = { seed: 8, nowMs: fixedNow, markets: 6, ticksPerDay: 60 };
const briefly = ['--set', 'source.first_lookback_days=1'];

const rawOf = (output: string): string => join(output, '.oddslake/raw');
const importRaw = (output: string, from: string, ...flags: string[]) =>
  run(jobArgs('import', output, rawOf(from), ...flags));

test('a nightly keeps its answers, and import makes the same archive of them', async () => {
  const box = await sandbox(input);
  const [output, again] = [folder(), folder()];
  const ended = await job('nightly', box.url, output, '--date', fixedDay, ...briefly);
  expect(ended.code, ended.stderr).toBe(0);
  expect(globSync('*/*.raw', { cwd: rawOf(output) })).toEqual([
    expect.stringMatching(`${ended.summary.run_id}-000\\.raw$`),
  ]);
  const imported = await importRaw(again, output, '--format', 'raw');
  expect(imported.code, imported.stderr).toBe(0);
  expect(hashes(again, 'ticks', 'markets')).toEqual(hashes(output, 'ticks', 'markets'));
  expect(coverageOf(again)).toEqual(coverageOf(output));
  // Drift from one night to the next is told by the program as a whole.
  box.set({ reshape: { 'markets:markets/*/question': 'gone' } });
  const next = await job('nightly', box.url, output, '--date', fixedDay, ...briefly);
  expect(next.code, next.stderr).toBe(0);
  expect(next.summary.warnings.join()).toContain('changed their shape (markets): question is gone');
  const question = { resource: 'markets', field: 'question', change: 'vanished', before: ['string'], now: [] };
  expect(next.summary.schema_drift).toEqual([question]);
});

test('what a killed nightly had been answered is read from its files as far as they were written', async () => {
  const box = await sandbox({ ...input, latencyMs: 20 });
  const [output, again, calm] = [folder(), folder(), folder()];
  const running = start(jobArgs('nightly', output, '--date', fixedDay, ...briefly), access(box.url));
  const written = (): number =>
    globSync('*/*.raw', { cwd: rawOf(output) }).reduce(
      (sum, path) => sum + readFileSync(join(rawOf(output), path)).length,
      0,
    );
  await until(() => box.stats().tickRows > 0 && written() > 0, 'an answer that is kept');
  running.child.kill('SIGKILL');
  await running.ended;
  const imported = await importRaw(again, output);
  expect(imported.code, imported.stderr).toBe(0);
  box.set({ latencyMs: 0 });
  for (const archive of [output, again, calm]) {
    const ended = await job('nightly', box.url, archive, '--date', fixedDay, ...briefly);
    expect(ended.code, ended.stderr).toBe(0);
  }
  expect(totalTicks(calm)).toBeGreaterThan(0);
  for (const archive of [output, again]) expect(hashes(archive, 'ticks')).toEqual(hashes(calm, 'ticks'));
});
