import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { type FastifyReply, fastify } from 'fastify';
import { expect, onTestFinished, test } from 'vitest';
import { sendChunks } from '../../src/server/http/stream-response.ts';
import { answer, append, day0, opened, publishNow } from '../archive/scratch.ts';
import { connected } from './raw.ts';
import { serving } from './serving.ts';

// An HTTP/1.0 response of unknown length ends with its connection: only a reset shows that it is incomplete.

/** What a connection receives, and whether it ended properly or was reset. */
function readUntilClosed(socket: Socket): Promise<{ text: string; how: 'end' | 'ECONNRESET' }> {
  let text = '';
  socket.on('data', (piece) => {
    text += piece.toString('latin1');
  });
  return new Promise((resolve) => {
    socket.once('end', () => resolve({ text, how: 'end' }));
    socket.once('error', (error: NodeJS.ErrnoException) => resolve({ text, how: error.code as 'ECONNRESET' }));
  });
}

/** A service with one stream: three chunks, then those of the test; `arrived` resolves when the client has received some. */
async function streaming(then: (reply: FastifyReply, arrived: Promise<unknown>) => Promise<void>) {
  const app = fastify();
  const arrived = Promise.withResolvers<void>();
  onTestFinished(() => app.close());
  app.get('/', (request, reply) =>
    sendChunks(
      request,
      reply,
      (async function* () {
        for (let i = 0; i < 3; i++) yield Buffer.from('some rows\n');
        await then(reply, arrived.promise);
      })(),
    ),
  );
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const socket = connected(url);
  socket.once('data', () => arrived.resolve());
  const reported = readUntilClosed(socket);
  socket.write('GET / HTTP/1.0\r\n\r\n');
  return { app, socket, reported };
}

const slices = '/api/v1/historical/ticks?format=csv';

const never = (): Promise<never> => new Promise(() => {});

test('a complete HTTP/1.0 response ends properly', async () => {
  const { reported } = await streaming(async () => {});
  const { text, how } = await reported;
  expect([how, text.split('\r\n\r\n')[1]]).toEqual(['end', 'some rows\n'.repeat(3)]);
});

test('resets an HTTP/1.0 response that fails in the middle', async () => {
  const { reported } = await streaming(async (_reply, arrived) => {
    await arrived;
    throw new Error('the disk failed');
  });
  expect((await reported).how).toBe('ECONNRESET');
});

test('resets an HTTP/1.0 response when the client stalls or the service stops', async () => {
  const stalled = await streaming(async (reply) => {
    reply.raw.destroy();
    await never();
  });
  expect((await stalled.reported).how).toBe('ECONNRESET');
  const stopped = await streaming(async () => {
    stopped.app.server.closeAllConnections();
    await never();
  });
  expect((await stopped.reported).how).toBe('ECONNRESET');
});

test('aborts a slice whose files are modified while it is sent', async () => {
  const archive = opened({ parts: 1 });
  const name = 'A'.padEnd(180, '-');
  // More than the buffers in between hold.
  append(
    archive,
    answer(
      name,
      Array.from({ length: 60_000 }, (_, i) => [day0 + i, (i % 97) / 97] as const),
    ),
  );
  await publishNow(archive);
  const { url, key } = await serving(archive);
  for (const version of ['1.0', '1.1']) {
    const socket = connected(url).pause();
    const path = join(archive.layout.root, 'ticks/date=2026-06-01/part-00.parquet');
    const bytes = readFileSync(path);
    socket.write(`GET ${slices} HTTP/${version}\r\nHost: here\r\nAuthorization: Bearer ${key}\r\n\r\n`);
    await once(socket, 'readable');
    writeFileSync(path, bytes);
    const { text, how } = await readUntilClosed(socket.resume() as Socket);
    expect([text.startsWith('HTTP/1.1 200 OK'), how]).toEqual([true, version === '1.0' ? 'ECONNRESET' : 'end']);
    // An HTTP/1.1 response without its last chunk is incomplete.
    expect(text.endsWith('\r\n0\r\n\r\n')).toBe(false);
  }
});
