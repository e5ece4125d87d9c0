import { once } from 'node:events';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { newPace, startsKeptMs } from '../../src/core/rate-state.ts';
import { openSharedPace, paceFile, type SharedPace } from '../../src/state/rate-limit-store.ts';
import { openState } from '../../src/state/state.ts';
import { systemClock } from '../../src/system.ts';
import { createPacer } from '../../src/upstream/sliding-window.ts';
import { scratchFolder } from '../archive/scratch.ts';
import { seeded } from '../upstream/seeded.ts';
import { mostWithin } from '../upstream/sliding.ts';
import { another } from './another-process.ts';

function openIn(folder: string, busyMsMax?: number): SharedPace {
  const state = openState(folder, { upstream: 'https://box.test', parts: 4 });
  const pace = openSharedPace(state, folder, busyMsMax);
  state.close();
  onTestFinished(() => pace.close());
  return pace;
}

describe('the pace of an archive', () => {
  test('is one for all who open it, and lasts', () => {
    const folder = scratchFolder();
    const [one, two] = [openIn(folder), openIn(folder)];
    expect(two.alone(() => two.read())).toEqual(newPace);
    const pace = { ...newPace, count: 7, slotMs: 12.5, resumeMs: 99, lowest: 20, atMs: 13, learned: '{"rate":3}' };
    one.alone(() => one.write(pace));
    expect(two.alone(() => two.read())).toEqual(pace);
    const later = openIn(folder);
    expect(later.alone(() => later.read())).toEqual(pace);
  });

  test('passes on what was thrown in a turn as it is: it is none of the file', () => {
    const pace = openIn(scratchFolder());
    const thrown = new Error('paused for 1 s');
    const turn = () =>
      pace.alone(() => {
        throw thrown;
      });
    expect(turn).toThrow(thrown);
    expect(pace.alone(() => pace.read())).toEqual(newPace);
  });

  test('forgets starts that are old, and what stood in a turn that failed', () => {
    const pace = openIn(scratchFolder());
    for (let n = 0; n < 100; n++) pace.alone(() => pace.addStart(n, n * 100));
    pace.alone(() => {
      expect(pace.start(0)).toBeUndefined();
      expect(pace.start(99)).toEqual({ atMs: 9900, tookMs: null });
      expect(pace.start(99 - startsKeptMs / 100)).toBeDefined();
      pace.endStart(98, 4, true);
      pace.endStart(97, 4, false);
      expect(pace.letThrough(0, 100, 0)).toBe(1);
      expect(pace.letThrough(0, 98, 0)).toBe(0);
    });
    const broken = () =>
      pace.alone(() => {
        pace.clear();
        throw new Error('amid a turn');
      });
    expect(broken).toThrow('amid a turn');
    expect(pace.alone(() => pace.start(99))).toBeDefined();
  });

  test.each(['rubbish '.repeat(2000), '', 'SQLite format 3\0'.repeat(600)])(
    'is begun anew where its file is unreadable',
    (text) => {
      const folder = scratchFolder();
      writeFileSync(paceFile(folder), text);
      const pace = openIn(folder);
      expect(pace.alone(() => pace.read())).toEqual(newPace);
      expect(existsSync(paceFile(folder))).toBe(true);
    },
  );

  test('is begun anew where only its log is left', () => {
    const folder = scratchFolder();
    const lost = openIn(folder);
    lost.alone(() => lost.write({ ...newPace, count: 5 }));
    expect(existsSync(`${paceFile(folder)}-wal`)).toBe(true);
    rmSync(paceFile(folder));
    const pace = openIn(folder);
    expect(pace.alone(() => pace.read())).toEqual(newPace);
  });

  test('of a machine that was started anew holds nobody up, and still knows what was learned', () => {
    const pace = openIn(scratchFolder());
    const pacer = createPacer(() => 1, pace);
    const uptimeMs = 1e9;
    pace.alone(() => {
      pacer.start(uptimeMs);
      pace.write({ ...pace.read(), resumeMs: uptimeMs + 60_000, learned: '{}' });
    });
    expect(pace.alone(() => pacer.earliestMs(5000))).toBe(Number.NEGATIVE_INFINITY);
    expect(pace.alone(() => pace.read())).toMatchObject({
      count: 1,
      resumeMs: Number.NEGATIVE_INFINITY,
      learned: '{}',
    });
  });

  test('lets three who share it start no more than the rate in any second', () => {
    const folder = scratchFolder();
    const rate = 100;
    const starts: number[] = [];
    const random = seeded(3);
    const pacers = [1, 2, 3].map(() => {
      const pace = openIn(folder);
      return { pace, pacer: createPacer(() => rate, pace), wakeAt: 0, count: 0 };
    });
    while (starts.length < 250) {
      const next = pacers.reduce((a, b) => (b.wakeAt < a.wakeAt ? b : a));
      const now = next.wakeAt;
      next.pace.alone(() => {
        const earliest = next.pacer.earliestMs(now);
        if (earliest <= now) {
          next.pacer.answered(next.pacer.start(now), now + 1);
          starts.push(now);
          next.count++;
        }
        // Timers are late by some milliseconds.
        next.wakeAt = Math.max(now, earliest) + 5 * random();
      });
    }
    expect(Math.min(...pacers.map(({ count }) => count))).toBeGreaterThan(0);
    expect(mostWithin(starts, 1000)).toBeLessThanOrEqual(rate);
    expect(starts.at(-1)! - starts[0]!).toBeLessThan(3000);
  });

  test('is an error with a sentence, not a hang, while a process that was stopped amid its turn holds it; and free when that one is killed', async () => {
    const folder = scratchFolder();
    const pace = openIn(folder, 200);
    const child = another(
      folder,
      `pace.alone(() => {
        process.stdout.write('mine');
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
      });`,
    );
    await once(child.stdout, 'data');
    child.kill('SIGSTOP');
    const began = systemClock.monotonicMs();
    const busy = expect.objectContaining({
      exitCode: 5,
      message: expect.stringContaining('was stopped at a bad moment'),
    });
    expect(() => pace.alone(() => 0)).toThrow(busy);
    expect(systemClock.monotonicMs() - began).toBeGreaterThanOrEqual(190);
    child.kill('SIGKILL');
    await once(child, 'close');
    expect(pace.alone(() => 1)).toBe(1);
  });
});
