import { once } from 'node:events';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  openSharedRateStore,
  type SharedRateStore,
  toRateFilePath,
} from '../../../src/archive/journal/rate-limit-store.ts';
import { openState } from '../../../src/archive/journal/state.ts';
import { initialRateState, startsRetentionMs } from '../../../src/base/rate-state.ts';
import { systemClock } from '../../../src/base/system.ts';
import { createSlidingWindow } from '../../../src/client/sliding-window.ts';
import { createSeededRandom } from '../../client/seeded.ts';
import { countMaxWithin } from '../../client/sliding.ts';
import { scratchFolder } from '../scratch.ts';
import { another } from './another-process.ts';

function openIn(folder: string, busyMsMax?: number): SharedRateStore {
  const state = openState(folder, { upstream: 'https://box.test' });
  const store = openSharedRateStore(state, folder, busyMsMax);
  state.close();
  onTestFinished(() => store.close());
  return store;
}

describe('the shared rate limit of an archive', () => {
  test('is shared by all who open it, and persists', () => {
    const folder = scratchFolder();
    const [one, two] = [openIn(folder), openIn(folder)];
    expect(two.runExclusive(() => two.read())).toEqual(initialRateState);
    const state = {
      ...initialRateState,
      count: 7,
      slotMs: 12.5,
      resumeMs: 99,
      configuredMin: 20,
      writtenAtMs: 13,
      inferred: '{"rate":3}',
    };
    one.runExclusive(() => one.write(state));
    expect(two.runExclusive(() => two.read())).toEqual(state);
    const later = openIn(folder);
    expect(later.runExclusive(() => later.read())).toEqual(state);
  });

  test('rethrows an error of the work unchanged', () => {
    const store = openIn(scratchFolder());
    const error = new Error('paused for 1 s');
    const transaction = () =>
      store.runExclusive(() => {
        throw error;
      });
    expect(transaction).toThrow(error);
    expect(store.runExclusive(() => store.read())).toEqual(initialRateState);
  });

  test('deletes old starts, and rolls back failed work', () => {
    const store = openIn(scratchFolder());
    for (let n = 0; n < 100; n++) store.runExclusive(() => store.addStart(n, n * 100));
    store.runExclusive(() => {
      expect(store.getStart(0)).toBeUndefined();
      expect(store.getStart(99)).toEqual({ atMs: 9900, tookMs: null, isAccepted: false });
      expect(store.getStart(99 - startsRetentionMs / 100)).toBeDefined();
      store.endStart(98, 4, true);
      store.endStart(97, 4, false);
      expect(store.countAccepted(0, 100, 0)).toBe(1);
      expect(store.countAccepted(0, 100, 9800)).toBe(0);
      expect(store.getStart(98)).toEqual({ atMs: 9800, tookMs: 4, isAccepted: true });
    });
    const failing = () =>
      store.runExclusive(() => {
        store.clear();
        throw new Error('inside the transaction');
      });
    expect(failing).toThrow('inside the transaction');
    expect(store.runExclusive(() => store.getStart(99))).toBeDefined();
  });

  test.each(['rubbish '.repeat(2000), '', 'SQLite format 3\0'.repeat(600)])(
    'is recreated if its file is unreadable',
    (text) => {
      const folder = scratchFolder();
      writeFileSync(toRateFilePath(folder), text);
      const store = openIn(folder);
      expect(store.runExclusive(() => store.read())).toEqual(initialRateState);
      expect(existsSync(toRateFilePath(folder))).toBe(true);
    },
  );

  test('is recreated if an earlier version wrote it', () => {
    const folder = scratchFolder();
    const earlier = new DatabaseSync(toRateFilePath(folder));
    earlier.exec(`create table pace (one integer primary key, count integer not null, learned text);
      insert into pace values (1, 7, '{"rate":3}'); pragma user_version = 1`);
    earlier.close();
    const store = openIn(folder);
    expect(store.runExclusive(() => store.read())).toEqual(initialRateState);
  });

  test('is recreated if only its log is left', () => {
    const folder = scratchFolder();
    const lost = openIn(folder);
    lost.runExclusive(() => lost.write({ ...initialRateState, count: 5 }));
    expect(existsSync(`${toRateFilePath(folder)}-wal`)).toBe(true);
    rmSync(toRateFilePath(folder));
    const store = openIn(folder);
    expect(store.runExclusive(() => store.read())).toEqual(initialRateState);
  });

  test('delays nothing after a restart of the machine, and keeps the inferred rate', () => {
    const store = openIn(scratchFolder());
    const limiter = createSlidingWindow(() => 1, store);
    const uptimeMs = 1e9;
    store.runExclusive(() => {
      limiter.start(uptimeMs);
      store.write({ ...store.read(), resumeMs: uptimeMs + 60_000, inferred: '{}' });
    });
    expect(store.runExclusive(() => limiter.computeEarliestMs(5000))).toBe(Number.NEGATIVE_INFINITY);
    expect(store.runExclusive(() => store.read())).toMatchObject({
      count: 1,
      resumeMs: Number.NEGATIVE_INFINITY,
      inferred: '{}',
    });
  });

  test('lets three users together start no more than the rate in any second', () => {
    const folder = scratchFolder();
    const rate = 100;
    const starts: number[] = [];
    const random = createSeededRandom(3);
    const limiters = [1, 2, 3].map(() => {
      const store = openIn(folder);
      return { store, slidingWindow: createSlidingWindow(() => rate, store), wakeAt: 0, count: 0 };
    });
    while (starts.length < 250) {
      const next = limiters.reduce((a, b) => (b.wakeAt < a.wakeAt ? b : a));
      const now = next.wakeAt;
      next.store.runExclusive(() => {
        const earliest = next.slidingWindow.computeEarliestMs(now);
        if (earliest <= now) {
          next.slidingWindow.noteResponse(next.slidingWindow.start(now), now + 1);
          starts.push(now);
          next.count++;
        }
        // Timers are late by some milliseconds.
        next.wakeAt = Math.max(now, earliest) + 5 * random();
      });
    }
    expect(Math.min(...limiters.map(({ count }) => count))).toBeGreaterThan(0);
    expect(countMaxWithin(starts, 1000)).toBeLessThanOrEqual(rate);
    expect(starts.at(-1)! - starts[0]!).toBeLessThan(3000);
  });

  test('fails with exit code 5 while a suspended process holds it, and is free when that is killed', async () => {
    const folder = scratchFolder();
    const store = openIn(folder, 200);
    const child = another(
      folder,
      `store.runExclusive(() => {
        process.stdout.write('mine');
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
      });`,
    );
    await once(child.stdout, 'data');
    child.kill('SIGSTOP');
    const startedAt = systemClock.monotonicMs();
    const busy = expect.objectContaining({
      exitCode: 5,
      message: expect.stringContaining('was suspended while it held the lock'),
    });
    expect(() => store.runExclusive(() => 0)).toThrow(busy);
    expect(systemClock.monotonicMs() - startedAt).toBeGreaterThanOrEqual(190);
    child.kill('SIGKILL');
    await once(child, 'close');
    expect(store.runExclusive(() => 1)).toBe(1);
  });
});
