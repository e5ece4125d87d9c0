import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { access, expectDone, folder, sandbox } from './lake.ts';
import { run } from './run-program.ts';

test('--archive names a folder wherever --output does, and both must agree', async () => {
  const [lake, other] = [join(folder(), 'lake'), join(folder(), 'other')];
  const box = await sandbox({ markets: 2, ticksPerDay: 10 });
  const rate = ['--set', 'upstream.requests_per_second=2000'];
  await expectDone(run(['markets', '--archive', lake, ...rate, '--json'], access(box.url)));
  expect(existsSync(join(lake, 'manifest.json'))).toBe(true);
  for (const command of [
    ['status'],
    ['verify'],
    ['symbols'],
    ['gaps'],
    ['keys', 'list'],
    ['changes', '--since', '0'],
  ]) {
    await expectDone(run([...command, '--archive', lake]));
  }
  const doctor = await run(['doctor', '--offline', '--archive', lake, '--json'], access(box.url));
  expect(JSON.parse(doctor.stdout).settings).toContainEqual(
    expect.objectContaining({ path: 'archive.output', from: '--output' }),
  );
  await expectDone(run(['status', '--archive', lake, '--output', relative('.', lake)]));
  for (const command of ['status', 'markets', 'verify']) {
    const ended = await run([command, '--archive', lake, '--output', other], access(box.url));
    expect([ended.code, ended.stderr], command).toEqual([2, expect.stringMatching(/not both/)]);
  }
  expect(existsSync(other)).toBe(false);
  expect((await run(['nightly', '--help'])).stdout).toMatch(/--archive <dir> +another name of --output/);
});
