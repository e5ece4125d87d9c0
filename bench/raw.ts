/**
 * Measures the cost of keeping raw responses and of inspecting their structure: CPU time per tick of the main thread
 * and of the whole process, for pages of 5,000 ticks. Medians of 9 rounds of 200 pages. Run: node bench/raw.ts
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { systemDisk } from '../src/archive/disk/file-system.ts';
import { createLayout } from '../src/archive/format/layout.ts';
import { openRawWriter } from '../src/archive/raw/raw-writer.ts';
import { createResponseShapes } from '../src/collector/run/response-shapes.ts';

const ticks = 5000;
const pages = 200;
const rounds = 9;
const startedAt = 1_795_000_000_000;

const page = (n: number): Buffer =>
  Buffer.from(
    JSON.stringify({
      symbol: `KXBTC-26NOV20-T${n}`,
      ticks: Array.from({ length: ticks }, (_, i) => ({
        t: startedAt + i * 1717 + ((i * n * 7919) % 1009),
        p: ((i * 7919 + n * i * i) % 1000) / 1000,
      })),
      count: ticks,
      from: startedAt,
      to: startedAt + 9e6,
      generated_at: startedAt + 9e6,
    }),
  );
const bodies = Array.from({ length: 20 }, (_, n) => page(n));

async function costs(keeps: boolean, looks: boolean): Promise<{ main: number; all: number; bytes: number }> {
  const root = mkdtempSync(join(tmpdir(), 'oddslake-bench-'));
  const options = { runId: 'bench', secret: 'sk-0123456789', keepDays: 7, bytesMax: 2 ** 31 };
  const keeper = openRawWriter({ disk: systemDisk, layout: createLayout(root) }, options);
  const shapes = createResponseShapes();
  const [all, main] = [process.cpuUsage(), process.threadCpuUsage()];
  for (let n = 0; n < pages; n++) {
    const body = bodies[n % bodies.length]!;
    const request = { route: 'ticks', symbol: 'KXBTC', from: 0, to: 1, limit: ticks, meaning: null } as const;
    const response = { asked: request, askedAt: startedAt, receivedAt: startedAt, servedAt: null, status: 200, body };
    if (keeps) keeper.write(response);
    if (looks) shapes.onResponse(response);
    // As between two responses of the service.
    await setImmediate();
  }
  await keeper.close();
  const [allEnd, mainEnd] = [process.cpuUsage(all), process.threadCpuUsage(main)];
  const folder = join(root, '.oddslake/raw/2026-11-18');
  const bytes = systemDisk.list(folder).reduce((sum, name) => sum + systemDisk.size(join(folder, name))!, 0);
  rmSync(root, { recursive: true, force: true });
  const perTick = ({ user, system }: NodeJS.CpuUsage): number => (user + system) / (pages * ticks);
  return { main: perTick(mainEnd), all: perTick(allEnd), bytes: bytes / (pages * ticks) };
}

const median = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 1]!;
for (const [name, keeps, looks] of [
  ['neither', false, false],
  ['kept', true, false],
  ['inspected', false, true],
] as const) {
  const results: Awaited<ReturnType<typeof costs>>[] = [];
  for (let round = 0; round < rounds; round++) results.push(await costs(keeps, looks));
  const [main, all, bytes] = (['main', 'all', 'bytes'] as const).map((key) => median(results.map((one) => one[key])));
  console.log(
    `${name.padEnd(9)}  main thread ${main!.toFixed(3)} µs per tick, all threads ${all!.toFixed(3)} µs, ${bytes!.toFixed(1)} B per tick on disk`,
  );
}
