import { expect, test } from 'vitest';
import type { Database, OpenDatabase } from '../../../src/archive/journal/database.ts';
import { watchManifest } from '../../../src/archive/read/manifest-watcher.ts';
import { DiskFullError, exitCodes, OddslakeError } from '../../../src/base/errors.ts';
import type { Clock } from '../../../src/base/ports.ts';
import { systemClock } from '../../../src/base/system.ts';
import type { ServiceContext } from '../../../src/server/http/service-context.ts';
import { openStateWriter } from '../../../src/server/live/state-writer.ts';
import { TickBroadcast } from '../../../src/server/live/tick-broadcast.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { opened } from '../../archive/scratch.ts';

/** A writer of a state whose transactions fail with `error`, while there is one. Sleeps are short. */
function openFailing() {
  const faults = { error: null as Error | null, attempts: 0, sleeping: 0, sleepingMax: 0 };
  const openDatabase: OpenDatabase = () =>
    ({
      transaction(work: () => unknown) {
        faults.attempts++;
        if (faults.error !== null) throw faults.error;
        return work();
      },
      close() {},
    }) as unknown as Database;
  const clock: Clock = {
    ...systemClock,
    async sleep(ms) {
      faults.sleeping++;
      faults.sleepingMax = Math.max(faults.sleepingMax, faults.sleeping);
      await systemClock.sleep(ms / 1000);
      faults.sleeping--;
    },
  };
  return { faults, clock, openDatabase };
}

const busy = new OddslakeError(exitCodes.busy, 'locked');

test('however many writes wait, one at a time is attempted, and they run in order', async () => {
  const { faults, ...outer } = openFailing();
  const writer = openStateWriter(outer, opened());
  faults.error = busy;
  const done: number[] = [];
  const writes = Array.from({ length: 100 }, (_, i) => writer.write(() => done.push(i)));
  while (faults.attempts < 20) await systemClock.sleep(1);
  faults.error = null;
  await Promise.all(writes);
  expect(faults.sleepingMax).toBe(1);
  expect(done).toEqual(Array.from({ length: 100 }, (_, i) => i));
});

test('writes that waited for the same lock fail together, and later ones wait by themselves', async () => {
  const { faults, ...outer } = openFailing();
  const writer = openStateWriter(outer, opened());
  faults.error = busy;
  const results = await Promise.allSettled(Array.from({ length: 100 }, () => writer.write(() => {})));
  expect(results.filter(({ status }) => status === 'rejected')).toHaveLength(100);
  expect(faults.attempts).toBe(400);
  const later = writer.write(() => 'written');
  while (faults.attempts < 410) await systemClock.sleep(1);
  faults.error = null;
  expect(await later).toBe('written');
  await expect(
    writer.write(() => {
      throw new Error('another error');
    }),
  ).rejects.toThrow('another error');
  expect(await writer.write(() => 'again')).toBe('again');
});

test.each([
  ['busy', busy, '5'],
  ['unavailable', new DiskFullError('full'), '60'],
] as const)('a stream that cannot be logged gets 503 %s, and does not count', async (code, error, seconds) => {
  const { faults, ...outer } = openFailing();
  faults.error = error;
  const archive = opened();
  const settings = await loadSettings({ env: {}, cwd: archive.layout.root });
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const streams = new TickBroadcast({
    ...outer,
    archive,
    current: watchManifest(archive),
    settings,
    log,
  } as unknown as ServiceContext);
  const opening = streams.open({
    symbols: ['A'],
    lastEventId: null,
    keyId: 'key',
    durationMs: null,
    isPermitted: async () => true,
  });
  await expect(opening).rejects.toMatchObject({ status: 503, code, headers: { 'retry-after': seconds } });
  expect(streams.counts.open).toBe(0);
  await streams.close();
});
