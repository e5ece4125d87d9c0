import { expect, test } from 'vitest';
import { systemDisk } from '../../../src/archive/disk/file-system.ts';
import { systemClock } from '../../../src/base/system.ts';
import { runJob } from '../../../src/collector/job.ts';
import { type Context, InterruptedError } from '../../../src/context/context.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { scratchFolder } from '../../archive/scratch.ts';

test('a signal between the runs of two sources interrupts the job', async () => {
  const stop = new AbortController();
  const output = scratchFolder();
  const address = (name: string) => [`sources.${name}.base_url=https://${name}.test`, `sources.${name}.api_key=key`];
  const settings = await loadSettings({
    env: {},
    cwd: output,
    output,
    set: [...address('alpha'), ...address('beta'), 'report.nightly=false'],
  });
  const silent = () => {};
  const context: Context = {
    settings,
    clock: systemClock,
    log: { debug: silent, info: silent, warn: silent, error: silent },
    signal: stop.signal,
    version: 'test',
    waitMs: 0,
    strict: false,
    threads: 1,
    canCreateArchive: true,
    disk: systemDisk,
    random: () => 0.5,
    startDisplay: async () => ({ update: silent, stop: silent }),
  };
  const collected: (string | null)[] = [];
  const summary = await runJob(context, 'nightly', { usesUpstream: true }, async ({ source }) => {
    collected.push(source);
    stop.abort(new InterruptedError('SIGTERM'));
  });
  expect(collected).toEqual(['alpha']);
  expect([summary.exit_code, summary.outcome]).toEqual([143, 'interrupted']);
  expect(summary.sources!.map(({ source, exit_code }) => [source, exit_code])).toEqual([
    ['alpha', 0],
    ['beta', 143],
  ]);
});
