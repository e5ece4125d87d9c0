import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import type { Archive } from '../../../src/archive/archive.ts';
import { watchManifest } from '../../../src/archive/read/manifest-watcher.ts';
import type { Clock } from '../../../src/base/ports.ts';
import { systemClock } from '../../../src/base/system.ts';
import type { ServiceContext } from '../../../src/server/http/service-context.ts';
import { TickBroadcast } from '../../../src/server/live/tick-broadcast.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { answer, append, day0, now, opened, type Pairs } from '../../archive/scratch.ts';
import { waitFor } from '../../harness/limits.ts';

// The broadcast without HTTP, so that a test decides what runs between its steps.

/** An archive that knows the symbol A, open a second time as a collector has it, and the streams of a service. */
async function openStreams(clock: Clock) {
  const served = opened({ parts: 1 });
  const archive = opened({ root: served.layout.root, parts: 1 });
  append(archive, answer('A', [[day0, 0.5]]));
  const settings = await loadSettings({ env: {}, cwd: served.layout.root });
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const context = { archive: served, current: watchManifest(served), settings, clock, log };
  const streams = new TickBroadcast(context as unknown as ServiceContext);
  onTestFinished(() => streams.close());
  return { archive, streams };
}

const openStream = (streams: TickBroadcast, lastEventId: string | null): Promise<Readable> =>
  streams.open({ symbols: ['A'], lastEventId, keyId: 'key', durationMs: null, isPermitted: async () => true });

/** Reads all events; returns the ID of the first one. */
async function readFromStart(body: Readable): Promise<string> {
  const [chunk] = await once(body, 'data');
  return /^id: (.*)$/m.exec(String(chunk))![1]!;
}

/** Journals ticks one by one, so that the log has a row of each. */
function appendEach(archive: Archive, from: number, to: number): void {
  for (let i = from; i < to; i++) append(archive, answer('A', [[day0 + i, i / 1000]]));
}

test('a stream that catches up gets what is journaled meanwhile in its place', async () => {
  // The log is polled in every turn.
  const { archive, streams } = await openStreams({ ...systemClock, nowMs: () => now, sleep: () => nextTurn() });
  const start = await readFromStart(await openStream(streams, null));
  const [kept, all] = [300, 400];
  appendEach(archive, 1, kept + 1);
  await waitFor(() => streams.counts.ticks === kept, 'the ticks of the first stream');
  const resumed = await openStream(streams, start);
  const times: number[] = [];
  resumed.on('data', (chunk: Buffer) => {
    for (const [, t] of String(chunk).matchAll(/"t":(\d+)/g)) times.push(Number(t) - day0);
  });
  for (let i = kept + 1; i <= all; i++) {
    appendEach(archive, i, i + 1);
    await nextTurn();
  }
  await waitFor(() => times.at(-1) === all, 'the last tick');
  expect(times).toEqual(Array.from({ length: all }, (_, i) => i + 1));
});

test('streams that catch up share a slice of time, so that other requests do not wait for them', async () => {
  let ms = 0;
  const { archive, streams } = await openStreams({ ...systemClock, nowMs: () => now, monotonicMs: () => ms++ });
  const start = await readFromStart(await openStream(streams, null));
  const [count, ticks] = [20, 20_000];
  append(
    archive,
    answer(
      'A',
      Array.from({ length: ticks }, (_, i): Pairs[number] => [day0 + 1 + i, 0.5]),
    ),
  );
  for (const body of await Promise.all(Array.from({ length: count }, () => openStream(streams, start)))) body.resume();
  let [sent, most] = [streams.counts.ticks, 0];
  await waitFor(async () => {
    await nextTurn();
    most = Math.max(most, streams.counts.ticks - sent);
    sent = streams.counts.ticks;
    return sent >= (1 + count) * ticks;
  }, 'all ticks');
  expect(sent).toBe((1 + count) * ticks);
  expect(most).toBeLessThan(100_000);
});
