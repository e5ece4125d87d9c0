import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { addsUp, expectSentence, fixedDay, fixedNow, folder, hashes, job, run, sandbox, untruths } from './lake.ts';

const sizeKb = 3_000;

/** A file system of few megabytes, or the reason why there is none. */
function smallDisk(): { at: string } | { why: string } {
  const at = join(folder(), 'small');
  mkdirSync(at);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${sizeKb}k`, 'oddslake-test', at], { stdio: 'pipe' });
  } catch (error) {
    return { why: `a tmpfs cannot be mounted here: ${(error as Error).message.split('\n')[0]}` };
  }
  onTestFinished(() => void execFileSync('umount', ['-l', at], { stdio: 'pipe' }));
  return { at };
}

/** Leaves just so many bytes free. */
function fill(at: string, freeBytes: number): void {
  const { bavail, bsize } = statfsSync(at);
  writeFileSync(join(at, 'ballast'), new Uint8Array(Math.max(0, bavail * bsize - freeBytes)));
}

test('a disk that fills up ends a run with 1; with space again the next one completes and nothing is lost', async (context) => {
  const disk = smallDisk();
  if ('why' in disk) {
    console.log(`skipped: ${disk.why}`);
    return context.skip(disk.why);
  }
  const box = await sandbox({ seed: 3, nowMs: fixedNow, markets: 6, ticksPerDay: 150 });
  const calm = folder();
  expect((await job('nightly', box.url, calm, '--date', fixedDay)).code).toBe(0);
  const output = join(disk.at, 'archive');
  let collected = 0;
  // From hardly enough for the state to nearly enough for all of it: each run dies somewhere else.
  for (const free of [8_000, 120_000, 260_000, 450_000, 550_000, 650_000, 800_000, 1_000_000]) {
    fill(disk.at, free);
    const ended = await job('nightly', box.url, output, '--date', fixedDay);
    if (ended.code !== 0) expectSentence(ended, 1, /disk is full.*Free some space/);
    expect(addsUp(ended.summary)).toBe(true);
    if (ended.summary.ticks.accepted > 0) collected++;
    rmSync(join(disk.at, 'ballast'));
    if (ended.code === 0) break;
  }
  expect(collected).toBeGreaterThan(0);
  const last = await job('nightly', box.url, output, '--date', fixedDay);
  expect(last.code, last.stderr).toBe(0);
  expect(hashes(output, 'ticks')).toEqual(hashes(calm, 'ticks'));
  expect(untruths(output, box)).toEqual([]);
  expect((await run(['verify', '--output', output])).code).toBe(0);
}, 60_000);
