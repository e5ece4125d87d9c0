import { connect } from 'node:net';
import { expect, test } from 'vitest';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { type FaultKind, faultKinds } from '../../src/sandbox/sandbox-options.ts';
import { createVirtualClock } from '../client/virtual-clock.ts';
import { waitFor } from '../harness/limits.ts';
import { fetchPage, findBusiest, openSandbox, type Page, sendRequest } from './sandbox-requests.ts';

/** Sends one request and returns the bytes received until the connection ends. */
function wire(box: Sandbox, path: string): Promise<{ text: string; code: string | undefined }> {
  const { hostname, port } = new URL(box.url);
  return new Promise((resolve) => {
    let text = '';
    let code: string | undefined;
    const socket = connect(Number(port), hostname);
    socket.setEncoding('latin1');
    socket.on('data', (chunk) => {
      text += String(chunk);
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      code = error.code;
    });
    socket.on('close', () => resolve({ text, code }));
    socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer sandbox-key\r\n\r\n`);
  });
}

/** The bytes received for each kind; `whole` is the length of the correct body. */
const expectedOnWire: Record<
  FaultKind,
  (seen: { text: string; code: string | undefined; body: string; whole: number }) => boolean
> = {
  '429-seconds': ({ text }) => /^HTTP\/1.1 429 [\s\S]*retry-after: 1\r\n/i.test(text),
  '429-date': ({ text }) => /^HTTP\/1.1 429 [\s\S]*retry-after: \w{3}, \d\d \w{3} \d{4} [\d:]+ GMT\r\n/i.test(text),
  '408': ({ text }) => text.startsWith('HTTP/1.1 408 '),
  '425': ({ text }) => text.startsWith('HTTP/1.1 425 '),
  '500': ({ text }) => text.startsWith('HTTP/1.1 500 '),
  '502': ({ text }) => text.startsWith('HTTP/1.1 502 '),
  '503': ({ text }) => /^HTTP\/1.1 503 [\s\S]*retry-after: 1\r\n/i.test(text),
  '504': ({ text }) => text.startsWith('HTTP/1.1 504 '),
  reset: ({ text, code }) => text === '' && code === 'ECONNRESET',
  'reset-body': ({ text, code, body, whole }) =>
    code === 'ECONNRESET' && text.includes(`content-length: ${whole}`) && body.length === whole >> 1,
  'half-body': ({ text, code, body, whole }) =>
    code === undefined && text.includes(`content-length: ${whole}`) && body.length === whole >> 1,
  'half-body-close': ({ text, code, body, whole }) =>
    code === undefined && !/content-length|chunked/i.test(text) && body.length === whole >> 1,
  'bad-json': ({ text, body }) => text.startsWith('HTTP/1.1 200 ') && throws(() => JSON.parse(body)),
  html: ({ text, body }) =>
    /^HTTP\/1.1 200 [\s\S]*content-type: text\/html/i.test(text) && body.startsWith('<!doctype html>'),
  'error-200': ({ text, body }) =>
    text.startsWith('HTTP/1.1 200 ') && body.startsWith('{"error":"the backend timed out"'),
  'bare-200': ({ text, body }) => text.startsWith('HTTP/1.1 200 ') && body.startsWith('{"ticks":[],"markets":[]'),
  stall: ({ body, whole }) => body.length === whole,
  'slow-body': ({ body, whole }) => body.length === whole,
  'wrong-symbol': ({ body }) => (JSON.parse(body) as Page).symbol.endsWith('-X'),
  'wrong-count': ({ body }) => (JSON.parse(body) as Page).count === (JSON.parse(body) as Page).ticks.length + 1,
};

function throws(action: () => unknown): boolean {
  try {
    action();
    return false;
  } catch {
    return true;
  }
}

test.each(faultKinds)('shows the fault %s on the wire', async (kind) => {
  const box = await openSandbox({ cap: 100, stallMs: 120 });
  const { symbol, from, to } = findBusiest(box);
  const path = `/api/v1/ticks?symbol=${symbol}&from=${from}&to=${to}`;
  const right = await wire(box, path);
  const whole = right.text.length - right.text.indexOf('\r\n\r\n') - 4;
  box.set({ faultShare: 1, faults: [kind] });
  const start = performance.now();
  const seen = await wire(box, path);
  const tookMs = performance.now() - start;
  expect(expectedOnWire[kind]({ ...seen, body: seen.text.slice(seen.text.indexOf('\r\n\r\n') + 4), whole })).toBe(true);
  if (kind === 'stall' || kind === 'slow-body') expect(tookMs).toBeGreaterThan(115);
  const unusable = kind === 'stall' || kind === 'slow-body' ? 200 : 100;
  expect(box.stats()).toMatchObject({ faults: { [kind]: 1 }, tickRows: unusable });
});

test('counts a client that disconnects during a stalled response as gone', async () => {
  const clock = createVirtualClock();
  const box = await openSandbox({ faultShare: 1, faults: ['stall'], stallMs: 150 }, { clock });
  const headers = { authorization: 'Bearer sandbox-key' };
  const patience = new AbortController();
  const request = fetch(`${box.url}/api/v1/markets`, { headers, signal: patience.signal });
  request.catch(() => {});
  await waitFor(() => box.stats().faults.stall === 1, 'the stalled request');
  patience.abort();
  await expect(request).rejects.toThrow();
  // Further requests, so that the sandbox has noticed the end of the connection.
  for (let n = 0; n < 20; n++) await (await fetch(`${box.url}/sandbox/stats`)).arrayBuffer();
  expect(box.stats().byPath).toEqual({});
  await clock.pass(150);
  expect(box.stats().byPath).toEqual({ '/api/v1/markets': { gone: 1 } });
});

test('injects faults in the configured share, determined by the seed', async () => {
  const run = async (seed: number) => {
    const box = await openSandbox({ seed, faultShare: 0.3, faults: ['500', '502', '504'] });
    const symbol = box.symbols()[0]!;
    const statuses: number[] = [];
    for (let i = 0; i < 150; i++) {
      const response = await sendRequest(box, 'ticks', { symbol });
      statuses.push(response.status);
      await response.arrayBuffer();
    }
    const { faults } = box.stats();
    expect(Object.keys(faults).sort()).toEqual(['500', '502', '504']);
    expect(Object.values(faults).reduce((sum, n) => sum + n, 0)).toBe(
      statuses.filter((status) => status !== 200).length,
    );
    return statuses;
  };
  const first = await run(1);
  expect(await run(1)).toEqual(first);
  expect(await run(2)).not.toEqual(first);
  const share = first.filter((status) => status !== 200).length / first.length;
  expect(share).toBeGreaterThan(0.2);
  expect(share).toBeLessThan(0.4);
});

test('injects no faults into requests without the key', async () => {
  const box = await openSandbox({ faultShare: 1, faults: ['reset'] });
  expect((await sendRequest(box, 'markets', {}, 'bad key')).status).toBe(401);
  await expect(sendRequest(box, 'markets')).rejects.toThrow();
  expect(box.stats().byPath).toEqual({ '/api/v1/markets': { 401: 1, reset: 1 } });
});

test('fails always for the configured symbols and for no others', async () => {
  const box = await openSandbox();
  const [gone, broken, well] = box.symbols().slice(-3) as [string, string, string];
  box.set({ faultSymbols: { [gone]: 404, [broken]: 500 } });
  expect((await sendRequest(box, 'ticks', { symbol: gone })).status).toBe(404);
  expect((await sendRequest(box, 'orderbook', { symbol: broken })).status).toBe(500);
  expect((await fetchPage(box, { symbol: well })).symbol).toBe(well);
});
