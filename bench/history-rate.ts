/**
 * Measures JSON pages of the history routes over a recording, served by a separate process: requests per second with 16
 * connections, and CPU time of the service per request. Every request is for another symbol or window. Then 500 random
 * symbols of /ticks with one connection. CPU time is read from /proc, on Linux only.
 * Run: node bench/history-rate.ts [FOLDER] (../shared/data) [SECONDS] (5)
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createBenchKey } from './key.ts';
import { openRawClient, type RawClient } from './raw-client.ts';
import { startService } from './service.ts';

const recording = process.argv[2] ?? '../shared/data';
const seconds = Number(process.argv[3] ?? 5);
const connections = 16;

const folder = mkdtempSync(join(tmpdir(), 'oddslake-history-'));
const root = join(folder, 'lake');
const main = new URL('../bin/main.ts', import.meta.url).pathname;
const importFile = (file: string, ...options: string[]): Buffer =>
  execFileSync(process.execPath, [
    ...[main, 'import', join(recording, file), '--output', root, '--set', 'source.name=recording', '--quiet'],
    ...options,
  ]);
importFile('polymarket-us-ticks.parquet', '--tz', 'UTC', '--covers', '2026-07-11..2026-07-12T03:58:48Z');
importFile('polymarket-us-markets.parquet', '--dataset', 'markets');

const key = await createBenchKey(root);
const { url, cpuMs, residentMiB, stop } = await startService(root);

interface Market {
  readonly symbol: string;
  readonly category: string | null;
  readonly ticks: number;
}

async function readMarkets(client: RawClient): Promise<Market[]> {
  const markets: Market[] = [];
  let cursor: string | null = null;
  do {
    const more: string = cursor === null ? '' : `&cursor=${cursor}`;
    const page = JSON.parse(String(await client.get(`/api/v1/historical/markets?limit=1000${more}`)));
    markets.push(...(page.markets as Market[]));
    cursor = page.next_cursor;
  } while (cursor !== null);
  return markets;
}

const one = await openRawClient(url, key);
const markets = await readMarkets(one);
const symbols = markets
  .filter(({ ticks }) => ticks > 0)
  .map(({ symbol }) => ({ symbol: encodeURIComponent(symbol), order: Math.random() }))
  .sort((a, b) => a.order - b.order)
  .map(({ symbol }) => symbol);
const categories = [...new Set(markets.map(({ category }) => category ?? ''))];
const day0 = Date.UTC(2026, 6, 11);
const later = Date.UTC(2027, 0, 1);
const pick = <T>(list: readonly T[], i: number): T => list[i % list.length]!;

const requests: Readonly<Record<string, (i: number) => string>> = {
  ticks: (i) => `historical/ticks?symbol=${pick(symbols, i)}`,
  'candles 1h': (i) => `historical/candles?interval=1h&symbol=${pick(symbols, i)}`,
  'candles 1d': (i) => `historical/candles?interval=1d&symbol=${pick(symbols, i)}`,
  'candles 5m': (i) => `historical/candles?interval=5m&symbol=${pick(symbols, i)}`,
  'candles 4h': (i) => `historical/candles?interval=4h&symbol=${pick(symbols, i)}`,
  coverage: (i) => `historical/coverage?symbol=${pick(symbols, i)}`,
  'markets by symbol': (i) => `historical/markets?symbol=${pick(symbols, i)}`,
  'markets, 100': (i) => `historical/markets?limit=100&to=${later + i}`,
  'markets by category, 100': (i) =>
    `historical/markets?limit=100&category=${encodeURIComponent(pick(categories, i))}&to=${later + i}`,
};

const quantile = (sorted: readonly number[], share: number): string =>
  sorted[Math.floor((sorted.length - 1) * share)]!.toFixed(1);

async function measure(name: string, clients: number, countMax: number, toPath: (i: number) => string): Promise<void> {
  const durations: number[] = [];
  let sent = 0;
  const cpuBefore = cpuMs();
  const startedAt = performance.now();
  const isOver = (): boolean => sent >= countMax || performance.now() - startedAt > seconds * 1000;
  const sendRequests = async (): Promise<void> => {
    const client = await openRawClient(url, key);
    while (!isOver()) {
      const at = performance.now();
      await client.get(`/api/v1/${toPath(sent++)}`);
      durations.push(performance.now() - at);
    }
    client.close();
  };
  await Promise.all(Array.from({ length: clients }, sendRequests));
  const rate = (durations.length * 1000) / (performance.now() - startedAt);
  const cpu = (cpuMs() - cpuBefore) / durations.length;
  durations.sort((a, b) => a - b);
  console.log(
    `${name}, ${clients} connections: ${rate.toFixed(0)} requests/s, p50 ${quantile(durations, 0.5)} ms, p99 ${quantile(durations, 0.99)} ms, CPU ${cpu.toFixed(2)} ms per request, resident ${residentMiB().toFixed(0)} MiB`,
  );
}

await measure('/ticks, cold', 1, 500, (i) => `ticks?symbol=${pick(symbols, i)}&from=${day0}`);
for (const [name, toPath] of Object.entries(requests))
  await measure(name, connections, Number.POSITIVE_INFINITY, toPath);
one.close();
await stop();
rmSync(folder, { recursive: true });
