/**
 * How much of the allowed rate is used, and how much of what is asked is refused: the client with an archive's pace
 * against the sandbox in a process of its own, first where the rate is known, then where far more is configured. One
 * minute each, after one to find the rate where it is unknown.
 * Run: node bench/rate.ts [SECONDS]
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SandboxStats } from '../src/sandbox/stats.ts';
import { openSharedPace } from '../src/state/pace.ts';
import { openState } from '../src/state/state.ts';
import { systemClock, systemRandom } from '../src/system.ts';
import { openUpstream } from '../src/upstream/client.ts';

const seconds = Number(process.argv[2] ?? 60);

async function startSandbox(flags: readonly string[]): Promise<{ child: ChildProcess; url: string }> {
  const main = new URL('../bin/main.ts', import.meta.url).pathname;
  const child = spawn(process.execPath, [main, 'sandbox', '--json', '--market-count', '2', ...flags], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(child.stdout!, 'data')) as [Buffer];
  return { child, url: (JSON.parse(line.toString()) as { url: string }).url };
}

async function look(url: string): Promise<{ passed: number; refused: number; most: number; atMs: number }> {
  const stats = (await (await fetch(`${url}/sandbox/stats`)).json()) as SandboxStats;
  const { 200: passed = 0, 429: refused = 0 } = stats.byPath['/api/v1/markets'] ?? {};
  return { passed, refused, most: stats.perSecondMost, atMs: performance.now() };
}

async function measure(name: string, allowed: number, configured: number, findSeconds: number, flags: string[] = []) {
  const { child, url } = await startSandbox(['--rate', String(allowed), '--retry-after', 'none', ...flags]);
  const folder = mkdtempSync(join(tmpdir(), 'oddslake-bench-rate-'));
  const state = openState(folder, { upstream: url, parts: 1 });
  const pace = openSharedPace(state, folder);
  const options = { baseUrl: url, apiKey: 'sandbox-key', userAgent: 'oddslake/bench', requestsPerSecond: configured };
  const upstream = openUpstream(
    { ...options, concurrency: 8, retryAttemptsMax: 100, retryBudget: 10_000, retryDelayMsMin: 250 },
    { clock: systemClock, random: systemRandom, pace },
  );
  let isOver = false;
  const askers = Array.from({ length: 8 }, async () => {
    while (!isOver) await upstream.markets({ limit: 1 });
  });
  await systemClock.sleep(1000 + findSeconds * 1000);
  const before = await look(url);
  await systemClock.sleep(seconds * 1000);
  const after = await look(url);
  isOver = true;
  await Promise.all(askers);
  await upstream.close();
  pace.close();
  state.close();
  rmSync(folder, { recursive: true });
  child.kill('SIGTERM');
  const [passed, refused] = [after.passed - before.passed, after.refused - before.refused];
  const used = passed / ((after.atMs - before.atMs) / 1000) / allowed;
  const share = (100 * refused) / (passed + refused);
  const first = before.refused === 0 ? '' : `, ${before.refused} refused before`;
  console.log(
    `${name}: ${used.toFixed(3)} used, ${share.toFixed(2)} % refused, most in a second ${after.most}${first}`,
  );
}

await measure('known, 20 a second', 20, 20, 0);
await measure('known, 200 a second', 200, 200, 0);
await measure('unknown, 20 of 100, sliding', 20, 100, seconds);
await measure('unknown, 20 of 100, fixed', 20, 100, seconds, ['--limiter', 'fixed']);
await measure('unknown, 20 of 100, bucket', 20, 100, seconds, ['--limiter', 'bucket']);
await measure('told by headers, 20 of 100', 20, 100, 0, ['--rate-headers', 'draft']);
