import { expect, test } from 'vitest';
import type { ChangedFile } from '../../src/archive/publish/prune-files.ts';
import { expectDone, fixedNow, folder, manifestOf, sandbox } from './lake.ts';
import { runJob as job, run } from './run-program.ts';

interface Changes {
  readonly since: number;
  readonly generation: number;
  readonly count: number;
  readonly files: readonly ChangedFile[];
}

test('changes lists changed files since a generation, as paths or JSON', async () => {
  const output = folder();
  const box = await sandbox({ seed: 5, nowMs: fixedNow, markets: 4 });
  const backfill = (from: string, to: string) => job('backfill', box.url, output, '--from', from, '--to', to);
  await expectDone(backfill('2025-06-12', '2025-06-13'));
  await expectDone(backfill('2025-06-13', '2025-06-14'));
  expect(manifestOf(output).generation).toBe(2);
  const since = async (generation: number) => {
    const { stdout } = await expectDone(run(['changes', '--since', `${generation}`, '--output', output, '--json']));
    return JSON.parse(stdout) as Changes;
  };
  const second = await since(1);
  expect(second).toMatchObject({ since: 1, generation: 2, count: second.files.length });
  expect(second.files.every((file) => file.generation === 2)).toBe(true);
  expect(second.files.some((file) => file.path.includes('date=2025-06-12'))).toBe(false);
  expect(second.files[0]).toEqual({
    dataset: 'ticks',
    ...manifestOf(output).datasets.ticks.files.find((file) => file.path === second.files[0]!.path),
  });
  expect(await since(2)).toEqual({ since: 2, generation: 2, count: 0, files: [], removed: [] });

  const text = await run(['changes', '--since', '1', '--output', output]);
  expect(text.stdout.trimEnd().split('\n')).toEqual(second.files.map((file) => file.path));
  expect(text.stderr).toMatch(/^\d+ files, .*, from generation 1 to 2\n$/);
  const quiet = await run(['changes', '--since', '1', '--output', output, '--quiet']);
  expect([quiet.stdout, quiet.stderr]).toEqual([text.stdout, '']);
  const future = await run(['changes', '--since', '3', '--output', output]);
  expect([future.code, future.stdout]).toEqual([2, '']);
  expect(future.stderr).toMatch(/--since 3 is above the archive's generation 2/);
});
