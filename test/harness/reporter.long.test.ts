import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';

const folder = new URL('ends', import.meta.url).pathname;
const vitest = new URL('../../node_modules/vitest/vitest.mjs', import.meta.url).pathname;

/** A separate run of the tests in test/harness/ends. */
function play(args: readonly string[], env: Record<string, string> = {}) {
  const { CI: _, ...outside } = process.env;
  const all = [vitest, 'run', '--root', folder, ...args];
  return spawnSync(process.execPath, all, { cwd: folder, encoding: 'utf8', env: { ...outside, ...env } });
}

test('the end of a run lists skipped tests by reason, and exceeded time limits apart from wrong results', () => {
  const { stdout, status } = play(['some-of-each']);
  expect(status).toBe(1);
  expect(stdout.trim()).toBe(
    `Skipped:
  no reason given: 1 test in some-of-each.ts
  no such browser: 2 tests in some-of-each.ts
  no such disk: 1 test in some-of-each.ts
  no such tool: 1 test in some-of-each.ts

Of 3 failed tests, 2 reached a time limit and saw no wrong result: the machine is too slow, or something hangs.
  some-of-each.ts > waits in vain
  some-of-each.ts > hangs`,
  );
});

test('a skipped test fails the run in CI only', () => {
  const alone = play(['some-of-each', '-t', 'a group|passes']);
  expect([alone.status, alone.stdout]).toEqual([0, expect.stringContaining('no such browser: 2 tests')]);
  const inCi = play(['some-of-each', '-t', 'a group|passes'], { CI: 'true' });
  expect([inCi.status, inCi.stdout]).toEqual([1, expect.stringContaining('CI skips no test')]);
});

test('a quick file that takes much CPU time is reported and fails nothing', () => {
  const { stdout, status } = play(['slow']);
  expect([status, stdout]).toEqual([
    0,
    expect.stringMatching(/^Warning: quick tests of more than 0\.2 s[^\n]*\n {2}\d+\.\d s slow\.ts\n/),
  ]);
});
