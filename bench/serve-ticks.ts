/**
 * Compares ticks over HTTP with DuckDB: 1,000 ticks of one symbol and day, from the service in a separate process and,
 * alternately, by SQL over the glob of the same files in this process. `fresh`: every request is for another symbol and
 * day; `again`: always the same one. DuckDB's rows stay columns and are not converted to JSON. Then `warm`: 200 symbols
 * and days over 16 connections, and 200 concurrent clients. Memory is read from /proc, on Linux only. Run: node bench/serve-ticks.ts [TICKS] (50,000,000)
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance, type DuckDBResultReader } from '@duckdb/node-api';
import { dayMs } from '../src/base/window.ts';
import { openRawClient, type RawClient } from './raw-client.ts';
import { formatLoad, runLoad } from './request-load.ts';
import { startService } from './service.ts';
import { createBenchArchive } from './tick-archive.ts';

const ticksAsked = Number(process.argv[2] ?? 50_000_000);
const rounds = 6;
const perRound = { ours: 400, duckdb: 60 };
const clients = 200;
const perClient = 100;
const limit = 1000;

interface TickRequest {
  readonly symbol: string;
  readonly day: number;
}

const folder = mkdtempSync(join(tmpdir(), 'oddslake-serve-'));
const root = join(folder, 'lake');
const startedAt = performance.now();
const { symbols, days, ticks, key } = await createBenchArchive(root, ticksAsked);
const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
console.log(`${ticks.toLocaleString('en-US')} ticks of ${symbols.length} symbols, made in ${seconds} s`);

const service = await startService(root);
const { url, residentMiB, stop } = service;
const duckdb = await (await DuckDBInstance.create(':memory:')).connect();
await duckdb.run("set TimeZone = 'UTC'");
// DuckDB's best setting for files that do not change: reads each footer once.
await duckdb.run('set parquet_metadata_cache = true');

function ask(client: RawClient, { symbol, day }: TickRequest): Promise<Buffer> {
  const query = new URLSearchParams({ symbol, from: String(day), to: String(day + dayMs), limit: String(limit) });
  return client.get(`/api/v1/ticks?${query}`);
}

async function runDuckdb({ symbol, day }: TickRequest): Promise<DuckDBResultReader> {
  const date = new Date(day).toISOString().slice(0, 10);
  return await duckdb.runAndReadAll(
    `select t, p from read_parquet('${root}/ticks/date=*/*.parquet', hive_partitioning = true)
     where date = '${date}' and symbol = '${symbol}' order by t limit ${limit}`,
  );
}

async function askDuckdb(question: TickRequest): Promise<{ t: number; p: number }[]> {
  const [t, p] = (await runDuckdb(question)).getColumns() as unknown as [{ micros: bigint }[], number[]];
  return t!.map(({ micros }, i) => ({ t: Number(micros / 1000n), p: p![i]! }));
}

/** Every symbol and day, in an order that visits the files at random; a small archive repeats them. */
function* drawRequests(): Generator<TickRequest, never> {
  const all = symbols.flatMap((symbol) => days.map((day) => ({ symbol, day })));
  for (;;) {
    for (let left = all.length; left > 0; left--) {
      const at = Math.floor(Math.random() * left);
      const drawn = all[at]!;
      yield drawn;
      all[at] = all[left - 1]!;
      all[left - 1] = drawn;
    }
  }
}

/** Milliseconds of each of `count` requests, sent one after another. */
async function timed(count: number, work: () => Promise<unknown>): Promise<number[]> {
  const durations: number[] = [];
  for (let i = 0; i < count; i++) {
    const before = performance.now();
    await work();
    durations.push(performance.now() - before);
  }
  return durations;
}

const quantile = (durations: readonly number[], share: number): number =>
  durations.toSorted((a, b) => a - b)[Math.floor((durations.length - 1) * share)]!;

const computeRate = (durations: readonly number[]): number =>
  (durations.length * 1000) / durations.reduce((sum, ms) => sum + ms, 0);

const formatDurations = (durations: readonly number[]): string =>
  `${computeRate(durations).toFixed(0)} requests/s, p50 ${quantile(durations, 0.5).toFixed(2)} ms, p99 ${quantile(durations, 0.99).toFixed(2)} ms`;

async function compare(name: string, next: () => TickRequest): Promise<void> {
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let round = 0; round < rounds; round++) {
    ours.push(...(await timed(perRound.ours, () => ask(one, next()))));
    theirs.push(...(await timed(perRound.duckdb, () => runDuckdb(next()))));
  }
  console.log(`${name}: service ${formatDurations(ours)}`);
  const ratio = computeRate(ours) / computeRate(theirs);
  const byMedian = quantile(theirs, 0.5) / quantile(ours, 0.5);
  console.log(
    `${name}: DuckDB  ${formatDurations(theirs)}; ratio ${ratio.toFixed(1)}, of the medians ${byMedian.toFixed(1)}`,
  );
}

const one = await openRawClient(url, key);
const order = drawRequests();
const fresh = (): TickRequest => order.next().value;
const same = fresh();

const answer = JSON.parse(String(await ask(one, same))) as { ticks: { t: number; p: number }[] };
const theirs = await askDuckdb(same);
if (JSON.stringify(answer.ticks) !== JSON.stringify(theirs)) throw new Error('the two results differ');

await compare('fresh', fresh);
await compare('again', () => same);

/** As many symbols and days as the cache holds, over 16 connections. */
const working = Array.from({ length: 200 }, fresh);
const warm = {
  key,
  connections: 16,
  seconds: 5,
  next(): string {
    const { symbol, day } = working[Math.floor(Math.random() * working.length)]!;
    return `/api/v1/ticks?symbol=${symbol}&from=${day}&to=${day + dayMs}&limit=${limit}`;
  },
};
await runLoad(service, warm);
console.log(`warm, 16 connections: ${formatLoad(await runLoad(service, warm))}`);
const zstd = { ...warm, headers: { 'accept-encoding': 'zstd' } };
console.log(`warm with zstd, 16 connections: ${formatLoad(await runLoad(service, zstd))}`);

/** All clients concurrently; half of them send fresh requests. */
async function crowd(): Promise<void> {
  const before = residentMiB();
  const durations: number[] = [];
  let failed = 0;
  const began = performance.now();
  const sendRequests = async (_: unknown, i: number): Promise<void> => {
    const client = await openRawClient(url, key);
    for (let n = 0; n < perClient; n++) {
      const at = performance.now();
      await ask(client, i % 2 === 0 ? same : fresh()).catch(() => failed++);
      durations.push(performance.now() - at);
    }
    client.close();
  };
  await Promise.all(Array.from({ length: clients }, sendRequests));
  const rate = (durations.length * 1000) / (performance.now() - began);
  console.log(
    `${clients} clients: ${rate.toFixed(0)} requests/s, p50 ${quantile(durations, 0.5).toFixed(1)} ms, p99 ${quantile(durations, 0.99).toFixed(1)} ms, ${failed} failed, resident ${before.toFixed(0)} MiB before, ${residentMiB().toFixed(0)} after`,
  );
}

// Several times: caches are full before the last time, and memory must not grow any more.
for (let round = 0; round < 3; round++) await crowd();
one.close();
await stop();
rmSync(folder, { recursive: true });
