import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from './bench.ts';
import { atLeast } from './goals.ts';
import { compareReaders, createContender } from './harness.ts';
import type { Report } from './results.ts';
import { createBenchArchive } from './tick-archive.ts';

/** Compares `oddslake verify` with a script that only hashes the same files with node:crypto. */

const goal = atLeast(0.8);
/** Ticks of the generated archive. */
const bytesPerTick = 9.8;
const script = join(import.meta.dirname, 'peers', 'sha256.mjs');

/** @param megabytes approximate size of the files; with less, program start dominates the time */
export async function benchVerify(bench: Bench, megabytes: number): Promise<Report> {
  const archive = join(bench.folder, 'verified');
  try {
    bench.tell(`building an archive of ${megabytes} MB`);
    await createBenchArchive(archive, (megabytes * 1e6) / bytesPerTick, 'noise');
    const contenders = [
      createContender(bench, 'oddslake verify', [bench.launcher, 'verify', '--output', archive]),
      createContender(bench, 'node:crypto', [process.execPath, script, archive]),
    ];
    return await compareReaders(bench, archive, contenders, {
      what: 'verify',
      peer: 'node:crypto',
      missing: null,
      goal,
    });
  } finally {
    rmSync(archive, { recursive: true, force: true });
  }
}
