/**
 * Holds the service at a share of its capacity for a long time, while the archive is collected into, and while the
 * service is killed, its disk filled, its database stopped and its upstream gone. Prints a line per interval, and whether
 * memory and latency stayed flat. Exits with 1 after a wrong response, or an error that no fault explains.
 *
 * The capacity is measured in the state in which the service is then loaded: with the collecting jobs of the run beside it,
 * on the same processors. Each of them publishes, after which the pages have to be read again. The capacity is the lower of
 * the rate without a job and the mean over whole intervals with their jobs: what the service keeps up for a long time. While
 * a job runs it may be less than what is then sent; the rate of that time is printed too.
 *
 * RSS is not what is in use: V8 keeps the memory of its largest heap, which is that of the longest backlog so far. The column
 * `used` is the least JS heap and external memory of an interval, as `/metrics` states them.
 *
 * `CPU µs` is the processor time of the service for each request of an interval, with all its threads. If it rises, the
 * responses cost more; if only the latency rises, they wait longer. `job s` is how long the interval's job took.
 *
 * Requests are sent when they are due, whether earlier ones have been answered or not, and latency counts from that time: a
 * service that pauses does not pause the measurement.
 *
 * A machine that others share changes its speed for seconds or minutes. So a fixed computation is timed every quarter of a
 * minute, alone: no request is sent until it ends (`control ms`, 1 % of the time). While it takes longer than when the capacity
 * was measured, the machine can do less, and the rate is lower by the same factor; it is never higher. `rate` is its mean in
 * the interval. `p99/ctl` and `CPU/ctl` are relative to the control: if they are flat, the service is.
 *
 * Run: test/postgres.sh node bench/sustained-load.ts [MINUTES] [SEED] [SHARE] [CAPACITY_INTERVALS] [none]   (60, 1, 0.8, 3)
 * `none` leaves the faults out. Without test/postgres.sh the database is SQLite and is not stopped; without the right to
 * mount, the disk is not filled.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { startSandbox } from './sandbox.ts';

const minutes = Number(process.argv[2] ?? 60);
const seed = Number(process.argv[3] ?? 1);
const share = Number(process.argv[4] ?? 0.8);
const connections = 16;
const warmUpMs = 15_000;
/** Each interval is one line of the table, and has one collecting job. */
const intervals = 30;
const intervalMs = (minutes * 60_000) / intervals;
/** Intervals over which the capacity is measured. */
const capacityIntervals = Number(process.argv[5] ?? 3);
const hasFaults = process.argv[6] !== 'none';
/** Requests that may wait for a response, as the requests of this time; beyond it the service is overloaded: the run fails. */
const openSecondsMax = 10;
const main = new URL('../bin/main.ts', import.meta.url).pathname;
const launcher = new URL('../bin/oddslake', import.meta.url).pathname;
const postgres = process.env.ODDSLAKE_TEST_POSTGRES;

/** Mulberry32: the requests of a seed are the same in every run. */
function createRandom(state: number): () => number {
  let at = state;
  return () => {
    at = (at + 0x6d2b79f5) | 0;
    let mixed = Math.imul(at ^ (at >>> 15), 1 | at);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const random = createRandom(seed);
const folder = mkdtempSync(join(tmpdir(), 'oddslake-load-'));
const cleanUps: (() => void)[] = [() => rmSync(folder, { recursive: true, force: true })];
process.on('exit', () => {
  for (const cleanUp of cleanUps.reverse()) cleanUp();
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1));

/** A small file system of its own, so that it can be filled; false if it cannot be mounted. */
function mountSmallDisk(): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1g', 'oddslake-load', folder], { stdio: 'pipe' });
  } catch {
    return false;
  }
  cleanUps.push(() => void execFileSync('umount', ['-l', folder], { stdio: 'pipe' }));
  return true;
}

const isMounted = mountSmallDisk();
const root = join(folder, 'archive');

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  return port;
}

const [servicePort, upstreamPort] = [await findFreePort(), await findFreePort()];
const startUpstream = () => startSandbox({ port: upstreamPort, seed, markets: 100 });
let upstream = await startUpstream();

/** Memory for caches, in bytes: a quarter of the default, so that they are full within the first third, and a leak shows. */
const cacheBytesMax = 64 * 1024 ** 2;
const settings = [
  'upstream.requests_per_second=1000',
  `service.port=${servicePort}`,
  `service.cache_bytes_max=${cacheBytesMax}`,
];
if (postgres !== undefined) settings.push(`service.database_url=${postgres}`);
const common = ['--output', root, '--json', '--quiet', ...settings.flatMap((one) => ['--set', one])];
const environment = { ...process.env, ODDSLAKE_BASE_URL: upstream.url, ODDSLAKE_API_KEY: upstream.key };

/** Runs a command to its end. */
async function runCommand(...args: string[]): Promise<{ code: number | null; stdout: string }> {
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main, ...args, ...common], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: environment,
  });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stdout };
}

const firstNight = await runCommand('nightly');
if (firstNight.code !== 0) throw new Error(`the first nightly exited with ${firstNight.code}: ${firstNight.stdout}`);
const created = await runCommand('keys', 'create', '--name', 'load', '--requests-per-minute', '10000000');
const { key } = JSON.parse(created.stdout.trimEnd().split('\n').at(-1)!) as { key: string };

let service: ChildProcess;
async function startService(): Promise<void> {
  // Through the launcher, which replaces itself with Node: the options of Node are those of users.
  service = spawn(launcher, ['serve', ...common], { stdio: ['ignore', 'pipe', 'ignore'], env: environment });
  await once(createInterface({ input: service.stdout! }), 'line');
}
await startService();
cleanUps.push(() => service.kill('SIGKILL'));

const residentMiB = (): number => {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${service.pid}/status`, 'utf8'))?.[1]) / 1024;
  } catch {
    return Number.NaN;
  }
};

/** Processor time of the service since it was started, of all its threads, in ms. */
const serviceCpuMs = (): number => {
  try {
    const fields = readFileSync(`/proc/${service.pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
    // utime and stime, fields 14 and 15 of proc(5), in ticks of 10 ms.
    return (Number(fields[11]) + Number(fields[12])) * 10;
  } catch {
    return Number.NaN;
  }
};

/** The least JS heap and external memory since the last call, in MiB: what remains after a collection, unlike RSS. */
let usedMiBMin = Number.POSITIVE_INFINITY;
function takeUsedMiB(): number {
  const least = usedMiBMin;
  usedMiBMin = Number.POSITIVE_INFINITY;
  return Number.isFinite(least) ? least : Number.NaN;
}
/** A fixed amount of work like the service's, mostly JSON and hashes; its duration in ms. */
const controlText = JSON.stringify(
  Array.from({ length: 5000 }, (_, i) => ({
    t: 1_700_000_000_000 + i * 250,
    p: (i % 100) / 100,
    symbol: `KX-${i % 97}`,
  })),
);
function runControl(): number {
  const startedAt = performance.now();
  for (let i = 0; i < 30; i++) {
    const ticks = JSON.parse(controlText) as { t: number; p: number; symbol: string }[];
    ticks.sort((a, b) => (a.symbol < b.symbol ? -1 : a.symbol > b.symbol ? 1 : b.t - a.t));
    createHash('sha256').update(JSON.stringify(ticks)).digest();
  }
  return performance.now() - startedAt;
}
// Compiled before it counts.
for (let i = 0; i < 5; i++) runControl();

async function sampleUsed(): Promise<void> {
  try {
    const text = await (await fetch(`http://127.0.0.1:${servicePort}/metrics`)).text();
    const readMetric = (name: string): number => Number(new RegExp(`^${name} (\\d+)`, 'm').exec(text)?.[1]);
    const bytes = readMetric('nodejs_heap_size_used_bytes') + readMetric('nodejs_external_memory_bytes');
    if (bytes > 0) usedMiBMin = Math.min(usedMiBMin, bytes / 1024 ** 2);
  } catch {
    // It is down.
  }
}

const url = `http://127.0.0.1:${servicePort}`;
let pool = new Pool(url, { connections: 256, pipelining: 1 });
const headers = { authorization: `Bearer ${key}` };

interface Kind {
  readonly name: string;
  readonly weight: number;
  path(): string;
  /** Null if the body is right, otherwise what is wrong. */
  check(body: never): string | null;
}

const listed = await fetch(`${url}/api/v1/historical/markets?limit=1000`, { headers });
const { markets } = (await listed.json()) as { markets: { symbol: string | null }[] };
const symbols = [...new Set(markets.flatMap(({ symbol }) => (symbol === null ? [] : [symbol])))];
const drawSymbol = (): string => encodeURIComponent(symbols[Math.floor(random() * symbols.length)]!);

const checkTicks = ({ ticks, count }: { ticks: { t: number }[]; count: number }): string | null => {
  if (ticks.length !== count) return `count ${count} of ${ticks.length} ticks`;
  return ticks.every(({ t }, i) => i === 0 || t > ticks[i - 1]!.t) ? null : 'ticks not in order, or one twice';
};
const checkCount =
  (list: string) =>
  (body: Record<string, unknown>): string | null =>
    (body[list] as unknown[] | undefined)?.length === body.count ? null : `${list} and count differ`;

const kinds: readonly Kind[] = [
  { name: 'ticks', weight: 70, path: () => `/api/v1/ticks?symbol=${drawSymbol()}&limit=500`, check: checkTicks },
  {
    name: 'historical ticks',
    weight: 10,
    path: () => `/api/v1/historical/ticks?symbol=${drawSymbol()}&limit=500`,
    check: checkTicks,
  },
  {
    name: 'candles',
    weight: 8,
    path: () => `/api/v1/historical/candles?symbol=${drawSymbol()}&interval=4h`,
    check: checkCount('candles'),
  },
  {
    name: 'historical markets',
    weight: 5,
    path: () => '/api/v1/historical/markets?limit=100',
    check: checkCount('markets'),
  },
  { name: 'markets', weight: 5, path: () => '/api/v1/markets?view=matched&limit=100', check: checkCount('markets') },
  {
    name: 'coverage',
    weight: 2,
    path: () => `/api/v1/historical/coverage?symbol=${drawSymbol()}`,
    check: checkCount('coverage'),
  },
];
const weightTotal = kinds.reduce((sum, { weight }) => sum + weight, 0);

function drawKind(): Kind {
  const at = random() * weightTotal;
  let passed = 0;
  for (const kind of kinds) {
    passed += kind.weight;
    if (at < passed) return kind;
  }
  return kinds[0]!;
}

/** What is wrong with the response; null if nothing. */
async function sendRequest(kind: Kind): Promise<string | null> {
  const path = kind.path();
  try {
    const { statusCode, body } = await pool.request({ path, method: 'GET', headers });
    const text = await body.text();
    if (statusCode !== 200) return `${kind.name}: HTTP status ${statusCode} ${text.slice(0, 200)}`;
    const wrong = kind.check(JSON.parse(text) as never);
    return wrong === null ? null : `${kind.name}: ${wrong} (${path})`;
  } catch (error) {
    const { code, name } = error as NodeJS.ErrnoException;
    return `connection: ${code ?? name}`;
  }
}

/** Keeps all connections busy until `work` ends, which is given the number of requests answered so far. */
async function saturate(work: (countDone: () => number) => Promise<void>): Promise<void> {
  let done = 0;
  let isOver = false;
  const worked = work(() => done).finally(() => {
    isOver = true;
  });
  const clients = Array.from({ length: connections }, async () => {
    while (!isOver) {
      const wrong = await sendRequest(drawKind());
      if (wrong !== null) throw new Error(wrong);
      done++;
    }
  });
  await Promise.all([worked, ...clients]);
}

/** Answered requests, and the time in which they were, in ms. */
interface Throughput {
  requests: number;
  ms: number;
}
const toRate = ({ requests, ms }: Throughput): number => requests / (ms / 1000);

/** Runs `work` and adds what was answered meanwhile. */
async function addThroughput(total: Throughput, countDone: () => number, work: () => Promise<unknown>): Promise<void> {
  const [before, startedAt] = [countDone(), performance.now()];
  await work();
  total.requests += countDone() - before;
  total.ms += performance.now() - startedAt;
}

/**
 * Requests per second with all connections busy: without a job, over whole intervals with their jobs, and in the jobs; and the
 * control between them, in ms.
 */
async function measureCapacity(): Promise<{
  alone: number;
  intervals: number;
  collecting: number;
  controls: readonly number[];
}> {
  const create = (): Throughput => ({ requests: 0, ms: 0 });
  const [alone, whole, collecting] = [create(), create(), create()];
  const controls: number[] = [];
  await saturate(async (countDone) => {
    await sleep(warmUpMs);
    await addThroughput(alone, countDone, () => sleep(warmUpMs));
  });
  for (let i = 0; i < capacityIntervals; i++) {
    controls.push(runControl());
    await saturate((countDone) =>
      addThroughput(whole, countDone, async () => {
        const endsAt = performance.now() + intervalMs;
        await sleep(intervalMs / 2);
        await addThroughput(collecting, countDone, async () => {
          const { code } = await runCommand('ticks');
          if (code !== 0) throw new Error(`ticks exited with ${code}`);
        });
        await sleep(Math.max(0, endsAt - performance.now()));
      }),
    );
    controls.push(runControl());
  }
  return { alone: toRate(alone), intervals: toRate(whole), collecting: toRate(collecting), controls };
}

const quantile = (sorted: readonly number[], q: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
const median = (values: readonly number[]): number =>
  quantile(
    values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b),
    0.5,
  );

const measured = await measureCapacity();
const capacity = Math.min(measured.alone, measured.intervals);
const rateAtStart = capacity * share;
const controlAtStart = median(measured.controls);
console.log(`seed ${seed}, ${symbols.length} symbols, ${postgres === undefined ? 'SQLite' : 'PostgreSQL'}`);
console.log(
  `requests/s with ${connections} connections busy: ${measured.alone.toFixed(0)} without a collecting job, ${measured.intervals.toFixed(0)} over ${capacityIntervals} intervals with their jobs, ${measured.collecting.toFixed(0)} while a job runs`,
);
console.log(
  `control: ${measured.controls.map((ms) => ms.toFixed(0)).join(', ')} ms; median ${controlAtStart.toFixed(0)}`,
);
console.log(
  `capacity: ${capacity.toFixed(0)} requests/s; held at ${share * 100} %, ${rateAtStart.toFixed(0)} at this speed of the machine, for ${minutes} minutes\n`,
);

interface Interval {
  sent: number;
  /** Requests sent and not answered. */
  open: number;
  latencies: number[];
  /** Errors that no fault explains, by text. */
  readonly errors: Map<string, number>;
  /** Requests that failed while the service was killed. */
  refused: number;
  readonly events: string[];
  /** Durations of the control, in ms. */
  readonly controls: number[];
  /** Duration of the collecting job. */
  jobMs: number;
  readonly cpuMsAtStart: number;
}
const createInterval = (): Interval => ({
  ...{ sent: 0, open: 0, latencies: [], errors: new Map(), refused: 0, events: [], controls: [], jobMs: Number.NaN },
  cpuMsAtStart: serviceCpuMs(),
});
let interval = createInterval();
let isDown = false;
let isJobRunning = false;
const note = (text: string): void => void interval.events.push(text);

async function killService(): Promise<void> {
  isDown = true;
  const startedAt = performance.now();
  service.kill('SIGKILL');
  await once(service, 'close');
  await startService();
  const old = pool;
  pool = new Pool(url, { connections: 256, pipelining: 1 });
  void old.destroy();
  // Requests sent before the restart may still fail.
  await sleep(500);
  isDown = false;
  note(`killed, back after ${(performance.now() - startedAt).toFixed(0)} ms`);
}

async function fillDisk(): Promise<void> {
  if (!isMounted) return note('disk not filled: cannot mount');
  const ballast = join(folder, 'ballast');
  const file = openSync(ballast, 'w');
  for (const size of [1 << 20, 4096, 1])
    try {
      for (;;) writeSync(file, Buffer.alloc(size));
    } catch {}
  closeSync(file);
  const { code } = await runCommand('ticks');
  await sleep(10_000);
  rmSync(ballast);
  const { code: after } = await runCommand('ticks');
  note(`disk full: ticks exit ${code}, afterwards ${after}`);
  if (code === 0 || after !== 0) interval.errors.set(`ticks exit ${code} on a full disk, ${after} after it`, 1);
}

async function stopDatabase(): Promise<void> {
  if (postgres === undefined) return note('database not stopped: SQLite');
  // The server of test/postgres.sh is the only one on that port.
  const port = new URL(postgres).port;
  const listed = execFileSync('ps', ['-eo', 'pid,args'], { encoding: 'utf8' });
  const line = listed.split('\n').find((one) => one.includes(`port=${port}`) && one.includes('postgres -D'))!;
  const pid = Number(line.trim().split(' ')[0]);
  const [command, ...args] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const idOf = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)![1]);
  const data = args[args.indexOf('-D') + 1]!;
  process.kill(pid, 'SIGINT');
  await sleep(20_000);
  spawn(command!, args, { uid: idOf('Uid'), gid: idOf('Gid'), cwd: data, stdio: 'ignore', detached: true }).unref();
  await sleep(2000);
  const { code } = await runCommand('keys', 'list');
  note('database stopped for 20 s');
  if (code !== 0) interval.errors.set(`keys list exit ${code} after the database is back`, 1);
}

async function loseUpstream(): Promise<void> {
  await upstream.stop();
  const { code } = await runCommand('ticks', '--wait', '5');
  await sleep(10_000);
  upstream = await startUpstream();
  const { code: after } = await runCommand('ticks');
  note(`upstream gone: ticks exit ${code}, afterwards ${after}`);
  if (code !== 7 || after !== 0) interval.errors.set(`ticks exit ${code} without upstream, ${after} after it`, 1);
}

const faults: readonly { readonly at: number; start(): Promise<void> }[] = [
  { at: 0.3, start: killService },
  { at: 0.45, start: fillDisk },
  { at: 0.6, start: stopDatabase },
  { at: 0.75, start: loseUpstream },
];

const beganAt = performance.now();
const durationMs = minutes * 60_000;
/** Requests due per second now. */
let rate = rateAtStart;
let sent = 0;
let open = 0;
let isOverloaded = false;

function send(dueAt: number): void {
  open++;
  if (open > rate * openSecondsMax) isOverloaded = true;
  const wasDown = isDown;
  const into = interval;
  into.sent++;
  into.open++;
  void sendRequest(drawKind()).then((wrong) => {
    open--;
    into.open--;
    if (wrong === null) into.latencies.push(performance.now() - dueAt);
    else if ((wasDown || isDown) && wrong.startsWith('connection')) into.refused++;
    else into.errors.set(wrong, (into.errors.get(wrong) ?? 0) + 1);
  });
}

/** The last controls. The slower one counts: a rate that is too low for a moment does no harm. */
const recentControls: number[] = [];
/** Times the control once every request has been answered; its duration in ms, or null if a job runs. */
async function timeControl(): Promise<number | null> {
  for (let waited = 0; open > 0; waited += 5) {
    if (waited >= openSecondsMax * 1000 || isJobRunning) return null;
    await sleep(5);
  }
  const ms = runControl();
  interval.controls.push(ms);
  recentControls.push(ms);
  if (recentControls.length > 2) recentControls.shift();
  rate = rateAtStart * Math.min(1, controlAtStart / Math.max(...recentControls));
  return ms;
}

const controlEveryMs = 15_000;
async function sendAll(): Promise<void> {
  let nextControlAt = beganAt + controlEveryMs / 2;
  let nextDueAt = beganAt;
  for (;;) {
    const now = performance.now();
    if (now - beganAt >= durationMs || isOverloaded) return;
    if (now >= nextControlAt && !isJobRunning) {
      const ms = await timeControl();
      nextControlAt = performance.now() + (ms === null ? 1000 : controlEveryMs);
      // Nothing is due while it runs. What was due while responses were awaited is sent now, late: no rest for the service.
      nextDueAt += ms ?? 0;
    }
    for (const until = performance.now(); nextDueAt <= until; nextDueAt += 1000 / rate, sent++) send(nextDueAt);
    await sleep(2);
  }
}

/** Collects beside the load, a poll of all symbols in each interval. */
async function collect(): Promise<void> {
  for (let i = 0; i < intervals; i++) {
    await sleep(Math.max(0, beganAt + (i + 0.5) * intervalMs - performance.now()));
    if (isOverloaded) return;
    const fault = !hasFaults ? undefined : faults.find(({ at }) => Math.floor(at * intervals) === i);
    isJobRunning = true;
    if (fault !== undefined) await fault.start();
    else {
      const startedAt = performance.now();
      const { code } = await runCommand('ticks');
      interval.jobMs = performance.now() - startedAt;
      if (code !== 0) interval.errors.set(`ticks exited with ${code}`, 1);
    }
    isJobRunning = false;
  }
}

interface Row {
  readonly p50: number;
  readonly p99: number;
  readonly residentMiB: number;
  readonly usedMiB: number;
  readonly cpuMicros: number;
  readonly controlMs: number;
  /** p99 and the processor time of a request, divided by the control. */
  readonly p99Relative: number;
  readonly cpuRelative: number;
  readonly jobSeconds: number;
  readonly errors: number;
  readonly isFaulty: boolean;
}
const rows: Row[] = [];

async function report(): Promise<void> {
  console.log(
    'minute  requests  errors  refused   p50 ms   p99 ms     rate  RSS MiB  used MiB  CPU µs  job s  control ms  p99/ctl  CPU/ctl  events',
  );
  for (let i = 1; i <= intervals; i++) {
    await sleep(Math.max(0, beganAt + i * intervalMs - performance.now()));
    const ended = interval;
    const cpuMs = serviceCpuMs() - ended.cpuMsAtStart;
    interval = createInterval();
    // Its last requests count too, which wait for longest if it is overloaded.
    for (let waited = 0; ended.open > 0 && waited < openSecondsMax * 1000; waited += 50) await sleep(50);
    const sorted = ended.latencies.sort((a, b) => a - b);
    const errors = [...ended.errors.values()].reduce((sum, n) => sum + n, 0);
    const p99 = quantile(sorted, 0.99);
    // Its processor time is that of a new process if the service was killed.
    const cpuMicros = cpuMs > 0 ? (cpuMs * 1000) / sorted.length : Number.NaN;
    const controlMs = median(ended.controls);
    const row = {
      p50: quantile(sorted, 0.5),
      p99,
      residentMiB: residentMiB(),
      usedMiB: takeUsedMiB(),
      cpuMicros,
      controlMs,
      p99Relative: p99 / controlMs,
      cpuRelative: cpuMicros / controlMs,
      jobSeconds: ended.jobMs / 1000,
      errors,
      isFaulty: ended.events.length > 0,
    };
    rows.push(row);
    const cells = [
      ((i / intervals) * minutes).toFixed(1).padStart(6),
      String(sorted.length).padStart(9),
      String(errors).padStart(7),
      String(ended.refused).padStart(8),
      row.p50.toFixed(1).padStart(8),
      row.p99.toFixed(1).padStart(8),
      (ended.sent / (intervalMs / 1000)).toFixed(0).padStart(7),
      row.residentMiB.toFixed(0).padStart(9),
      row.usedMiB.toFixed(0).padStart(9),
      row.cpuMicros.toFixed(0).padStart(7),
      row.jobSeconds.toFixed(1).padStart(6),
      row.controlMs.toFixed(0).padStart(11),
      row.p99Relative.toFixed(2).padStart(8),
      row.cpuRelative.toFixed(2).padStart(8),
    ];
    console.log(`${cells.join(' ')}  ${ended.events.join('; ')}`);
    for (const [text, count] of [...ended.errors].slice(0, 5)) console.log(`        ${count} × ${text}`);
    ended.latencies = [];
    if (isOverloaded) return;
  }
}

const sampling = setInterval(() => void sampleUsed(), 2000);
await Promise.all([sendAll(), collect(), report()]);
clearInterval(sampling);

/** Medians of the intervals without a fault: before the service was killed, and at the end. */
const quiet = rows.filter(({ isFaulty }) => !isFaulty);
const third = Math.max(1, Math.floor(quiet.length / 3));
const [first, last] = [quiet.slice(0, third), quiet.slice(-third)];
const errors = rows.reduce((sum, row) => sum + row.errors, 0);
console.log(
  `\n${sent.toLocaleString('en-US')} requests, ${errors} errors${isOverloaded ? '; overloaded, ended early' : ''}`,
);
for (const [name, of] of [
  ['p50 ms', 'p50'],
  ['p99 ms', 'p99'],
  ['RSS MiB', 'residentMiB'],
  ['used MiB', 'usedMiB'],
  ['CPU µs', 'cpuMicros'],
  ['job s', 'jobSeconds'],
  ['control ms', 'controlMs'],
  ['p99 / control', 'p99Relative'],
  ['CPU µs / control ms', 'cpuRelative'],
] as const)
  console.log(
    `${name}: ${median(first.map((row) => row[of])).toFixed(2)} in the first third, ${median(last.map((row) => row[of])).toFixed(2)} in the last`,
  );
await upstream.stop();
await pool.destroy();
process.exit(errors > 0 || isOverloaded ? 1 : 0);
