import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { systemClock } from '../../../src/base/system.ts';
import { postWebhook } from '../../../src/collector/notifications/notify.ts';
import { limitMs } from '../../harness/limits.ts';
import { listen } from '../../harness/listen.ts';

/** Limits that do not end a test on a busy machine. */
const bounds = { totalMsMax: limitMs, attemptMsMax: limitMs / 2, attemptsMax: 3, delayMs: 20 };
/** Longer than any test may take. */
const evenLonger = 10 * limitMs;

/** A receiver that responds to its n-th request. */
async function receiver(answer: (n: number, request: IncomingMessage, response: ServerResponse) => void) {
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (piece: Buffer) => {
      body += piece.toString();
    });
    request.on('end', () => {
      bodies.push(body);
      answer(bodies.length, request, response);
    });
  });
  return { url: `${await listen(server)}/hook/secret-path`, bodies };
}

const status =
  (code: number, headers = {}) =>
  (_n: number, _request: unknown, response: ServerResponse) =>
    void response.writeHead(code, headers).end('no');

test('retries transient failures, and does not repeat an accepted body', async () => {
  const { url, bodies } = await receiver((n, _, response) => void response.writeHead(n < 3 ? 503 : 204).end());
  await postWebhook(url, '{"a":1}', bounds, systemClock);
  expect(bodies).toEqual(['{"a":1}', '{"a":1}', '{"a":1}']);
});

test.each([
  [404, 1, 'it responded with 404.'],
  [500, 3, 'it responded with 500, 3 times.'],
  [429, 3, 'it responded with 429, 3 times.'],
  [302, 1, 'it responded with 302; redirects are not followed.'],
])('gives up on status %d after %d attempts', async (code, attempts, reason) => {
  const target = await receiver(status(200));
  const { url, bodies } = await receiver(status(code, { location: target.url }));
  await expect(postWebhook(url, '{}', bounds, systemClock)).rejects.toThrow(reason);
  expect(bodies).toHaveLength(attempts);
  expect(target.bodies).toEqual([]);
});

test('stops waiting for a receiver that hangs', async () => {
  const { url, bodies } = await receiver(() => {});
  // Each attempt has its own limit,
  const attempts = postWebhook(url, '{}', { ...bounds, attemptMsMax: 200, totalMsMax: evenLonger }, systemClock);
  await expect(attempts).rejects.toThrow('did not respond in time, 3 times.');
  expect(bodies).toHaveLength(3);
  // and the total limit ends them all.
  const whole = postWebhook(url, '{}', { ...bounds, attemptMsMax: evenLonger, totalMsMax: 400 }, systemClock);
  await expect(whole).rejects.toThrow('did not respond in time.');
  expect(bodies).toHaveLength(4);
});

test('does not retry if Retry-After exceeds the time limit', async () => {
  const { url, bodies } = await receiver(status(429, { 'retry-after': `${evenLonger / 1000}` }));
  await expect(postWebhook(url, '{}', bounds, systemClock)).rejects.toThrow('429');
  expect(bodies).toHaveLength(1);
});

test('does not read an endless response', async () => {
  const { url } = await receiver((_n, _request, response) => {
    response.writeHead(200);
    const timer = setInterval(() => response.write('x'.repeat(1000)), 5);
    response.on('close', () => clearInterval(timer));
  });
  await postWebhook(url, '{}', bounds, systemClock);
});

test('no error contains the URL', async () => {
  const { url } = await receiver(status(403));
  const nobody = 'http://127.0.0.1:9/hook/secret-path';
  for (const where of [url, nobody, 'http://no.such.host.invalid/hook/secret-path']) {
    const error = await postWebhook(where, '{}', bounds, systemClock).catch((one: Error) => one);
    expect(`${(error as Error).stack} ${(error as Error).cause}`).not.toContain('secret-path');
  }
});
