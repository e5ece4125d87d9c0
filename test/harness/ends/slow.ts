import { spawnSync } from 'node:child_process';
import { test } from 'vitest';
import { limitMs } from '../limits.ts';

// Run by test/harness/reporter.long.test.ts.

test('starts a process that takes long', { timeout: limitMs }, () => {
  spawnSync(process.execPath, ['-e', 'while (process.cpuUsage().user < 250_000);']);
});
