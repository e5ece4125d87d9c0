import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { createRandom } from '../src/base/random.ts';
import { dayMs } from '../src/base/window.ts';
import type { Bench } from './bench.ts';
import { openRawClient } from './raw-client.ts';
import { type LoadResult, runLoad } from './request-load.ts';
import type { Report } from './results.ts';
import { compareServers, type LoadName, type Measurements, type ServerName, summariseLoads } from './serve-goals.ts';
import { openServePeers } from './serve-peers.ts';
import { createServedArchive, type ServedArchive, type SymbolDay } from './served-archive.ts';
import { type BenchedService, startServer, startService } from './service.ts';

/**
 * The HTTP service, compared with PostgreSQL and DuckDB behind FastAPI, which answer the same requests for ticks with the
 * same JSON. In every round each server starts as a new process and has the machine for itself; then oddslake and
 * PostgreSQL start again beside processes that keep every core busy.
 */

export interface ServeOptions {
  /** Requests to a fresh process, each for another symbol or day. */
  readonly requestsCold: number;
  readonly seconds: number;
  /** Load before each measurement of a warm process, not counted: V8 compiles for about this long. */
  readonly secondsBefore: number;
  /** Size of the archive that replaces a missing recording. */
  readonly ticksGenerated: number;
}

export const fullServe: ServeOptions = { requestsCold: 500, seconds: 3, secondsBefore: 3, ticksGenerated: 4e6 };
const connections = 16;
/** Ticks of a response. */
const limit = 1000;
/** Responses that are compared before the first round. */
const comparedMax = 50;

/** The servers that take part. One that fails or answers with other ticks is excluded with a reason. */
interface Contest {
  readonly bench: Bench;
  readonly archive: ServedArchive;
  readonly servers: Map<ServerName, () => Promise<BenchedService>>;
  readonly failures: Map<ServerName, string>;
}

/** @param recording the folder of a recording */
export async function benchServe(bench: Bench, recording: string, options = fullServe): Promise<Report> {
  const root = join(bench.folder, 'served');
  try {
    bench.tell('creating the archive');
    const archive = await createServedArchive(bench, root, recording, options.ticksGenerated);
    bench.tell('preparing the peers');
    const peers = await openServePeers(bench, root);
    try {
      const servers = new Map<ServerName, () => Promise<BenchedService>>([
        ['oddslake', () => startService(root, [], bench.env)],
        ...peers.servers,
      ]);
      const contest: Contest = { bench, archive, servers, failures: new Map() };
      await excludeDiffering(contest);
      const measurements = await measureRounds(contest, options);
      return {
        comparisons: compareServers(archive.name, measurements, new Map([...peers.missing, ...contest.failures])),
        timings: [],
        loads: summariseLoads(measurements),
        notes: [explain(peers.versions)],
        failed: [...peers.failed, ...contest.failures.keys()],
      };
    } finally {
      await peers.close();
    }
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

const explain = (versions: readonly string[]): string =>
  [
    'Cold: a new process of the server; PostgreSQL itself keeps its buffers. A busy machine runs one endless loop per core.',
    "The client runs on the same machine, so client and server together have its cores. A server's CPU time per request is that of all its threads and processes: it shows how many requests a core could serve without the client.",
    'oddslake checks a key, counts and limits every request; the peers do not. No server logs requests.',
    `Peers: ${versions.length === 0 ? 'none' : versions.join('; ')}.`,
  ].join(' ');

const toTicksPath = ({ symbol, day }: SymbolDay): string =>
  `/api/v1/ticks?symbol=${encodeURIComponent(symbol)}&from=${day}&to=${day + dayMs}&limit=${limit}`;

/** Runs `work` with a new process of a server, unless the server is missing or excluded. Excludes it if this fails. */
async function withServer(
  { bench, servers, failures }: Contest,
  name: ServerName,
  work: (server: BenchedService) => Promise<void>,
): Promise<void> {
  let server: BenchedService | undefined;
  try {
    server = await servers.get(name)?.();
    if (server !== undefined) await work(server);
  } catch (error) {
    const { message } = error as Error;
    bench.tell(`${name}: ${message}`);
    failures.set(name, message);
    servers.delete(name);
  } finally {
    await server?.stop();
  }
}

/** All servers must send the same ticks; otherwise their times measure different work. */
async function excludeDiffering(contest: Contest): Promise<void> {
  const { bench, archive, servers } = contest;
  const paths = drawDays(archive, comparedMax, createRandom(bench.seed)).map(toTicksPath);
  let expected: readonly string[] | undefined;
  for (const name of [...servers.keys()]) {
    await withServer(contest, name, async (server) => {
      const found = await readTicks(server, archive.key, paths);
      expected ??= found;
      const at = found.findIndex((text, i) => text !== expected![i]);
      if (at >= 0) throw new Error(`its ticks differ: ${paths[at]}`);
    });
  }
}

/** The parts of the responses that do not depend on the time. */
async function readTicks({ url }: BenchedService, key: string, paths: readonly string[]): Promise<string[]> {
  const client = await openRawClient(url, key);
  const found: string[] = [];
  for (const path of paths) {
    const { symbol, ticks, count, from, to } = JSON.parse(String(await client.get(path)));
    found.push(JSON.stringify({ symbol, ticks, count, from, to }));
  }
  client.close();
  return found;
}

/** Different days of symbols, in random order; fewer than `count` if the archive has no more. */
function drawDays({ symbolDays }: ServedArchive, count: number, random: () => number): SymbolDay[] {
  const left = [...symbolDays];
  return Array.from({ length: Math.min(count, left.length) }, () => {
    const at = Math.floor(random() * left.length);
    const drawn = left[at]!;
    left[at] = left.at(-1)!;
    left.pop();
    return drawn;
  });
}

async function measureRounds(contest: Contest, options: ServeOptions): Promise<Measurements> {
  const { bench, archive, servers } = contest;
  const measurements = new Map<LoadName, Map<ServerName, LoadResult[]>>();
  const random = createRandom(bench.seed);
  for (let round = 1; round <= bench.runs; round++) {
    const days = drawDays(archive, options.requestsCold, random);
    const record = (load: LoadName, server: ServerName, result: LoadResult): void => {
      const byServer = measurements.get(load) ?? new Map<ServerName, LoadResult[]>();
      measurements.set(load, byServer.set(server, [...(byServer.get(server) ?? []), result]));
      const rate = `${result.requestsPerSecond.toFixed(0)} requests/s, p99 ${result.p99Ms.toFixed(2)} ms`;
      bench.tell(`round ${round} of ${bench.runs}, ${load}, ${server}: ${rate}`);
    };
    for (const name of [...servers.keys()]) {
      await withServer(contest, name, async (server) => {
        const load = createLoad(server, archive.key, options);
        record('cold', name, await load.once(days));
        record('warm', name, await load.repeat(days));
        if (name === 'oddslake') await measureHistory(load, days, (what, result) => record(what, name, result));
      });
    }
    const bodyBytes = measurements.get('warm')?.get('oddslake')?.at(-1)?.bytes ?? 0;
    const generator = await startServer(constantServer(Math.round(bodyBytes)), bench.env);
    record('warm', 'generator', await createLoad(generator, archive.key, options).repeat(days));
    await generator.stop();
    const stopNeighbours = startNeighbours();
    for (const name of ['oddslake', 'postgres'] as const) {
      await withServer(contest, name, async (server) => {
        const load = createLoad(server, archive.key, options);
        record('coldBusy', name, await load.once(days));
        record('warmBusy', name, await load.repeat(days));
      });
    }
    stopNeighbours();
  }
  return measurements;
}

/** Requests to one server. */
interface Load {
  /** Each day once, over one connection. */
  once(days: readonly SymbolDay[]): Promise<LoadResult>;
  /** The days again and again, over all connections. */
  repeat(days: readonly SymbolDay[]): Promise<LoadResult>;
  /** Any paths over all connections. */
  run(next: () => string): Promise<LoadResult>;
}

function createLoad(server: BenchedService, key: string, { seconds, secondsBefore }: ServeOptions): Load {
  const run = async (next: () => string): Promise<LoadResult> => {
    await runLoad(server, { key, connections, seconds: secondsBefore, next });
    return await runLoad(server, { key, connections, seconds, next });
  };
  return {
    run,
    once(days) {
      const paths = days.map(toTicksPath).values();
      return runLoad(server, {
        key,
        connections: 1,
        seconds: Number.POSITIVE_INFINITY,
        next: () => paths.next().value ?? null,
      });
    },
    repeat(days) {
      const paths = days.map(toTicksPath);
      let sent = 0;
      return run(() => paths[sent++ % paths.length]!);
    },
  };
}

/** Pages of the history. A fresh request has a window that none had before, with the same rows. */
async function measureHistory(
  load: Load,
  days: readonly SymbolDay[],
  record: (load: LoadName, result: LoadResult) => void,
): Promise<void> {
  const end = Math.max(...days.map(({ day }) => day)) + 365 * dayMs;
  let sent = 0;
  const drawSymbol = (): string => encodeURIComponent(days[sent % days.length]!.symbol);
  const markets = (to: number): string => `/api/v1/historical/markets?limit=100&to=${to}`;
  const candles = (to: number): string => `/api/v1/historical/candles?interval=4h&symbol=${drawSymbol()}&to=${to}`;
  const ticks = (to: number): string => `/api/v1/historical/ticks?limit=${limit}&symbol=${drawSymbol()}&to=${to}`;
  const fresh = (toPath: (to: number) => string) => () => toPath(end + ++sent);
  const [oneOfMarkets, oneOfCandles] = [markets(end), candles(end)];
  record('marketsRepeated', await load.run(() => oneOfMarkets));
  record('candlesRepeated', await load.run(() => oneOfCandles));
  record('marketsFresh', await load.run(fresh(markets)));
  record('candlesFresh', await load.run(fresh(candles)));
  record('ticksFresh', await load.run(fresh(ticks)));
}

/** A server that does nothing but send one response, to find out how fast the load generator is. */
function constantServer(bodyBytes: number): readonly [string, ...string[]] {
  const script = `
    const head = 'HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: ${bodyBytes}\\r\\n\\r\\n';
    const response = Buffer.concat([Buffer.from(head), Buffer.alloc(${bodyBytes}, 32)]);
    const server = require('node:net').createServer({ noDelay: true }, (socket) => {
      socket.on('error', () => {}).on('data', () => socket.write(response));
    });
    server.listen(0, '127.0.0.1', () =>
      console.log(JSON.stringify({ url: 'http://127.0.0.1:' + server.address().port })));`;
  return [process.execPath, '-e', script];
}

/** Keeps every core busy until the returned function is called. Each neighbour has a session, as the servers have. */
function startNeighbours(): () => void {
  const start = () => spawn(process.execPath, ['-e', 'for (;;);'], { detached: true, stdio: 'ignore' });
  const neighbours = cpus().map(start);
  const stop = (): void => {
    for (const neighbour of neighbours) neighbour.kill('SIGKILL');
    process.off('exit', stop);
  };
  process.once('exit', stop);
  return stop;
}
