import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { readTickLog } from '../../../src/archive/journal/tick-log.ts';
import { createRandom } from '../../../src/base/random.ts';
import { answer, append, day0, now, opened, publishNow } from '../../archive/scratch.ts';
import { serving } from '../serving.ts';
import { type EventStream, openEvents } from './event-stream.ts';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`1,000 streams: SEED=${seed}`);

const count = 1000;
const symbols = Array.from({ length: 20 }, (_, i) => `S${i}`);

test('1,000 streams get all ticks of their symbols, through publishes, a restart and lost connections', async () => {
  const random = createRandom(seed);
  const draw = (n: number): number => Math.floor(random() * n);
  const served = opened({ parts: 1 });
  const { root } = served.layout;
  const archive = opened({ root, parts: 1 });
  append(archive, ...symbols.map((symbol) => answer(symbol, [[day0, 0.5]])));
  const set = ['service.connections_per_address_max=2000', 'service.stream.streams_per_key_max=1000'];
  let service = await serving(served, { set });
  /** The first symbol, and for every third client a second one. */
  const wanted = Array.from({ length: count }, (_, i) =>
    i % 3 === 0 ? [symbols[i % 20]!, symbols[(i + 7) % 20]!] : [symbols[i % 20]!],
  );
  const got: string[][] = wanted.map(() => []);
  const connect = (i: number, id?: string): Promise<EventStream> =>
    openEvents(
      `${service.url}/api/v1/ticks/stream?${wanted[i]!.map((symbol) => `symbol=${symbol}`).join('&')}`,
      service.key,
      id,
    );
  const streams = await Promise.all(wanted.map((_, i) => connect(i)));
  expect(streams.map(({ status }) => status)).toEqual(Array(count).fill(200));
  const collect = (i: number): void => {
    const { events } = streams[i]!;
    for (const { type, data } of events)
      if (type !== 'ready') got[i]!.push(`${type} ${data.symbol} ${data.t} ${data.p}`);
  };
  const reconnect = async (i: number): Promise<void> => {
    streams[i]!.close();
    collect(i);
    streams[i] = await connect(i, streams[i]!.lastEventId);
    expect(streams[i]!.status).toBe(200);
  };
  for (let round = 0; round < 40; round++) {
    append(
      archive,
      ...Array.from({ length: 1 + draw(20) }, (_, i) =>
        answer(
          symbols[draw(20)]!,
          Array.from({ length: 1 + draw(10) }, () => [day0 + draw(2000), draw(4) / 4] as const),
          { observedAt: now + round * 100 + i },
        ),
      ),
    );
    if (round % 10 === 5) await publishNow(archive);
    if (round === 22) {
      await service.stop();
      service = await serving(opened({ root, parts: 1 }), { set });
      await Promise.all(wanted.map((_, i) => reconnect(i)));
    }
    await Promise.all(
      Array.from({ length: 10 }, () => draw(count)).map((i, n, all) => all.indexOf(i) === n && reconnect(i)),
    );
    await sleep(50);
  }
  const rows = readTickLog(archive.state.db, 1, null, 1_000_000);
  const expected = wanted.map((own) =>
    rows
      .filter(({ symbol }) => own.includes(symbol))
      .flatMap(({ symbol, isRevision, t, p }) =>
        [...t].map((at, i) => `${isRevision ? 'revision' : 'tick'} ${symbol} ${at} ${p[i]}`),
      ),
  );
  for (const [i, stream] of streams.entries())
    await stream.until(({ events }) => got[i]!.length + events.length - 1 >= expected[i]!.length);
  await sleep(200);
  for (const i of streams.keys()) collect(i);
  expect(got.filter((events, i) => events.join() !== expected[i]!.join()).length, `SEED=${seed}`).toBe(0);
  expect(rows.length).toBeGreaterThan(100);
  for (const stream of streams) stream.close();
});
