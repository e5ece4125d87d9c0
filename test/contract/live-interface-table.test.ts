import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { job as markets } from '../../jobs/markets.ts';
import { job as nightly } from '../../jobs/nightly.ts';
import { job as publish } from '../../jobs/publish.ts';
import { openEvents } from '../server/live/event-stream.ts';
import { type Answer, startMs, startWorld } from '../server/live/live-world.ts';

// What the interface calls its realtime surface, against an upstream that moves on between two requests.

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

interface Seen {
  /** Time between the two requests, ms. */
  readonly passed: number;
  readonly before: Answer['body'];
  readonly after: Answer['body'];
  /** Times of all ticks that the upstream has in the window of the second response. */
  readonly truth: readonly number[];
}

interface Row {
  readonly statement: string;
  readonly path: string;
  /** What happens between the two requests, and its name. */
  readonly between: readonly [string, (world: Awaited<ReturnType<typeof startWorld>>) => Promise<void> | void];
  readonly shows: readonly [string, (seen: Seen) => boolean];
}

const timesOf = ({ ticks }: Answer['body']): number[] => ticks.map(({ t }) => t);
const isPrefix = (first: readonly number[], all: readonly number[]): boolean => first.every((t, i) => all[i] === t);
const hasTruth = ({ after, truth }: Seen): boolean => timesOf(after).join() === truth.join();
const isCurrent = ({ before, after, passed }: Seen): boolean => after.data_time! - before.data_time! === passed;

const rows: readonly Row[] = [
  {
    statement: 'Lists live markets',
    path: '/api/v1/markets?view=matched',
    between: ['a minute passes', (world) => world.advance(minuteMs)],
    shows: [
      'the same markets as of a minute later',
      (seen) =>
        isCurrent(seen) && seen.after.count > 0 && seen.after.generated_at - seen.before.generated_at === minuteMs,
    ],
  },
  {
    statement: 'Returns recent tick history for one symbol',
    path: '/api/v1/ticks?symbol={symbol}&from={minutes_ago}&limit=10000',
    between: ['a minute passes', (world) => world.advance(minuteMs)],
    shows: [
      'all ticks of the upstream up to now, the earlier ones first, no gap',
      (seen) =>
        isCurrent(seen) &&
        hasTruth(seen) &&
        seen.after.count > seen.before.count &&
        isPrefix(timesOf(seen.before), timesOf(seen.after)) &&
        seen.after.gaps === undefined,
    ],
  },
  {
    statement: 'The result combines live recent data with day-partitioned history',
    path: '/api/v1/ticks?symbol={symbol}&from={minutes_ago}&limit=10000',
    between: [
      'midnight passes, a nightly run publishes both days, ten minutes pass',
      async (world) => {
        world.advance(12 * hourMs + minuteMs);
        const { exit_code: code } = await nightly.run(await world.context(), { day: null });
        expect(code).toBe(0);
        expect((await publish.run(await world.context(), undefined)).exit_code).toBe(0);
        world.advance(10 * minuteMs);
      },
    ],
    shows: [
      'published and new ticks in one list over midnight, as the upstream has them',
      (seen) =>
        hasTruth(seen) &&
        Math.floor(timesOf(seen.after)[0]! / dayMs) < Math.floor(timesOf(seen.after).at(-1)! / dayMs) &&
        isPrefix(timesOf(seen.before), timesOf(seen.after)),
    ],
  },
  {
    statement: 'Returns current order-book snapshots',
    path: '/api/v1/orderbook?symbol={symbol}',
    between: ['a minute passes', (world) => world.advance(minuteMs)],
    shows: ['a snapshot of a minute later', (seen) => isCurrent(seen) && seen.after.bids.length > 0],
  },
  {
    statement: 'The upstream fails',
    path: '/api/v1/ticks?symbol={symbol}&from={minutes_ago}&limit=10000',
    between: [
      'the upstream answers 503, and a minute passes',
      (world) => {
        world.box.set({ faultShare: 1, faults: ['503'] });
        world.advance(minuteMs);
      },
    ],
    shows: [
      'the same ticks, and the last minute as a gap',
      ({ before, after }) =>
        timesOf(after).join() === timesOf(before).join() &&
        after.data_time === before.data_time &&
        after.gaps?.at(-1)?.to === after.to,
    ],
  },
];

test('the realtime surface follows an upstream that moves', async () => {
  const world = await startWorld({ ticksPerDay: 6000 });
  expect((await markets.run(await world.context(), undefined)).exit_code).toBe(0);
  const service = await world.serve('service.live.timeout_ms=30000');
  const minutesAgo = startMs - 10 * minuteMs;
  const countRecent = (one: string): number => world.box.readTruth(one, { from: minutesAgo, to: startMs }).t.length;
  const symbol = world.box.symbols().sort((a, b) => countRecent(b) - countRecent(a))[0]!;
  const fill = (path: string): string =>
    path.replace('{symbol}', encodeURIComponent(symbol)).replace('{minutes_ago}', String(minutesAgo));
  const streamPath = '/api/v1/ticks/stream?symbol={symbol}';
  const stream = await openEvents(service.url + fill(streamPath), service.key);
  const streamedFrom = world.clock.nowMs();
  for (const { statement, path, between, shows } of rows) {
    const get = () => service.get(fill(path).replace('/api/v1/', ''));
    const [before, startedAt] = [await get(), world.clock.nowMs()];
    await between[1](world);
    const after = await get();
    expect([before.status, after.status], statement).toEqual([200, 200]);
    const { from, to } = after.body;
    const truth = from === undefined ? [] : [...new Set(world.box.readTruth(symbol, { from, to }).t)];
    const seen = { passed: world.clock.nowMs() - startedAt, before: before.body, after: after.body, truth };
    expect(shows[1](seen), `${statement}: ${shows[0]}: ${JSON.stringify(seen).slice(0, 400)}`).toBe(true);
  }
  const lastMs = world.clock.nowMs() - minuteMs;
  const expected = [...new Set(world.box.readTruth(symbol, { from: streamedFrom, to: lastMs }).t)];
  const streamed = () => stream.events.filter(({ type }) => type === 'tick').map(({ data }) => data.t);
  await stream.until(() => streamed().length >= expected.length);
  await sleep(100);
  expect(
    streamed()
      .filter((t) => t >= streamedFrom)
      .sort((a, b) => a - b),
  ).toEqual(expected);
  stream.close();
});
