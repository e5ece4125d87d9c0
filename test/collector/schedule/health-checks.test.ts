import { expect, onTestFinished, test } from 'vitest';
import { job as markets } from '../../../jobs/markets.ts';
import { systemDisk } from '../../../src/archive/disk/file-system.ts';
import { openScheduleMonitor } from '../../../src/collector/schedule/health-checks.ts';
import { openJobStatusBoard } from '../../../src/collector/schedule/job-status.ts';
import { startWorld } from '../../server/live/live-world.ts';

test('an archive that is moved away between two reads cannot be read, and is no error of the port', async () => {
  const world = await startWorld();
  expect((await markets.run(await world.context(), undefined)).exit_code).toBe(0);
  let looks = 0;
  // The state file is there at the first look only.
  const size = (path: string): number | null =>
    path.endsWith('state.sqlite') && ++looks > 1 ? null : systemDisk.size(path);
  const context = { ...(await world.context()), disk: { ...systemDisk, size } };
  const monitor = await openScheduleMonitor(context, 0, openJobStatusBoard([], 1, world.clock.nowMs()));
  onTestFinished(() => monitor.close());
  const facts = world.log.find(({ message }) => message === 'serving health and metrics')!.facts as { url: string };
  const response = await fetch(`${facts.url}/readyz`);
  expect(response.status).toBe(503);
  expect(await response.json()).toMatchObject({
    errors: [{ name: 'archive unreadable', reason: 'the archive cannot be read' }],
    verdict: { state: 'action_required', text: 'The archive cannot be read' },
  });
});
