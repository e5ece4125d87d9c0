import { expect, test } from 'vitest';
import { access, fixedNow, folder, sandbox } from './lake.ts';
import { runJob as job, run } from './run-program.ts';

// Many runs, slow on a busy machine.
test('a night with far fewer listed markets exits with 4, says so, and publishes', async () => {
  const output = folder();
  const box = await sandbox({ seed: 8, nowMs: fixedNow, markets: 12, ticksPerDay: 10 });
  for (const day of ['2025-06-10', '2025-06-11', '2025-06-12']) {
    const ordinary = await job('nightly', box.url, output, '--date', day);
    expect(ordinary.code, ordinary.stdout).toBe(0);
  }
  const poorer = await sandbox({ seed: 8, nowMs: fixedNow, markets: 3, ticksPerDay: 10 });
  const flags = ['--output', output, '--set', 'source.name=box', '--set', 'upstream.requests_per_second=2000'];
  const night = await run(['nightly', ...flags, '--date', '2025-06-13'], access(poorer.url));
  expect(night.code, night.stdout + night.stderr).toBe(4);
  expect(night.stdout).toMatch(/^nightly done after .*, but incomplete/);
  expect(night.stdout).toMatch(/\nincomplete: markets fell by \d\d %: the lists name \d+, the median of the last/);
  expect(night.stdout).toMatch(/ 2025-06-13, [\d,]+ ticks added \(generation 4\)/);
  // The same night again does not count.
  const again = await job('nightly', poorer.url, output, '--date', '2025-06-13');
  expect(again.summary.failures.filter(({ symbol }) => symbol === null)).toEqual([]);
});
