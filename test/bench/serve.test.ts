import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, describe, expect, test } from 'vitest';
import { type LoadResult, runLoad } from '../../bench/request-load.ts';
import { resultsText } from '../../bench/results.ts';
import { compareServers, type Measurements, type ServerName, summariseLoads } from '../../bench/serve-goals.ts';

const result = (requestsPerSecond: number, p99Ms: number): LoadResult => ({
  requestsPerSecond,
  p50Ms: 1,
  p99Ms,
  cpuMsPerRequest: 0.1,
  clientCpuMsPerRequest: 0.05,
  bytes: 9300,
});
const ours = [result(5000, 9), result(6000, 8), result(4000, 12)];
const measurements: Measurements = new Map([
  [
    'warm',
    new Map<ServerName, readonly LoadResult[]>([
      ['oddslake', ours],
      ['duckdb', [result(500, 70), result(400, 70), result(400, 70)]],
    ]),
  ],
  [
    'warmBusy',
    new Map<ServerName, readonly LoadResult[]>([
      ['oddslake', ours],
      ['postgres', [result(2000, 10), result(2000, 10), result(2000, 10)]],
    ]),
  ],
]);

/** The outcome of one goal. */
function find(what: string, peer: string | null) {
  const comparisons = compareServers('recording', measurements, new Map([['duckdb', 'it is not installed']]));
  const found = comparisons.find((one) => one.what === what && (one.peer?.name ?? null) === peer)!;
  return { ...found, isMet: found.value === null ? null : found.goal.met(found.value) };
}

describe('the goals of the service', () => {
  test('are judged by medians', () => {
    expect(find('/ticks, warm, 16 connections: requests', null)).toMatchObject({ ours: '5,000/s', isMet: true });
    expect(find('/ticks, warm, 16 connections: p99', null)).toMatchObject({ ours: '9.00 ms', isMet: true });
    expect(find('/ticks, warm, 16 connections: requests', 'DuckDB behind FastAPI')).toMatchObject({
      ratio: { median: 10, min: 10, max: 15 },
      isMet: true,
    });
  });

  test('require the lower p99 in every round of a busy machine', () => {
    const busy = find('/ticks, warm, 16 connections, busy machine: p99', 'PostgreSQL behind FastAPI');
    expect(busy).toMatchObject({ ratio: { median: 0.9, min: 0.8, max: 1.2 }, value: 1.2, isMet: false });
  });

  test('that were not measured have a reason', () => {
    const missing = find('/ticks, cold, 1 connection: requests', 'DuckDB behind FastAPI');
    expect(missing).toMatchObject({ ours: '–', value: null, missing: 'it is not installed' });
  });
});

test('the results list every load with its CPU time per request', () => {
  const circumstances = {
    date: '2026-11-26',
    machine: 'm',
    versions: [],
    accounting: 'a',
    seed: 1,
    runs: 3,
    seconds: 60,
    short: [],
  };
  const report = { comparisons: [], timings: [], loads: summariseLoads(measurements), notes: ['A note.'], failed: [] };
  const text = resultsText('', ['serve'], { name: 'serve', circumstances, reports: [report] });
  expect(text).toContain(
    '| /ticks, warm, 16 connections | oddslake | 5,000 | 1.00 ms | 9.00 ms | 0.100 ms | 0.050 ms | 9.3 kB |',
  );
  expect(text).toContain('\n\nA note.\n');
});

describe('a load', () => {
  const server = createServer((request, response) => {
    response.statusCode = request.url === '/missing' ? 404 : 200;
    response.end('0123456789');
  });
  afterAll(() => server.close());
  const run = async (paths: readonly string[]) => {
    if (!server.listening) await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const left = paths.values();
    return await runLoad(
      { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, cpuMs: () => 0 },
      { key: 'key', connections: 2, seconds: 60, next: () => left.next().value ?? null },
    );
  };

  test('ends when there are no more requests', async () => {
    expect(await run(['/a', '/b', '/c'])).toMatchObject({ bytes: 10 });
  });

  test('fails if a response is not 200', async () => {
    await expect(run(['/a', '/missing'])).rejects.toThrow('HTTP status 404');
  });
});
