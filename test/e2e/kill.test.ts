import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openDatabase } from '../../src/state/database.ts';
import { takeWriteLock, type WriteLock } from '../../src/state/lock.ts';
import { systemClock } from '../../src/system.ts';
import {
  access,
  addsUp,
  type Ended,
  fixedDay,
  fixedNow,
  folder,
  hashes,
  job,
  jobArgs,
  manifestOf,
  type Running,
  run,
  sandbox,
  sleep,
  start,
  totalTicks,
  until,
  untruths,
} from './lake.ts';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`kill: SEED=${seed}`);
/** The same numbers for the same seed, in [0, 1). */
let drawn = seed;
const random = (): number => {
  drawn = (Math.imul(drawn, 1_664_525) + 1_013_904_223) >>> 0;
  return drawn / 2 ** 32;
};

const input = { seed, nowMs: fixedNow, cap: 300 };

/** What a run that was not finished has left in the journal: 0 where the killed one had nothing yet. */
function journaled(output: string): number {
  const db = openDatabase(`${output}/.oddslake/state.sqlite`, 5_000);
  try {
    return db.one<{ n: number | null }>('select sum(n) as n from journal_ticks')?.n ?? 0;
  } finally {
    db.close();
  }
}

describe('a nightly that is killed with SIGKILL', () => {
  test('ends, run again, in the same bytes of ticks as one that was left alone', { timeout: 120_000 }, async () => {
    const box = await sandbox(input);
    const calm = folder();
    const undisturbed = await job('nightly', box.url, calm, '--date', fixedDay);
    expect(undisturbed.code, undisturbed.stderr).toBe(0);
    const wanted = hashes(calm, 'ticks');
    expect(Object.keys(wanted).length).toBeGreaterThan(4);

    const { requests } = box.stats();
    box.set({ latencyMs: 20 });
    const output = folder();
    const args = jobArgs('nightly', output, '--date', fixedDay);
    let recovered = 0;
    let kills = 0;
    for (let round = 0; round < 12; round++) {
      const running = start(args, access(box.url));
      // After so many requests and a little more: while it collects, and in later rounds while it publishes.
      const target = box.stats().requests + 2 + random() * requests * 0.25;
      await until(() => box.stats().requests >= target || isOver(running));
      await sleep(random() * 80);
      running.child.kill('SIGKILL');
      const { signal } = await running.ended;
      if (signal === 'SIGKILL') kills++;
      recovered = Math.max(recovered, signal === 'SIGKILL' ? journaled(output) : 0);
      const torn = await run(['verify', '--output', output, '--json']);
      // Before the first publish there is nothing to differ; after any other kill all that is named is there.
      expect(torn.code, torn.stdout + torn.stderr).toBe(0);
    }
    box.set({ latencyMs: 0 });
    const last = await job('nightly', box.url, output, '--date', fixedDay);
    expect(last.code, last.stderr).toBe(0);
    expect(addsUp(last.summary)).toBe(true);
    expect(hashes(output, 'ticks')).toEqual(wanted);
    expect(untruths(output, box)).toEqual([]);
    expect(kills).toBeGreaterThan(0);
    expect(recovered).toBeGreaterThan(0);
  });

  test('while it publishes loses and doubles nothing', { timeout: 120_000 }, async () => {
    const box = await sandbox({ ...input, ticksPerDay: 600 });
    const calm = folder();
    expect((await job('nightly', box.url, calm, '--date', fixedDay)).code).toBe(0);
    const wanted = hashes(calm, 'ticks');

    for (let round = 0; round < 4; round++) {
      const output = folder();
      // Collected, and all of it left in the journal.
      const lock = await holdLock(output);
      const collected = await job('nightly', box.url, output, '--date', fixedDay, '--wait', '0');
      lock.release();
      expect(collected.code, collected.stderr).toBe(5);
      const killed: Ended[] = [];
      for (let attempt = 0; attempt < 3; attempt++) {
        const running = start(jobArgs('publish', output));
        const staging = join(output, '.oddslake', 'staging');
        await until(() => existsSync(staging) || isOver(running));
        await sleep(random() * 60);
        running.child.kill('SIGKILL');
        killed.push(await running.ended);
      }
      const last = await job('nightly', box.url, output, '--date', fixedDay);
      expect(last.code, last.stderr).toBe(0);
      expect(hashes(output, 'ticks')).toEqual(wanted);
      expect(totalTicks(output)).toBe(totalTicks(calm));
      expect(manifestOf(output).days).toEqual(manifestOf(calm).days);
      // Whichever process got as far as the commit has them as recovered, and none of them twice.
      if (killed.every(({ signal }) => signal === 'SIGKILL') && manifestOf(output).generation === 1)
        expect(last.summary.recovered).toBe(collected.summary.ticks.fetched);
      expect((await run(['verify', '--output', output])).code).toBe(0);
    }
  });
});

const isOver = ({ child }: Running): boolean => child.exitCode !== null || child.signalCode !== null;

/** Holds the write lock of an archive that is still to come. */
async function holdLock(output: string): Promise<WriteLock> {
  mkdirSync(join(output, '.oddslake'), { recursive: true });
  return takeWriteLock(join(output, '.oddslake', 'lock.sqlite'), 0, systemClock);
}
