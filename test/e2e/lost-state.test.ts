import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { expectDone, findWrongWindows, fixedDay, fixedNow, folder, hashes, runProcess, sandbox } from './lake.ts';
import { runJob as job, run } from './run-program.ts';

const everything = ['ticks', 'coverage', 'conflicts', 'markets', 'symbols'];

test('without .oddslake the next night requests only what is due and changes no tick file', async () => {
  const [output, control] = [join(folder(), 'lake'), join(folder(), 'lake')];
  const box = await sandbox({ seed: 21, nowMs: fixedNow, markets: 8 });
  await expectDone(job('nightly', box.url, output, '--date', '2025-06-13'));
  cpSync(output, control, { recursive: true });
  rmSync(join(output, '.oddslake'), { recursive: true });

  // Several processes find it missing at once; each exits with 0, and they agree.
  const commands = [['status'], ['gaps'], ['symbols'], ['verify']].map((args) => [
    ...args,
    '--json',
    '--output',
    output,
  ]);
  const results = await Promise.all(commands.map((args) => runProcess(args)));
  for (const { code, stderr } of results) expect([code, stderr]).toEqual([0, '']);
  const status = JSON.parse(results[0]!.stdout) as { generation: number; watermark: number };
  const known = JSON.parse((await run(['status', '--json', '--output', control])).stdout) as typeof status;
  expect([status.generation, status.watermark]).toEqual([known.generation, known.watermark]);

  const before = hashes(output, 'ticks', 'coverage', 'conflicts');
  const again = await job('nightly', box.url, output, '--date', '2025-06-13');
  expect([again.code, again.summary.pages, again.summary.ticks.fetched]).toEqual([0, 0, 0]);
  expect(hashes(output, 'ticks', 'coverage', 'conflicts')).toEqual(before);

  const next = await job('nightly', box.url, output, '--date', fixedDay);
  const expected = await job('nightly', box.url, control, '--date', fixedDay);
  expect([next.code, expected.code]).toEqual([0, 0]);
  // Inferred page caps are lost too: some more requests confirm existing windows.
  const { accepted, conflicts, quarantined } = expected.summary.ticks;
  expect(next.summary.ticks).toMatchObject({ accepted, conflicts, quarantined });
  for (const name of everything) expect(hashes(output, name), name).toEqual(hashes(control, name));
  expect(findWrongWindows(output, box)).toEqual([]);
});
