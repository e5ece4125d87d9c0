import { once } from 'node:events';
import type { Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/base/system.ts';
import { stopService } from '../../src/server/http/connection-limits.ts';
import { opened } from '../archive/scratch.ts';
import { limitMs, waitFor } from '../harness/limits.ts';
import { answersIn, connected, head, received } from './raw.ts';
import { serving } from './serving.ts';

const quick = { headersMsMax: 200, requestMsMax: 300, checkIntervalMs: 50 };

/** Limits that the tests never reach. */
const patient = { headersMsMax: limitMs / 2, requestMsMax: limitMs, idleMsMax: limitMs, stalledMsMax: limitMs };

/** Fifty connections that never complete their headers. */
function trickling(url: string) {
  const sockets = Array.from({ length: 50 }, () => connected(url));
  const answers = sockets.map(received);
  for (const [at, socket] of sockets.entries())
    socket.write(at % 2 === 0 ? 'GET /healthz HTTP/1.1\r\nHost: here\r\nX-Slow: a' : 'G');
  const trickle = setInterval(() => {
    for (const socket of sockets) if (socket.writable) socket.write('a');
  }, 40);
  onTestFinished(() => clearInterval(trickle));
  return answers;
}

test('incomplete headers do not block other clients', async () => {
  const { url, ask, app } = await serving(opened(), { limits: patient });
  let connections = 0;
  app.server.on('connection', () => connections++);
  trickling(url);
  await waitFor(() => connections === 50, 'fifty connections');
  expect((await ask('/healthz')).status).toBe(200);
});

test('incomplete headers give 408', async () => {
  const { url } = await serving(opened(), { limits: quick });
  const ended = await Promise.all(trickling(url));
  const statuses = ended.flatMap((text) => answersIn(text).map(({ status }) => status));
  // Half a method that is then continued is malformed, which may be detected first.
  expect(statuses.filter((status) => status === 408).length).toBeGreaterThanOrEqual(25);
  expect(statuses.every((status) => status === 408 || status === 400)).toBe(true);
  const reported = answersIn(ended[0]!)[0]!;
  expect(reported.headers.get('content-type')).toBe('application/problem+json');
  expect(JSON.parse(reported.body)).toMatchObject({ status: 408, title: 'Request timeout' });
});

test('closes a connection that sends nothing', async () => {
  const { url } = await serving(opened(), { limits: quick });
  const answers = answersIn(await received(connected(url)));
  expect(answers.map(({ status }) => status)).toEqual([408]);
});

test('an incomplete body gives 408', async () => {
  const { url, key } = await serving(opened(), { limits: quick });
  const socket = connected(url);
  socket.write(
    head('/nowhere', 'POST', [`Authorization: Bearer ${key}`, 'Content-Type: application/json', 'Content-Length: 9']),
  );
  socket.write('{');
  const [answer] = answersIn(await received(socket));
  expect(answer!.status).toBe(408);
});

test('disconnects a client that does not read, with bounded buffers', async () => {
  const { url, ask, app } = await serving(opened(), { limits: { stalledMsMax: 400 } });
  let most = 0;
  const cutOff = Promise.withResolvers<void>();
  app.server.once('connection', (socket: Socket) => {
    const write = socket.write.bind(socket) as (...given: unknown[]) => boolean;
    socket.write = (...given: unknown[]) => {
      const more = write(...given);
      most = Math.max(most, socket.writableLength);
      return more;
    };
    socket.once('close', cutOff.resolve);
  });
  const socket = connected(url);
  socket.pause();
  const request = head('/docs/static/swagger-ui-bundle.js').replace('Connection: close\r\n', '');
  socket.write(request.repeat(200));
  await cutOff.promise;
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThan(4 * 1024 * 1024);
  expect((await ask('/healthz')).status).toBe(200);
});

test('closes an idle connection', async () => {
  const { url } = await serving(opened(), { limits: { idleMsMax: 100 } });
  const socket = connected(url);
  socket.write(head('/healthz').replace('Connection: close\r\n', ''));
  expect(answersIn(await received(socket)).map(({ status }) => status)).toEqual([200]);
});

test('stopping completes running requests, and closes and rejects connections', async () => {
  const { url, key, app } = await serving(opened(), { limits: patient });
  const begun = once(app.server, 'request');
  const authorization = `Authorization: Bearer ${key}`;
  const kept = connected(url);
  kept.write(
    `POST /nowhere HTTP/1.1\r\nHost: here\r\n${authorization}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{`,
  );
  const answer = received(kept);
  await begun;
  const stopped = stopService(app, systemClock, limitMs);
  await waitFor(() => !app.server.listening, 'a server that accepts no connections');
  expect(await received(connected(url))).toBe('');
  kept.write('}');
  const [reported] = answersIn(await answer);
  expect([reported!.status, reported!.headers.get('connection')]).toEqual([404, 'close']);
  await stopped;
});

test('stopping aborts requests that do not end', async () => {
  const { url, key, app } = await serving(opened(), { limits: patient });
  const begun = once(app.server, 'request');
  const stuck = connected(url);
  stuck.write(
    head('/nowhere', 'POST', [`Authorization: Bearer ${key}`, 'Content-Type: application/json', 'Content-Length: 2']),
  );
  await begun;
  await stopService(app, systemClock, 200);
  expect(await received(stuck)).toBe('');
});
