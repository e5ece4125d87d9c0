import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmdirSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import {
  addsUp,
  dayRows,
  expectSentence,
  findWrongWindows,
  fixedDay,
  fixedNow,
  folder,
  hashes,
  sandbox,
  ticksOf,
} from '../e2e/lake.ts';
import { runJob as job, run } from '../e2e/run-program.ts';
import { keyOf, serve } from '../e2e/served-archive.ts';
import { skipWithReason } from '../harness/needs.ts';

const sizeKb = 6000;

const mount = (at: string) =>
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${sizeKb}k`, 'oddslake-test', at], { stdio: 'pipe' });
const unmount = (at: string) => execFileSync('umount', ['-l', at], { stdio: 'pipe' });

/** Why no small file system can be mounted here; null if it can. */
function missingMount(): string | null {
  const at = mkdtempSync(join(tmpdir(), 'oddslake-mount-'));
  try {
    mount(at);
    unmount(at);
    return null;
  } catch (error) {
    return `a tmpfs cannot be mounted here: ${(error as Error).message.split('\n')[0]}`;
  } finally {
    rmdirSync(at);
  }
}

const smallDisk = skipWithReason(missingMount());

/** A file system of a few megabytes, unmounted after the test. */
function mountSmallDisk(): { at: string } {
  const at = join(folder(), 'small');
  mkdirSync(at);
  mount(at);
  onTestFinished(() => void unmount(at));
  return { at };
}

/** Leaves exactly this many bytes free. */
function fill(at: string, freeBytes: number): void {
  const { bavail, bsize } = statfsSync(at);
  appendFileSync(join(at, 'ballast'), new Uint8Array(Math.max(0, bavail * bsize - freeBytes)));
}

test('a run on a full disk exits with 1, and the next run with space completes without loss', smallDisk, async () => {
  const disk = mountSmallDisk();
  const box = await sandbox({ seed: 3, nowMs: fixedNow, markets: 6, ticksPerDay: 150 });
  const undisturbed = folder();
  expect((await job('nightly', box.url, undisturbed, '--date', fixedDay)).code).toBe(0);
  const output = join(disk.at, 'archive');
  let collected = 0;
  // From hardly enough space for the state to nearly enough for everything: each run fails at another place.
  for (const free of [8_000, 120_000, 260_000, 450_000, 550_000, 650_000, 800_000, 1_000_000]) {
    fill(disk.at, free);
    const ended = await job('nightly', box.url, output, '--date', fixedDay);
    if (ended.code !== 0) expectSentence(ended, 1, /disk is full.*Free some space/);
    expect(addsUp(ended.summary)).toBe(true);
    // If a run could not record its end after journaling, the next run counts its ticks as recovered.
    if (ended.summary.ticks.accepted + ended.summary.recovered > 0) collected++;
    rmSync(join(disk.at, 'ballast'));
    if (ended.code === 0) break;
  }
  expect(collected).toBeGreaterThan(0);
  const last = await job('nightly', box.url, output, '--date', fixedDay);
  expect(last.code, last.stderr).toBe(0);
  expect(dayRows(output, 'ticks')).toEqual(dayRows(undisturbed, 'ticks'));
  expect(findWrongWindows(output, box)).toEqual([]);
  expect((await run(['verify', '--output', output])).code).toBe(0);
});

test(
  'an export, a snapshot and an import on a full disk exit with 1 and leave no partial file',
  smallDisk,
  async () => {
    const disk = mountSmallDisk();
    const box = await sandbox({ seed: 3, nowMs: fixedNow, markets: 6, ticksPerDay: 150 });
    const output = folder();
    expect((await job('nightly', box.url, output, '--date', fixedDay)).code).toBe(0);
    const before = hashes(output, '.');
    const csv = join(folder(), 'own.csv');
    const lines = Array.from({ length: 20_000 }, (_, i) => `own,${fixedNow - i * 1000},0.${(i % 89) + 10}\n`);
    writeFileSync(csv, `symbol,t,p\n${lines.join('')}`);
    fill(disk.at, 8_000);
    const exported = (format: string) => ['export', '--output', output, '--out', join(disk.at, `slice.${format}`)];
    for (const args of [
      ...['parquet', 'arrow', 'csv', 'ndjson'].map(exported),
      ['snapshot', join(disk.at, 'copy'), '--output', output],
    ]) {
      const { code, stderr } = await run(args);
      expect(code, args.join(' ')).toBe(1);
      expect(stderr).toMatch(/^oddslake: The disk is full.*Free some space/m);
      expect(readdirSync(disk.at)).toEqual(['ballast']);
    }
    expect(hashes(output, '.')).toEqual(before);
    rmSync(join(disk.at, 'ballast'));
    fill(disk.at, 200_000);
    const lake = join(disk.at, 'lake');
    const imported = () => run(['import', csv, '--output', lake, '--set', 'source.name=own', '--json']);
    expectSentence(await imported(), 1, /disk is full.*Free some space/);
    rmSync(join(disk.at, 'ballast'));
    const retried = await imported();
    expect([retried.code, retried.stderr]).toEqual([0, expect.not.stringContaining('oddslake:')]);
    expect(ticksOf(lake).get('own')).toHaveLength(lines.length);
  },
);

test('a service on a full disk keeps serving pages and slices', smallDisk, async () => {
  const disk = mountSmallDisk();
  const box = await sandbox({ seed: 3, nowMs: fixedNow, markets: 6, ticksPerDay: 150 });
  const output = join(disk.at, 'archive');
  expect((await job('nightly', box.url, output, '--date', fixedDay)).code).toBe(0);
  const { ask, end } = await serve(output, await keyOf(output));
  fill(disk.at, 0);
  expect((await ask('/api/v1/historical/ticks?limit=1')).status).toBe(200);
  const slice = await ask('/api/v1/historical/ticks?format=csv');
  expect(slice.status).toBe(200);
  const lines = (await slice.text()).trimEnd().split('\n');
  expect(lines).toHaveLength(1 + [...ticksOf(output).values()].reduce((sum, ticks) => sum + ticks.length, 0));
  expect(await end('SIGTERM')).toBe(0);
});
