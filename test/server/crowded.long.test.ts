import { once } from 'node:events';
import { get } from 'node:http';
import { connect, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { Log } from '../../src/base/ports.ts';
import { opened } from '../archive/scratch.ts';
import { limitMs, waitFor } from '../harness/limits.ts';
import { head } from './raw.ts';
import { type Serving, serving } from './serving.ts';

/** Time limits that the tests never reach. */
const patient = { headersMsMax: limitMs / 2, requestMsMax: limitMs, idleMsMax: limitMs, stalledMsMax: limitMs };

/** A connection from one of the addresses 127.0.0.0/8, which Linux accepts without configuration. */
async function connectedFrom(url: string, localAddress: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), localAddress });
  socket.on('error', () => {});
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  return socket;
}

const connectedManyFrom = (url: string, localAddress: string, count: number): Promise<Socket[]> =>
  Promise.all(Array.from({ length: count }, () => connectedFrom(url, localAddress)));

/** Status and duration of a request on a new connection; null if the connection was closed. */
async function statusFrom(url: string, localAddress: string): Promise<{ status: number | null; ms: number }> {
  const startMs = performance.now();
  const status = await new Promise<number | null>((resolve) => {
    get(`${url}/healthz`, { agent: false, localAddress }, (answer) => {
      answer.resume();
      resolve(answer.statusCode!);
    }).on('error', () => resolve(null));
  });
  return { status, ms: performance.now() - startMs };
}

/**
 * Reads that many bytes, then nothing. The kernels tell the sender of free space in steps of up to 1.4 MB (a third of its
 * buffer) and 2 MB (a sixteenth of the reader's): a smaller burst may be no progress that the service can see.
 */
async function readBurst(socket: Socket, bytesMin: number): Promise<number> {
  let bytes = 0;
  const count = (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes >= bytesMin) socket.pause();
  };
  socket.on('data', count);
  socket.resume();
  await waitFor(() => bytes >= bytesMin || socket.closed, 'a burst of bytes', limitMs / 2);
  socket.off('data', count);
  return bytes;
}

async function readDrops({ ask }: Serving): Promise<Record<string, number>> {
  const text = await (await ask('/metrics')).text();
  const lines = text.matchAll(/^oddslake_http_connections_dropped_total\{reason="(\w+)"\} (\d+)$/gm);
  return Object.fromEntries([...lines].map(([, reason, count]) => [reason!, Number(count)]));
}

function countOpen(sockets: readonly Socket[]): number {
  return sockets.filter(({ closed }) => !closed).length;
}

/** A log that keeps its warnings. */
function recordedLog() {
  const warnings: object[] = [];
  const log: Log = { debug() {}, info() {}, warn: (facts) => void warnings.push(facts), error() {} };
  return { log, warnings };
}

test.each([
  ['headers', 'GET /healthz HTTP/1.1\r\nHost: here\r\nX-Slow: a'],
  ['body', 'POST /nowhere HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: 9\r\n'],
])('2,100 requests of one address with incomplete %s do not keep others waiting', async (part, text) => {
  const { log, warnings } = recordedLog();
  const service = await serving(opened(), { limits: { ...patient, checkIntervalMs: 300 }, log });
  const sockets: Socket[] = [];
  for (let batch = 0; batch < 21; batch++) {
    const connected = await connectedManyFrom(service.url, '127.0.0.1', 100);
    for (const socket of connected)
      socket.write(part === 'body' ? `${text}Authorization: Bearer ${service.key}\r\n\r\n{` : text);
    sockets.push(...connected);
  }
  for (const address of ['127.0.0.2', '127.0.0.1']) {
    const { status, ms } = await statusFrom(service.url, address);
    expect(status, address).toBe(200);
    expect(ms, address).toBeLessThan(1000);
  }
  // The oldest go first.
  await waitFor(() => countOpen(sockets) <= 100, 'the bound of incomplete requests', 20_000);
  expect(countOpen(sockets)).toBe(100);
  expect(countOpen(sockets.slice(-200))).toBe(100);
  const drops = await readDrops(service);
  // A slow machine reaches the check of incomplete requests before the maximum of the address.
  expect(drops.address_full! + drops.half_sent!).toBe(2000);
  expect(warnings.length).toBeLessThan(30);
  expect(warnings[0]).toMatchObject({ address: '127.0.0.1', addresses: 1 });
});

test('a full service drops the oldest incomplete request of the most crowded address', async () => {
  const limits = { ...patient, connectionsMax: 50 };
  const service = await serving(opened(), { limits });
  const few = await connectedManyFrom(service.url, '127.0.0.2', 10);
  const many = await connectedManyFrom(service.url, '127.0.0.3', 40);
  expect((await statusFrom(service.url, '127.0.0.4')).status).toBe(200);
  await waitFor(() => countOpen(many) < 40, 'a dropped connection', 10_000);
  expect([countOpen(few), countOpen(many), many[0]!.closed]).toEqual([10, 39, true]);
});

test('an address above its maximum loses an idle connection, and a new one if all are in use', async () => {
  const set = ['service.connections_per_address_max=3'];
  const service = await serving(opened(), { limits: patient, set });
  const idle = await connectedManyFrom(service.url, '127.0.0.2', 3);
  for (const socket of idle) {
    socket.write(head('/healthz').replace('Connection: close\r\n', ''));
    await once(socket, 'data');
  }
  expect((await statusFrom(service.url, '127.0.0.2')).status).toBe(200);
  await waitFor(() => countOpen(idle) === 2, 'a dropped connection', 10_000);
  const used = await connectedManyFrom(service.url, '127.0.0.3', 3);
  // The responses are larger than the buffers, and are not read.
  for (const socket of used) {
    socket.pause();
    socket.write(head('/docs/static/swagger-ui-bundle.js').replace('Connection: close\r\n', '').repeat(50));
    await once(socket, 'readable');
  }
  expect((await statusFrom(service.url, '127.0.0.3')).status).toBe(null);
  expect((await statusFrom(service.url, '127.0.0.4')).status).toBe(200);
  expect(countOpen(used)).toBe(3);
});

test('a client that reads slowly is not disconnected, and one that does not read is', async () => {
  const limits = { ...patient, stalledMsMax: 500, checkIntervalMs: 50 };
  const service = await serving(opened(), { limits });
  const [reading, stalled] = (await connectedManyFrom(service.url, '127.0.0.2', 2)) as [Socket, Socket];
  const request = head('/docs/static/swagger-ui-bundle.js').replace('Connection: close\r\n', '');
  for (const socket of [reading, stalled]) {
    socket.pause();
    socket.write(request.repeat(200));
  }
  let isStalledOpen = true;
  stalled.once('close', () => {
    isStalledOpen = false;
  });
  const startMs = performance.now();
  let bytes = 0;
  while (performance.now() - startMs < 6 * limits.stalledMsMax) {
    bytes += await readBurst(reading, 8_000_000);
    await new Promise((resolve) => setTimeout(resolve, 3 * limits.checkIntervalMs));
  }
  expect(bytes).toBeGreaterThan(0);
  expect(reading.closed).toBe(false);
  await waitFor(async () => (await readDrops(service)).stalled === 1, 'one stalled client', 10_000);
  stalled.resume();
  await waitFor(() => !isStalledOpen, 'a closed connection', 10_000);
  expect(reading.closed).toBe(false);
});
