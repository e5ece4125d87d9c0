import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { waitFor } from '../harness/limits.ts';
import {
  access,
  expectDone,
  fixedDay,
  fixedNow,
  folder,
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
  await expectDone(importRaw(again, output, '--format', 'raw'));
  box.set({ latencyMs: 0 });
  for (const archive of [output, again, control]) {
    await expectDone(job('nightly', box.url, archive, '--date', fixedDay, ...briefly));
  }
  expect(totalTicks(control)).toBeGreaterThan(0);
  for (const archive of [output, again]) expect(rowHashes(archive, 'ticks')).toEqual(rowHashes(control, 'ticks'));
});
