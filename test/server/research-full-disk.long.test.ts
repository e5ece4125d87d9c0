import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { answer, append, day0, opened, publishNow, scratchFolder } from '../archive/scratch.ts';
import { asking, backtestPath, type Kept, threshold } from './backtesting.ts';

test('a full disk gives 503 with Retry-After, and fails a saved backtest', async (context) => {
  const at = join(scratchFolder(), 'small');
  mkdirSync(at);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=3000k,nr_inodes=300', 'oddslake-test', at], { stdio: 'pipe' });
  } catch {
    return context.skip('cannot mount a tmpfs');
  }
  onTestFinished(() => void execFileSync('umount', ['-l', at], { stdio: 'pipe' }));
  const archive = opened({ root: join(at, 'archive'), parts: 1 });
  append(archive, answer('KX A', [[day0, 0.2] as const, [day0 + 60_000, 0.8] as const]));
  await publishNow(archive);
  const { alice } = await asking(archive);
  expect((await alice.post(threshold)).status).toBe(200);
  // A run in memory writes no data: there is no space for its folder and links.
  const ballast = join(at, 'ballast');
  mkdirSync(ballast);
  for (let left = statfsSync(at).ffree; left > 0; left--) writeFileSync(join(ballast, String(left)), '');
  const { status, headers, body } = await alice.post<{ detail: string }>(threshold);
  expect([status, headers.get('retry-after'), body.detail]).toEqual([
    503,
    '300',
    'The disk of the service is full. Try again later.',
  ]);
  const { body: job } = await alice.post({ ...threshold, save: true });
  const ended = await alice.becomes(job, 'done', 'failed');
  expect([ended.state, ended.error]).toEqual(['failed', body.detail]);
  rmSync(ballast, { recursive: true });
  expect((await alice.post(threshold)).status).toBe(200);
  expect((await alice.json<Kept>(`${backtestPath}/${job.id}`)).body.state).toBe('failed');
});
