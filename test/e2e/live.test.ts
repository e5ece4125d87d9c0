import { expect, test } from 'vitest';
import { access, expectDone, findWrongWindows, folder, sandbox, set, startLongRunning } from './lake.ts';
import { runJob as job, run } from './run-program.ts';
import { keyOf } from './served-archive.ts';

// Live reads in processes of their own, with the system clock: what is journaled survives a kill, beside the jobs.

const live = set(
  'source.name=box',
  'service.port=0',
  'service.live.enabled=true',
  'service.live.max_age_seconds=0.1',
  'service.live.timeout_ms=5000',
  'upstream.requests_per_second=2000',
);

// Where nobody knows when a market opened, a night collects little more than what the live reads have.
const brief = set('source.first_lookback_days=0.05', 'source.field_paths.opens_at=none/such');

test('ticks that a service journaled survive its kill, beside jobs that publish; the archive stays intact', async () => {
  const output = folder();
  const box = await sandbox({ markets: 6, ticksPerDay: 100_000 });
  await expectDone(job('markets', box.url, output, ...brief));
  const key = await keyOf(output);
  const symbols = box
    .symbols()
    .map((symbol) => ({ symbol, n: box.readTruth(symbol, { from: Date.now() - 600_000, to: Date.now() }).t.length }))
    .sort((a, b) => b.n - a.n)
    .slice(0, 4);
  const seen = new Map(symbols.map(({ symbol }) => [symbol, new Set<number>()]));
  const from = Date.now() - 120_000;
  for (let round = 0; round < 2; round++) {
    const { child, ended, first } = await startLongRunning(
      ['serve', '--output', output, '--json', ...live],
      access(box.url),
    );
    const { url } = JSON.parse(first) as { url: string };
    const read = async (symbol: string): Promise<void> => {
      const query = `symbol=${encodeURIComponent(symbol)}&from=${from}&limit=10000`;
      const response = await fetch(`${url}/api/v1/ticks?${query}`, { headers: { authorization: `Bearer ${key}` } });
      expect(response.status).toBe(200);
      const { ticks } = (await response.json()) as { ticks: { t: number }[] };
      const times = new Set(ticks.map(({ t }) => t));
      expect(times.size).toBe(ticks.length);
      for (const t of seen.get(symbol)!) expect(times.has(t)).toBe(true);
      for (const t of times) seen.get(symbol)!.add(t);
    };
    const publishing = job('publish', box.url, output);
    for (let i = 0; i < 10; i++) await Promise.all(symbols.map(({ symbol }) => read(symbol)));
    await expectDone(publishing);
    await Promise.all(symbols.map(({ symbol }) => read(symbol)));
    child.kill('SIGKILL');
    await ended;
  }
  expect([...seen.values()].reduce((sum, times) => sum + times.size, 0)).toBeGreaterThan(100);
  const night = await expectDone(job('nightly', box.url, output, ...brief));
  expect(night.summary.recovered).toBeGreaterThan(0);
  expect(findWrongWindows(output, box)).toEqual([]);
  const { stdout } = await run(['status', '--output', output, '--json']);
  expect(JSON.parse(stdout)).toMatchObject({ last_runs: [{ job: 'nightly' }] });
  await expectDone(run(['verify', '--output', output]));
});
