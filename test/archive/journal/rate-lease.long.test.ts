import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../src/base/system.ts';
import { createSeededRandom } from '../../client/seeded.ts';
import { countMaxWithin } from '../../client/sliding.ts';
import { waitFor } from '../../harness/limits.ts';
import { printSeed } from '../../harness/properties.ts';
import { scratchFolder } from '../scratch.ts';

const seed = printSeed('rate lease');

const rate = 20;
/** Margin of the rate limiter: a request delayed by more than 250 ms is not covered. */
const lateMsMax = 100;

const module = (path: string): string => JSON.stringify(new URL(`../../../src/${path}`, import.meta.url).href);

interface User {
  readonly child: ChildProcess;
  /** When it sent its requests, and how many transactions of the shared rate it had made by then. */
  readonly starts: { readonly atMs: number; readonly transactions: number }[];
  /** Makes it send requests, as many as the rate allows. */
  begin(): void;
}

/** A process that shares the rate of the folder, and waits for `begin`. */
async function openUser(archive: string, url: string): Promise<User> {
  const program = `
    const { openState } = await import(${module('archive/journal/state.ts')});
    const { openSharedRateStore } = await import(${module('archive/journal/rate-limit-store.ts')});
    const { openUpstream } = await import(${module('client/client.ts')});
    const { openTransport } = await import(${module('client/transport.ts')});
    const { systemClock: clock, systemRandom: random } = await import(${module('base/system.ts')});
    const { writeSync } = await import('node:fs');
    const folder = ${JSON.stringify(archive)};
    const state = openState(folder, { upstream: 'https://box.test' });
    const store = openSharedRateStore(state, folder);
    let transactions = 0;
    const rateStore = { ...store, runExclusive: (work) => (transactions++, store.runExclusive(work)) };
    const upstream = openUpstream(
      { baseUrl: ${JSON.stringify(url)}, apiKey: 'key', userAgent: 'test', requestsPerSecond: ${rate}, concurrency: 4 },
      { clock, random, rateStore, openTransport(...args) {
        const wire = openTransport(...args);
        return { ...wire, get(...request) {
          writeSync(1, clock.monotonicMs() + ' ' + transactions + '\\n');
          return wire.get(...request);
        } };
      } });
    writeSync(1, 'ready\\n');
    await new Promise((resolve) => process.stdin.once('data', resolve));
    await Promise.all([1, 2, 3, 4].map(async () => { for (;;) await upstream.markets({}); }));`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  child.stdin.on('error', () => {});
  await waitFor(() => text.startsWith('ready\n'), 'a process that shares the rate');
  return {
    child,
    get starts() {
      const lines = text.split('\n').slice(1, -1);
      return lines.map((line) => {
        const [atMs, transactions] = line.split(' ').map(Number);
        return { atMs: atMs!, transactions: transactions! };
      });
    },
    begin: () => void child.stdin.write('begin\n'),
  };
}

async function kill({ child }: User): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'close');
}

/** One process alone takes leases. It is killed or suspended in one of them, and two others come at about the same time. */
async function runRound(url: string, fault: 'SIGKILL' | 'SIGSTOP', random: () => number) {
  const archive = scratchFolder();
  const [alone, ...others] = await Promise.all([1, 2, 3].map(() => openUser(archive, url)));
  const users = [alone!, ...others];
  const beganMs = systemClock.monotonicMs();
  alone!.begin();
  await waitFor(() => alone!.starts.length > 2 * rate, 'requests of one process alone');
  await sleep(1000 * random());
  const faulted = sleep(600 * random()).then(async () => {
    alone!.child.kill(fault);
    if (fault === 'SIGSTOP') {
      await sleep(2500 * random());
      alone!.child.kill('SIGCONT');
    }
  });
  await Promise.all(others.map((user) => sleep(900 * random()).then(() => user.begin())));
  await waitFor(() => others.every(({ starts }) => starts.length > 0), 'requests of the others');
  await faulted;
  await sleep(2500);
  await Promise.all(users.map(kill));
  const starts = users.flatMap((user) => user.starts.map(({ atMs }) => atMs));
  return { starts, alone: alone!.starts, seconds: (systemClock.monotonicMs() - beganMs) / 1000 };
}

test.each([1, 2])(
  'processes that are killed or suspended within a lease never exceed the rate at the service: %i',
  async (round) => {
    const arrivals: number[] = [];
    const server = createServer((_, response) => {
      arrivals.push(systemClock.monotonicMs());
      response.setHeader('content-type', 'application/json').end('{"markets":[]}');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const lateness = monitorEventLoopDelay({ resolution: 10 });
    lateness.enable();
    const fault = round % 2 === 0 ? 'SIGSTOP' : 'SIGKILL';
    const { starts, alone, seconds } = await runRound(url, fault, createSeededRandom(seed * 100_003 + round));
    lateness.disable();
    const lateMs = Math.round(lateness.max / 1e6);
    const [started, arrived] = [starts, arrivals].map((times) => countMaxWithin(times, 1000));
    console.log(
      `rate lease: ${fault}, ${starts.length} starts, at most ${started} in a second, ${arrived} at the service`,
    );
    expect(starts.length).toBeLessThanOrEqual(rate * (Math.ceil(seconds) + 1));
    // The second second of the process that was alone: it takes leases, and uses the rate.
    const [first, last] = [alone[rate + 2], alone[2 * rate]];
    expect(last!.transactions - first!.transactions).toBeLessThan(rate / 2);
    if (lateMs > lateMsMax) return console.log(`seconds not checked: the machine was ${lateMs} ms late`);
    expect(started).toBeLessThanOrEqual(rate);
    expect(arrived).toBeLessThanOrEqual(rate);
  },
);
