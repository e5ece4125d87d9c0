import { EventEmitter, once } from 'node:events';
import { globSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { type FastifyReply, fastify } from 'fastify';
import { expect, onTestFinished, test } from 'vitest';
import { watchManifest } from '../../src/archive/read/manifest-watcher.ts';
import { systemRandom } from '../../src/base/system.ts';
import { createRowsEndpoints } from '../../src/server/history/endpoints.ts';
import { openHistoricalService } from '../../src/server/history/historical-service.ts';
import { openSliceResponse } from '../../src/server/history/slice-response.ts';
import type { ServiceContext } from '../../src/server/http/service-context.ts';
import { createDisconnectSignal, sendChunks } from '../../src/server/http/stream-response.ts';
import { answer, append, day0, dayMs, now, opened, publishNow, scratchFolder } from '../archive/scratch.ts';
import { limitMs, waitFor } from '../harness/limits.ts';
import { madeOnce } from './made-once.ts';
import { type Line, noted } from './noted.ts';
import { type Serving, serving } from './serving.ts';

const base = '/api/v1/historical';

/** Enough ticks with long symbols to exceed every buffer between server and client. */
const ticksMany = 60_000;
const [a, b] = ['A', 'B'].map((name) => name.padEnd(180, '-')) as [string, string];
const many = madeOnce(async (archive) => {
  for (const [symbol, day] of [
    [a, 0],
    [b, 0],
    [a, 1],
  ] as const)
    append(
      archive,
      answer(
        symbol,
        Array.from({ length: ticksMany / 3 }, (_, i) => [day0 + day * dayMs + i * 4000, (i % 97) / 97] as const),
      ),
    );
  await publishNow(archive);
});

/** A response whose body is not read yet. */
const begin = ({ url, key }: Pick<Serving, 'url' | 'key'>, path: string): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    get(`${url}${path}`, { headers: { authorization: `Bearer ${key}` }, agent: false }, resolve).on('error', reject);
  });

const textOf = async (message: IncomingMessage): Promise<string> => {
  let text = '';
  for await (const piece of message.setEncoding('utf8')) text += piece;
  return text;
};

const bytesOf = async (message: IncomingMessage): Promise<Buffer> => {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
};

/** Links that are pinned for readers. */
const linksOf = (root: string): string[] => globSync('.oddslake/pins/*-*/*/ticks/**/*.parquet', { cwd: root });

test('a stream has one generation from start to end while others are published', async () => {
  const root = scratchFolder();
  const archive = await many(root);
  const service = await serving(archive);
  const before = await textOf(await begin(service, `${base}/ticks?format=csv`));
  expect(before.split('\n')).toHaveLength(ticksMany + 2);
  const message = await begin(service, `${base}/ticks?format=csv`);
  const writer = opened({ root });
  append(writer, answer(a, [[day0 + 1, 0.5]]), answer(b, [[day0 + dayMs, 0.5]]));
  await publishNow(writer, now + 1);
  expect((await textOf(message)) === before).toBe(true);
  expect(message.headers['oddslake-generation']).toBe('1');
  const after = await begin(service, `${base}/ticks?format=csv`);
  expect((await textOf(after)).split('\n')).toHaveLength(ticksMany + 4);
  expect(after.headers['oddslake-generation']).toBe('2');
});

test('pins of replaced files are removed once they are no longer read', async () => {
  const root = scratchFolder();
  const service = await serving(await many(root));
  const message = await begin(service, `${base}/ticks?format=csv`);
  const held = linksOf(root);
  expect(held.length).toBeGreaterThan(0);
  const writer = opened({ root });
  append(writer, answer(a, [[day0 + 1, 0.5]]));
  await publishNow(writer, now + 1);
  await textOf(message);
  await service.json(`${base}/ticks?limit=1`);
  await service.json(`${base}/ticks?limit=1`);
  expect(linksOf(root).filter((path) => held.includes(path)).length).toBeLessThan(held.length);
  await service.stop();
  expect(globSync('.oddslake/pins/*', { cwd: root })).toEqual([]);
});

test('a disconnect stops the query and releases its permit', async () => {
  const root = scratchFolder();
  const service = await serving(await many(root), { set: ['service.queries_concurrent_max=1'] });
  for (let i = 0; i < 3; i++) {
    const message = await begin(service, `${base}/ticks?format=${['csv', 'parquet', 'arrow'][i]}`);
    await once(message, 'readable');
    message.destroy();
  }
  // One permit for streams: this request succeeds only after the others have ended.
  const text = await textOf(await begin(service, `${base}/ticks?format=csv&limit=5`));
  expect(text.split('\n')).toHaveLength(7);
});

test('a stream that is not read blocks no page, and the number of streams is limited', async () => {
  const service = await serving(await many(), { set: ['service.queries_concurrent_max=1'] });
  const slow = await begin(service, `${base}/ticks?format=csv`);
  expect((await service.json(`${base}/ticks?limit=1`)).status).toBe(200);
  let isAnswered = false;
  const waiting = begin(service, `${base}/ticks?format=csv&limit=1`).then((message) => {
    isAnswered = true;
    return message;
  });
  expect((await service.json(`${base}/ticks?limit=1`)).status).toBe(200);
  expect(isAnswered).toBe(false);
  slow.destroy();
  expect((await textOf(await waiting)).split('\n')).toHaveLength(3);
});

test('rejects requests with 503 and Retry-After if too many wait', async () => {
  const service = await serving(await many(), { set: ['service.queries_concurrent_max=1'] });
  const slow = await begin(service, `${base}/ticks?format=csv`);
  const answers: IncomingMessage[] = [];
  const others = Array.from({ length: 20 }, async () => {
    answers.push((await begin(service, `${base}/ticks?format=csv&limit=1`)).resume());
  });
  // One runs and 16 wait; the rest are rejected.
  await waitFor(() => answers.length === 4, 'four requests that are refused');
  for (const { statusCode, headers } of answers)
    expect([statusCode, headers['retry-after']]).toEqual([503, expect.stringMatching(/^[1-9]\d*$/)]);
  slow.destroy();
  await Promise.all(others);
  expect(answers.map(({ statusCode }) => statusCode).filter((code) => code === 200)).toHaveLength(16);
});

test('an error in the middle of a stream breaks the connection', async () => {
  const app = fastify();
  app.get('/', (request, reply) =>
    sendChunks(
      request,
      reply,
      (async function* () {
        for (let i = 0; i < 3; i++) yield Buffer.from('some rows\n');
        throw new Error('the disk failed');
      })(),
    ),
  );
  const url = await app.listen({ port: 0 });
  onTestFinished(() => app.close());
  const message = await begin({ url, key: '' }, '/');
  expect(message.statusCode).toBe(200);
  await expect(textOf(message)).rejects.toMatchObject({ code: 'ECONNRESET' });
});

test('stopping the service waits for running streams of every format', async () => {
  const formats = ['csv', 'ndjson', 'arrow', 'parquet'];
  const limits = { shutdownMsMax: limitMs };
  // One key never gets the last permit.
  const service = await serving(await many(), { set: ['service.queries_concurrent_max=5'], limits });
  const beginAll = () => Promise.all(formats.map((format) => begin(service, `${base}/ticks?format=${format}`)));
  const expected = await Promise.all((await beginAll()).map(bytesOf));
  const messages = await beginAll();
  const [first] = await once(messages[0]!, 'readable').then(() => [messages[0]!.read(1)] as [Buffer]);
  const stopped = service.stop();
  await waitFor(() => !service.app.server.listening, 'a server that accepts no connections');
  const [csv, ...others] = await Promise.all(messages.map(bytesOf));
  expect(Buffer.concat([first, csv!]).equals(expected[0]!)).toBe(true);
  for (const [i, bytes] of others.entries()) expect(bytes.equals(expected[i + 1]!), formats[i + 1]).toBe(true);
  await stopped;
});

test('a stream that is not read is aborted when the time for stopping is over', async () => {
  const service = await serving(await many(), { limits: { shutdownMsMax: 100 } });
  const message = await begin(service, `${base}/ticks?format=csv`);
  await service.stop();
  await expect(textOf(message)).rejects.toMatchObject({ code: 'ECONNRESET' });
});

test('a slice whose client does not read is closed, with one line in the log', async () => {
  const limits = { stalledMsMax: 200, checkIntervalMs: 50 };
  const { log, lines } = noted();
  const service = await serving(await many(), { limits, log });
  const message = await begin(service, `${base}/ticks?format=csv`);
  await waitFor(
    async () => (await (await service.ask('/metrics')).text()).includes('dropped_total{reason="stalled"} 1'),
    'a disconnected client',
  );
  const isOther = ({ facts }: Line) => facts.request_id === undefined;
  await waitFor(() => lines.some(isOther), 'a line of the log');
  expect(lines.filter(isOther)).toEqual([
    {
      level: 'warn',
      message: 'dropped connections',
      facts: { dropped: { stalled: 1 }, address: '127.0.0.1', of_address: 1, addresses: 1 },
    },
  ]);
  await expect(textOf(message)).rejects.toMatchObject({ code: 'ECONNRESET' });
});

test('detects a disconnect before the query starts', async () => {
  const app = fastify();
  const [requested, reported] = [Promise.withResolvers<void>(), Promise.withResolvers<boolean>()];
  app.get('/', async (_request, reply) => {
    requested.resolve();
    await once(reply.raw, 'close');
    reported.resolve(createDisconnectSignal(reply).aborted);
  });
  onTestFinished(() => app.close());
  const request = get(await app.listen({ port: 0 }), { agent: false }).on('error', () => {});
  await requested.promise;
  request.destroy();
  expect(await reported.promise).toBe(true);
});

test('one key with many requests does not block another key', async () => {
  const service = await serving(await many(), { set: ['service.queries_concurrent_max=2'] });
  const greedy = Array.from({ length: 5 }, () => begin(service, `${base}/ticks?format=csv`));
  const slow = await Promise.race(greedy);
  const { key } = await service.workspace.createKey({ name: 'b', expiresAt: null, requestsPerMinute: null }, now);
  const text = await textOf(await begin({ ...service, key }, `${base}/ticks?format=csv&limit=1`));
  expect(text.split('\n')).toHaveLength(3);
  slow.destroy();
  for (const one of greedy) (await one).destroy();
});

test('a disconnect when the slice is ready leaves nothing open', async () => {
  const root = scratchFolder();
  const archive = await many(root);
  const settings = { service: { queriesConcurrentMax: 1, cacheBytesMax: 0 } };
  const parts = { archive, current: watchManifest(archive), settings, random: systemRandom };
  const service = openHistoricalService(parts as unknown as ServiceContext);
  // The close event was emitted before there was a listener.
  const reply = { raw: Object.assign(new EventEmitter(), { destroyed: true }) } as unknown as FastifyReply;
  const requested = { ...createRowsEndpoints(service).ticks.createSlice({}), limit: null, isCsvSafe: false };
  await openSliceResponse(service, requested, 'csv', reply, new AbortController().signal);
  await waitFor(() => service.streamSemaphore.getCounts().inside === 0, 'a slice that is closed');
  // close() waits for open queries.
  await service.history.close();
  expect(globSync('.oddslake/pins/*', { cwd: root })).toEqual([]);
});

test('an error in unread chunks does not end the process', async () => {
  const app = fastify();
  const left = Promise.withResolvers<void>();
  app.get('/', (request, reply) =>
    sendChunks(
      request,
      reply,
      (async function* () {
        try {
          yield Buffer.from('some rows\n');
        } finally {
          left.resolve();
          // biome-ignore lint/correctness/noUnsafeFinally: this is the failure.
          throw new Error('the disk failed');
        }
      })(),
    ),
  );
  onTestFinished(() => app.close());
  const rejections: unknown[] = [];
  const listen = (error: unknown) => rejections.push(error);
  process.on('unhandledRejection', listen);
  onTestFinished(() => void process.off('unhandledRejection', listen));
  expect((await app.inject({ method: 'HEAD', url: '/' })).statusCode).toBe(200);
  await left.promise;
  await new Promise((resolve) => setImmediate(resolve));
  expect(rejections).toEqual([]);
});
