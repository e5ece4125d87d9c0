/**
 * Measures the peak memory of a nightly run as it fetches more ticks of the same number of symbols from a sandbox in a
 * separate process. Run: node bench/memory.ts
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const main = new URL('../bin/main.ts', import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), 'oddslake-memory-'));
/** The flags that the launcher sets. */
const flags = ['--max-semi-space-size=4'];
const peak = 'process.on("exit", () => console.error("peak", process.resourceUsage().maxRSS))';

for (const ticksPerDay of [2000, 8000, 32_000]) {
  const sandboxArgs = [
    '--market-count',
    '100',
    '--ticks-per-day',
    String(ticksPerDay),
    '--now',
    '2026-11-20T20:00:00Z',
  ];
  const sandbox = spawn(process.execPath, [main, 'sandbox', '--json', '--quiet', ...sandboxArgs], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(createInterface({ input: sandbox.stdout }), 'line')) as [string];
  const { url, key } = JSON.parse(line) as { url: string; key: string };
  const set = ['upstream.requests_per_second=100000', 'publish.journal_ticks_max=1000000', 'archive.parts=16'];
  const args = ['nightly', '--date', '2026-11-19', '--output', join(folder, String(ticksPerDay)), '--json', '--quiet'];
  const startedAt = performance.now();
  const nightly = spawn(
    process.execPath,
    [
      ...flags,
      '--import',
      `data:text/javascript,${encodeURIComponent(peak)}`,
      main,
      ...args,
      ...set.flatMap((one) => ['--set', one]),
    ],
    { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ODDSLAKE_BASE_URL: url, ODDSLAKE_API_KEY: key } },
  );
  let out = '';
  let err = '';
  nightly.stdout.on('data', (chunk) => (out += chunk));
  nightly.stderr.on('data', (chunk) => (err += chunk));
  await once(nightly, 'close');
  sandbox.kill('SIGTERM');
  const { ticks } = JSON.parse(out.trim().split('\n').at(-1)!) as { ticks: { accepted: number } };
  const megabytes = Number(/peak (\d+)/.exec(err)?.[1]) / 1024;
  const seconds = (performance.now() - startedAt) / 1000;
  console.log(
    `${ticks.accepted.toLocaleString('en-US')} ticks: peak ${megabytes.toFixed(0)} MiB, ${seconds.toFixed(0)} s`,
  );
}
rmSync(folder, { recursive: true, force: true });
