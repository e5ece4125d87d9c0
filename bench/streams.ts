/**
 * Measures streams of ticks: many clients, each with one of some symbols, while this process journals new ticks as a
 * collector does. Prints the time from the start of the journal's transaction to the arrival at each client, and the memory
 * and CPU time of the service, which is a separate process. Then the service is killed, and all clients resume.
 * Run: node bench/streams.ts [STREAMS] [SECONDS] [SYMBOLS]   (1000, 20, 50)
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemDisk } from '../src/archive/disk/file-system.ts';
import { precedenceRanks } from '../src/archive/format/precedence.ts';
import { appendTicks } from '../src/archive/journal/journal.ts';
import { startRun } from '../src/archive/journal/runs.ts';
import { openArchive } from '../src/archive/open-archive.ts';
import { createBenchKey } from './key.ts';
import { startService } from './service.ts';

const [streams = 1000, seconds = 20, symbolCount = 50] = process.argv.slice(2).map(Number);
/** One response of every symbol with a new tick, this often: the rate of ticks is symbols / 0.25 s. */
const everyMs = 250;
const settings = [
  'service.connections_per_address_max=2000',
  `service.stream.streams_max=${streams}`,
  `service.stream.streams_per_key_max=${streams}`,
];

const folder = mkdtempSync(join(tmpdir(), 'oddslake-streams-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
const root = join(folder, 'lake');
const symbols = Array.from({ length: symbolCount }, (_, i) => `KXBENCH-26DEC-${String(i).padStart(4, '0')}`);
const options = { root, create: true, upstream: 'https://bench.test', parts: 4, writer: 'oddslake bench', settleMs: 0 };
const archive = openArchive(options, systemDisk);
startRun(archive.state.db, 'bench', 'bench', process.pid, Date.now());

/** When the ticks of a time were journaled, monotonic ms. */
const journaledAt = new Map<number, number>();

/** Journals a tick of every symbol at this time, in one transaction. */
function journal(t: number): void {
  journaledAt.set(t, performance.now());
  appendTicks(
    archive.state,
    symbols.map((symbol) => ({
      runId: 'bench',
      symbol,
      requestedWindow: { from: t - everyMs, to: t + 1 },
      observedAt: t,
      origin: 'poll' as const,
      rank: precedenceRanks.poll,
      rejected: [],
      ticks: { t: Float64Array.of(t), p: Float64Array.of((t % 100) / 100) },
      covered: [{ from: t - everyMs, to: t + 1, fetchedAt: t, evidence: 'inferred' as const }],
    })),
  );
}

journal(Date.now() - 1000);
const key = await createBenchKey(root);
let service = await startService(root, [], process.env, settings);
let url = service.url;

interface Client {
  readonly symbol: string;
  lastEventId: string;
  ticks: number;
  isReady: boolean;
}
const latencies: number[] = [];
const clients = Array.from(
  { length: streams },
  (_, i): Client => ({ symbol: symbols[i % symbolCount]!, lastEventId: '', ticks: 0, isReady: false }),
);

function connect(client: Client): Promise<void> {
  const headers = {
    authorization: `Bearer ${key}`,
    ...(client.lastEventId === '' ? {} : { 'last-event-id': client.lastEventId }),
  };
  return new Promise((resolve, reject) => {
    const request = get(`${url}/api/v1/ticks/stream?symbol=${client.symbol}`, { headers, agent: false }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`HTTP status ${response.statusCode}`));
      let rest = '';
      response.setEncoding('utf8');
      response.on('data', (text: string) => {
        const events = (rest + text).split('\n\n');
        rest = events.pop()!;
        const now = performance.now();
        for (const event of events) {
          client.lastEventId = /^id: (.*)$/m.exec(event)?.[1] ?? client.lastEventId;
          if (event.includes('event: ready')) resolve();
          const [, t] = /event: tick\ndata: \{"symbol":"[^"]*","t":(\d+)/.exec(event) ?? [];
          if (t === undefined) continue;
          client.ticks++;
          latencies.push(now - journaledAt.get(Number(t))!);
        }
      });
      response.on('error', () => {});
    });
    request.on('error', reject);
  });
}

/** Milliseconds until all clients are connected. */
async function connectAll(): Promise<number> {
  const startedAt = performance.now();
  await Promise.all(clients.map(connect));
  return performance.now() - startedAt;
}

const quantile = (sorted: Float64Array, share: number): string =>
  `${sorted[Math.floor((sorted.length - 1) * share)]!.toFixed(0)} ms`;
function printLatencies(name: string): void {
  const sorted = Float64Array.from(latencies).sort();
  console.log(
    `${name}: ${latencies.length} events, p50 ${quantile(sorted, 0.5)}, p99 ${quantile(sorted, 0.99)}, at most ${quantile(sorted, 1)}`,
  );
  latencies.length = 0;
}

/** Events that every client must have received in the end. */
let rounds = 0;
async function feed(forMs: number): Promise<void> {
  const endsAt = performance.now() + forMs;
  for (; performance.now() < endsAt; await sleep(everyMs)) {
    journal(Date.now());
    rounds++;
  }
}
async function waitForAll(): Promise<void> {
  for (let waited = 0; clients.some(({ ticks }) => ticks < rounds); waited += 50) {
    if (waited > 60_000) throw new Error('some clients did not receive all ticks');
    await sleep(50);
  }
}

const before = service.residentMiB();
console.log(`${streams} streams of ${symbolCount} symbols, connected in ${(await connectAll()).toFixed(0)} ms`);
const [connected, cpuBefore] = [service.residentMiB(), service.cpuMs()];
await feed(seconds * 1000);
await waitForAll();
const cpu = (service.cpuMs() - cpuBefore) / (seconds * 10);
printLatencies(`${((symbolCount * 1000) / everyMs).toFixed(0)} ticks/s`);
console.log(
  `memory: ${before.toFixed(0)} MiB idle, ${connected.toFixed(0)} MiB connected, ${service.residentMiB().toFixed(0)} MiB at the end; CPU ${cpu.toFixed(0)} % of a core`,
);

const killedAt = performance.now();
await service.kill();
const fed = feed(2000);
service = await startService(root, [], process.env, settings);
url = service.url;
const resumeMs = await connectAll();
await fed;
await waitForAll();
console.log(
  `killed with SIGKILL: all streams resumed after ${(performance.now() - killedAt).toFixed(0)} ms (${resumeMs.toFixed(0)} ms to connect)`,
);
await sleep(500);
const wrong = clients.filter(({ ticks }) => ticks !== rounds).length;
console.log(`${wrong} of ${streams} clients lost or repeated a tick`);
await service.stop();
archive.close();
process.exit(wrong === 0 ? 0 : 1);
