import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { job as markets } from '../../../jobs/markets.ts';
import type { Archive } from '../../../src/archive/archive.ts';
import { readLoggedSymbol, readTickLog, readTickLogState } from '../../../src/archive/journal/tick-log.ts';
import { createRandom } from '../../../src/base/random.ts';
import { systemClock } from '../../../src/base/system.ts';
import { answer, append, day0, hourMs, now, opened, type Pairs, publishNow } from '../../archive/scratch.ts';
import { type Serving, serving } from '../serving.ts';
import { type EventStream, openEvents } from './event-stream.ts';
import { type LiveWorld, startWorld } from './live-world.ts';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
const seeds = Number(process.env.SEEDS ?? 2);
console.log(`tick streams: SEED=${seed}`);

const start: Pairs = [[day0, 0.5]];

/** An archive that knows the symbols A and B, open a second time as another process has it, and its service. */
async function startService(set: readonly string[] = []) {
  const served = opened({ parts: 1 });
  const archive = opened({ root: served.layout.root, parts: 1 });
  append(archive, answer('A', start), answer('B', start));
  return { archive, service: await serving(served, { set }) };
}

const toUrl = (service: Serving, query: string): string => `${service.url}/api/v1/ticks/stream?${query}`;

async function open(service: Serving, query: string, lastEventId = ''): Promise<EventStream> {
  const stream = await openEvents(toUrl(service, query), service.key, lastEventId);
  if (stream.status === 200) await stream.until(({ events }) => events.length > 0);
  return stream;
}

/** Events of ticks as texts. */
const listTicks = ({ events }: Pick<EventStream, 'events'>): string[] =>
  events.filter(({ type }) => type !== 'ready').map(({ type, data }) => `${type} ${data.symbol} ${data.t} ${data.p}`);

/** The same for everything that the log has of these symbols. */
const listLogged = ({ state: { db } }: Archive, symbols: readonly string[]): string[] =>
  readTickLog(db, 1, symbols, 1_000_000).flatMap(({ symbol, isRevision, t, p }) =>
    [...t].map((time, i) => `${isRevision ? 'revision' : 'tick'} ${symbol} ${time} ${p[i]}`),
  );

test('sends each tick when it is journaled, once, however often it is fetched', async () => {
  const { archive, service } = await startService();
  const stream = await open(service, 'symbol=A');
  expect(stream.events[0]).toMatchObject({
    type: 'ready',
    data: { symbols: ['A'], resumed: false, generated_at: now },
  });
  expect(stream.response.headers).toMatchObject({
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
  });
  append(archive, answer('A', [...start, [day0 + 1, 0.25]]));
  append(archive, answer('B', [[day0 + 1, 0.75]]));
  await publishNow(archive);
  append(
    archive,
    answer('A', [
      [day0 + 1, 0.25],
      [day0 + 3, 1e-7],
    ]),
  );
  append(archive, answer('A', [[day0 + 2, 0.5]]));
  append(archive, answer('A', [[day0 + 2, 0.75]], { observedAt: now + 1 }));
  await stream.until(({ events }) => events.length > 4);
  expect(listTicks(stream)).toEqual([
    `tick A ${day0 + 1} 0.25`,
    `tick A ${day0 + 3} 1e-7`,
    `tick A ${day0 + 2} 0.5`,
    `revision A ${day0 + 2} 0.75`,
  ]);
});

test('what was journaled before the first event is in the archive, and what comes after it is sent', async () => {
  const { archive, service } = await startService();
  // The symbol is logged already, so that rows exist before the stream.
  (await open(service, 'symbol=A')).close();
  append(archive, answer('A', [[day0 + 1, 0.25]]));
  const stream = await open(service, 'symbol=A');
  append(archive, answer('A', [[day0 + 2, 0.5]]));
  await stream.until(({ events }) => events.length > 1);
  expect(listTicks(stream)).toEqual([`tick A ${day0 + 2} 0.5`]);
  const { body } = await service.json<{ ticks: unknown[] }>(`/api/v1/ticks?symbol=A&from=${day0}&to=${day0 + 2}`);
  expect(body.ticks).toHaveLength(2);
});

test('streams several symbols in the order of arrival, of any name', async () => {
  const { archive, service } = await startService();
  const odd = 'Will "A&B"\n= 🚀?';
  append(archive, answer(odd, start));
  const stream = await open(service, `symbol=A&symbol=B&symbol=A&symbol=${encodeURIComponent(odd)}`);
  expect(stream.events[0]!.data.symbols).toEqual(['A', 'B', odd]);
  for (const [i, symbol] of ['B', odd, 'A', 'B'].entries()) append(archive, answer(symbol, [[day0 + 1 + i, 0.5]]));
  await stream.until(({ events }) => events.length > 4);
  expect(stream.events.slice(1).map(({ data }) => data.symbol)).toEqual(['B', odd, 'A', 'B']);
});

test('any cut into connections gives the same events, with publishes and restarts in between', async () => {
  for (let at = seed; at < seed + seeds; at++) {
    const random = createRandom(at);
    const draw = (count: number): number => Math.floor(random() * count);
    const made = await startService();
    const { archive } = made;
    let { service } = made;
    const symbols = ['A', 'B'];
    let stream = await open(service, 'symbol=A&symbol=B');
    let id = stream.lastEventId;
    const got: string[] = [];
    const cut = async (): Promise<void> => {
      // In the middle of a row, too: the client forgets the events after a random one.
      const ticks = stream.events.filter(({ type }) => type !== 'ready');
      const kept = draw(ticks.length + 1);
      got.push(...listTicks({ events: ticks.slice(0, kept) }));
      id = kept === 0 ? id : kept === ticks.length ? stream.lastEventId : ticks[kept - 1]!.id;
      stream.close();
    };
    for (let step = 0; step < 40; step++) {
      const turn = random();
      if (turn < 0.15) await publishNow(archive);
      else if (turn < 0.2) {
        await cut();
        await service.stop();
        append(archive, answer('A', [[day0 + draw(500), draw(4) / 4]], { observedAt: now + step }));
        service = await serving(opened({ root: archive.layout.root, parts: 1 }));
        stream = await open(service, 'symbol=A&symbol=B', id);
      } else if (turn < 0.4) {
        await cut();
        stream = await open(service, 'symbol=A&symbol=B', id);
      } else {
        const pairs = Array.from({ length: 1 + draw(30) }, () => [day0 + draw(500), draw(4) / 4] as const);
        append(archive, answer(symbols[draw(2)]!, pairs, { observedAt: now + step }));
        if (random() < 0.3) await sleep(draw(80));
      }
    }
    const expected = listLogged(archive, symbols);
    await stream.until(() => got.length + listTicks(stream).length >= expected.length);
    await sleep(100);
    expect([...got, ...listTicks(stream)], `SEED=${at} SEEDS=1`).toEqual(expected);
    expect(new Set(expected.filter((text) => text.startsWith('tick'))).size).toBeGreaterThan(20);
    stream.close();
  }
});

test('a response larger than all buffers arrives whole at a client that pauses, and again where it resumes', async () => {
  const { archive, service } = await startService();
  const stream = await open(service, 'symbol=A');
  stream.pause();
  const count = 60_000;
  for (let round = 0; round < 4; round++) {
    const t = Float64Array.from({ length: count }, (_, i) => day0 + 1 + round * count + i);
    append(archive, answer('A', [], { ticks: { t, p: t.map((at) => (at % 100) / 100) }, windows: [] }));
    await sleep(60);
  }
  stream.resume();
  await stream.until(({ events }) => events.length === 4 * count + 1);
  expect(stream.events.slice(1).every(({ data }, i) => data.t === day0 + 1 + i)).toBe(true);
  const again = await open(service, 'symbol=A', stream.events[1234]!.id);
  expect(again.events[0]!.data.resumed).toBe(true);
  await again.until(({ events }) => events.length === 4 * count + 1 - 1234);
  expect(again.events[1]!.data.t).toBe(stream.events[1235]!.data.t);
});

test('a client that reads nothing is dropped, and resumes without loss', async () => {
  const served = opened({ parts: 1 });
  const archive = opened({ root: served.layout.root, parts: 1 });
  append(archive, answer('A', start));
  const service = await serving(served, { limits: { stalledMsMax: 500, checkIntervalMs: 100 } });
  const stream = await open(service, 'symbol=A');
  stream.pause();
  const count = 400_000;
  const t = Float64Array.from({ length: count }, (_, i) => day0 + 1 + i);
  append(archive, answer('A', [], { ticks: { t, p: new Float64Array(count) }, windows: [] }));
  const openStreams = async (): Promise<number> => {
    const text = await (await fetch(`${service.url}/metrics`)).text();
    return Number(/^oddslake_streams_open (\d+)/m.exec(text)![1]);
  };
  for (let waited = 0; (await openStreams()) > 0; waited += 50) {
    if (waited > 20_000) throw new Error('the client was not dropped');
    await sleep(50);
  }
  const id = stream.lastEventId;
  stream.close();
  const again = await open(service, 'symbol=A', id);
  await again.until(({ events }) => events.length === count + 1);
  expect(new Set(again.events.map(({ data }) => data.t)).size).toBe(count + 1);
});

test('410 if the log does not have everything after the event', async () => {
  const { archive, service } = await startService(['service.stream.keep_hours=1']);
  const { db } = archive.state;
  const stream = await open(service, 'symbol=A');
  append(archive, answer('A', [[day0 + 1, 0.5]]));
  await stream.until(({ events }) => events.length > 1);
  const [ready, tick] = stream.events.map(({ id }) => id);
  const get = async (query: string, id: string) => {
    const answered = await open(service, query, id);
    if (answered.status !== 200) await answered.until(({ isEnded }) => isEnded);
    answered.close();
    return answered.status === 200 ? 200 : [answered.status, JSON.parse(answered.text).code];
  };
  const expired = [410, 'stream_expired'];
  // B was not logged when this event was sent.
  expect(await get('symbol=A&symbol=B', ready!)).toEqual(expired);
  expect(await get('symbol=A&symbol=B', tick!)).toBe(200);
  expect(await get('symbol=A', ready!)).toBe(200);
  const { id } = readTickLogState(db)!;
  for (const other of [`0${id}-1-0`, `${id}-9-0`, `${id}-2-1`]) expect(await get('symbol=A', other)).toEqual(expired);
  for (const rubbish of ['1', `${id}-0-0`, `${id}-1`, `${id}-1-0-0`, `${id}-1e3-0`, 'x'.repeat(100)])
    expect(await get('symbol=A', rubbish)).toEqual([400, 'invalid_parameter']);
  db.run('delete from tick_log');
  db.run("insert or replace into meta values ('tick_log_floor', '1')");
  expect(await get('symbol=A', ready!)).toEqual(expired);
  expect(await get('symbol=A', tick!)).toBe(200);
});

test('old rows are removed, and symbols that nobody streams are no longer logged', async () => {
  const { archive, service, jump } = await startJumping(['service.stream.keep_hours=1']);
  const { db } = archive.state;
  const stream = await open(service, 'symbol=A');
  (await open(service, 'symbol=B')).close();
  append(archive, answer('A', [[day0 + 1, 0.5]]), answer('B', [[day0 + 1, 0.5]]));
  await stream.until(({ events }) => events.length > 1);
  for (let quarter = 0; quarter < 12; quarter++) {
    jump(hourMs / 4);
    await sleep(200);
  }
  // A is streamed all the time, and B was until three hours ago.
  expect(db.all('select symbol from tick_log_symbols')).toEqual([{ symbol: 'A' }]);
  expect(readTickLogState(db)).toMatchObject({ floor: 2, end: 2 });
  append(archive, answer('A', [[day0 + 2, 0.5]], { observedAt: now + 3 * hourMs }));
  await stream.until(({ events }) => events.length > 2);
  // A heartbeat moved the client past rows that are gone.
  expect(stream.comments).toContain('heartbeat');
  const again = await open(service, 'symbol=A', stream.events[1]!.id);
  expect(again.status).toBe(410);
  const { lastEventId } = stream;
  stream.close();
  expect((await open(service, 'symbol=A', lastEventId)).status).toBe(200);
});

/** A service whose clocks jump. */
async function startJumping(set: readonly string[] = []) {
  const served = opened({ parts: 1 });
  const archive = opened({ root: served.layout.root, parts: 1 });
  append(archive, answer('A', start), answer('B', start));
  let offset = 0;
  const clock = { ...systemClock, nowMs: () => now + offset, monotonicMs: () => systemClock.monotonicMs() + offset };
  const service = await serving(served, { clock, set });
  return {
    archive,
    service,
    jump(ms: number): void {
      offset += ms;
    },
  };
}

test('streams of a symbol that was not logged for a while end, because they may have missed ticks', async () => {
  const { archive, service, jump } = await startJumping();
  const [a, b] = [await open(service, 'symbol=A'), await open(service, 'symbol=A&symbol=B')];
  const other = await open(service, 'symbol=B');
  archive.state.db.run("delete from tick_log_symbols where symbol = 'A'");
  append(archive, answer('A', [[day0 + 1, 0.5]]));
  append(archive, answer('B', [[day0 + 1, 0.5]]));
  // Logged again, from a later row on.
  const later = await open(service, 'symbol=A');
  jump(61_000);
  for (const stream of [a, b]) await stream.until(({ isEnded }) => isEnded);
  expect((await open(service, 'symbol=A', a.lastEventId)).status).toBe(410);
  append(archive, answer('A', [[day0 + 2, 0.5]]), answer('B', [[day0 + 2, 0.5]]));
  await later.until(({ events }) => events.length > 1);
  await other.until(({ events }) => events.length > 2);
  expect([later.isEnded, other.isEnded]).toEqual([false, false]);
});

test('streams survive another process that holds the state for long', async () => {
  const { archive, service, jump } = await startJumping(['service.stream.keep_hours=1']);
  const { db } = archive.state;
  const stream = await open(service, 'symbol=A');
  append(archive, answer('A', [[day0 + 1, 0.5]]));
  await stream.until(({ events }) => events.length > 1);
  db.script('begin immediate');
  jump(1.25 * hourMs);
  await sleep(1000);
  db.script('commit');
  append(archive, answer('A', [[day0 + 2, 0.5]], { observedAt: now + 1.25 * hourMs }));
  await stream.until(({ events }) => events.length > 2);
  expect(stream.isEnded).toBe(false);
  // Renewed once the state was free.
  await stream.until(() => readLoggedSymbol(db, 'A')!.until >= now + 3.25 * hourMs);
});

test('a damaged row ends the streams, and the next log starts empty', async () => {
  const { archive, service } = await startService();
  const stream = await open(service, 'symbol=A');
  archive.state.db.transaction(() => {
    append(archive, answer('A', [[day0 + 1, 0.5]]));
    archive.state.db.run('update tick_log set p = ?', new Uint8Array(8));
  });
  await stream.until(({ isEnded }) => isEnded);
  expect(listTicks(stream)).toEqual([]);
  await sleep(100);
  expect((await open(service, 'symbol=A', stream.lastEventId)).status).toBe(410);
  const next = await open(service, 'symbol=A');
  append(archive, answer('A', [[day0 + 2, 0.5]]));
  await next.until(({ events }) => events.length > 1);
});

test('a revoked key ends its streams within a minute', async () => {
  const { service, jump } = await startJumping();
  const { key, id } = await service.workspace.createKey(
    { name: 'other', expiresAt: null, requestsPerMinute: null },
    now,
  );
  const streams = await Promise.all([key, service.key].map((one) => openEvents(toUrl(service, 'symbol=A'), one)));
  await service.workspace.revokeKeys([id], now);
  jump(61_000);
  await streams[0]!.until(({ isEnded }) => isEnded);
  await sleep(200);
  expect(streams[1]!.isEnded).toBe(false);
  streams[1]!.close();
});

test('bounds the streams of a key and of the service', async () => {
  const { service } = await startService(['service.stream.streams_max=3', 'service.stream.streams_per_key_max=2']);
  const other = await service.workspace.createKey({ name: 'b', expiresAt: null, requestsPerMinute: null }, now);
  const get = async (key: string) => {
    const stream = await openEvents(toUrl(service, 'symbol=A'), key);
    if (stream.status !== 200) await stream.until(({ isEnded }) => isEnded);
    const { status, text, response } = stream;
    return { stream, seen: status === 200 ? 200 : [JSON.parse(text).code, response.headers['retry-after']] };
  };
  const own = [await get(service.key), await get(service.key), await get(service.key)];
  expect(own.map(({ seen }) => seen)).toEqual([200, 200, ['too_many_streams', '10']]);
  const others = [await get(other.key), await get(other.key)];
  expect(others.map(({ seen }) => seen)).toEqual([200, ['busy', '10']]);
  own[0]!.stream.close();
  await sleep(100);
  expect((await get(service.key)).seen).toBe(200);
});

test('refuses unknown symbols, and has the headers for HEAD', async () => {
  const { service } = await startService();
  expect((await service.json('/api/v1/ticks/stream?symbol=nope')).status).toBe(404);
  expect((await service.json('/api/v1/ticks/stream')).status).toBe(400);
  const many = Array.from({ length: 91 }, (_, i) => `symbol=${i}`).join('&');
  expect((await service.json(`/api/v1/ticks/stream?${many}`)).status).toBe(400);
  const head = await service.ask('/api/v1/ticks/stream?symbol=A', { method: 'HEAD' });
  expect([head.status, head.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8']);
});

test('ends after the given duration, with a position to continue from', async () => {
  const { archive, service } = await startService();
  const stream = await open(service, 'symbol=A&duration_seconds=1');
  append(archive, answer('A', [[day0 + 1, 0.5]]));
  await stream.until(({ isEnded }) => isEnded);
  expect([listTicks(stream), stream.response.complete]).toEqual([[`tick A ${day0 + 1} 0.5`], true]);
  append(archive, answer('A', [[day0 + 2, 0.5]]));
  const next = await open(service, 'symbol=A&duration_seconds=1', stream.lastEventId);
  await next.until(({ isEnded }) => isEnded);
  expect(listTicks(next)).toEqual([`tick A ${day0 + 2} 0.5`]);
});

test('a stopping service ends its streams at once', async () => {
  const { service } = await startService();
  const streams = await Promise.all(Array.from({ length: 5 }, () => open(service, 'symbol=A')));
  await service.stop();
  for (const stream of streams) await stream.until(({ isEnded }) => isEnded);
  expect(streams.map(({ response }) => response.complete)).toEqual(Array(5).fill(true));
});

test('a key without the dataset gets no stream', async () => {
  const { service } = await startService();
  const { key } = await service.workspace.createKey(
    { name: 'c', expiresAt: null, requestsPerMinute: null, datasets: ['markets'] },
    now,
  );
  expect((await openEvents(toUrl(service, 'symbol=A'), key)).status).toBe(403);
});

test('a lost state ends the streams', async () => {
  const { archive, service } = await startService();
  const stream = await open(service, 'symbol=A');
  const { renameSync } = await import('node:fs');
  renameSync(`${archive.layout.privateFolder}/state.sqlite`, `${archive.layout.privateFolder}/gone.sqlite`);
  await stream.until(({ isEnded }) => isEnded);
});

/** The symbol with the most ticks of the last hour. */
function findBusiestSymbol({ box, clock }: LiveWorld): string {
  const countRecent = (one: string): number =>
    box.readTruth(one, { from: clock.nowMs() - hourMs, to: clock.nowMs() }).t.length;
  return box.symbols().sort((a, b) => countRecent(b) - countRecent(a))[0]!;
}

test('with live reads, a stream that is opened soon after the last one was closed gets its ticks', async () => {
  const world = await startWorld();
  expect((await markets.run(await world.context(), undefined)).exit_code).toBe(0);
  const service = await world.serve('service.live.max_age_seconds=2');
  const symbol = findBusiestSymbol(world);
  const url = `${service.url}/api/v1/ticks/stream?symbol=${symbol}`;
  const first = await openEvents(url, service.key);
  await first.until(({ events }) => events.length > 0);
  first.close();
  // The stream has been removed, and the upstream is not due yet.
  await sleep(500);
  const second = await openEvents(url, service.key);
  await second.until(({ events }) => events.length > 0);
  const { t } = world.box.readTruth(symbol, { from: 0, to: world.clock.nowMs() });
  append(service.archive, answer(symbol, [[t.at(-1)! + 1, 0.125]], { observedAt: world.clock.nowMs() }));
  await second.until(({ events }) => events.some(({ data }) => data.p === 0.125));
  second.close();
});

test('with live reads, a stream has what the upstream has, without any other reader', async () => {
  const world = await startWorld();
  expect((await markets.run(await world.context(), undefined)).exit_code).toBe(0);
  const service = await world.serve();
  const symbol = findBusiestSymbol(world);
  const stream = await openEvents(`${service.url}/api/v1/ticks/stream?symbol=${symbol}`, service.key);
  const fromMs = world.clock.nowMs();
  for (let step = 0; step < 6; step++) {
    world.advance(20_000);
    await sleep(300);
  }
  const truth = world.box.readTruth(symbol, { from: fromMs - 60_000, to: world.clock.nowMs() });
  const expected = [...new Set(truth.t)].filter((t) => t >= fromMs && t < world.clock.nowMs() - 20_000);
  expect(expected.length).toBeGreaterThan(3);
  const list = (): number[] => stream.events.filter(({ type }) => type === 'tick').map(({ data }) => data.t);
  await stream.until(() => expected.every((t) => list().includes(t)));
  expect(new Set(list()).size).toBe(list().length);
  stream.close();
});
