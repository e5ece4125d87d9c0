import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from './bench.ts';
import { atLeast } from './goals.ts';
import { alternate, type Contender, computeSpeedup, isMeasured, processTimings, summarise } from './harness.ts';
import { publishedTotals } from './published.ts';
import type { Report } from './results.ts';
import { createBenchArchive } from './tick-archive.ts';

/** Compares `oddslake verify` with a script that only hashes the same files with node:crypto. */

const goal = atLeast(0.8);
/** Ticks of the generated archive. */
const bytesPerTick = 9.8;
const script = join(import.meta.dirname, 'peers', 'sha256.mjs');

/** @param megabytes approximate size of the files; with less, program start dominates the time */
export async function benchVerify(bench: Bench, megabytes: number): Promise<Report> {
  const { folder, env } = bench;
  const archive = join(folder, 'verified');
  try {
    bench.tell(`building an archive of ${megabytes} MB`);
    await createBenchArchive(archive, (megabytes * 1e6) / bytesPerTick, 'noise');
    const contender = (name: string, argv: Contender['command']['argv']): Contender => ({
      name,
      out: null,
      command: { argv, cwd: folder, env },
    });
    const contenders = [
      contender('oddslake verify', [bench.launcher, 'verify', '--output', archive]),
      contender('node:crypto', [process.execPath, script, archive]),
    ];
    const outcomes = await alternate(contenders, bench);
    const { files, bytes } = publishedTotals(archive);
    const input = `${files} files, ${(bytes / 1e6).toFixed(0)} MB`;
    const [ours, theirs] = outcomes.map((outcome) => (isMeasured(outcome) ? outcome.runs : undefined));
    const speed = (runs: typeof ours): string =>
      runs === undefined ? '–' : `${(bytes / 1000 / summarise(runs).wallMs).toFixed(0)} MB/s`;
    const ratio = ours !== undefined && theirs !== undefined ? computeSpeedup(ours, theirs) : null;
    const failed = outcomes.flatMap((outcome) => (isMeasured(outcome) ? [] : [outcome]));
    return {
      failed: failed.map(({ name }) => name),
      comparisons: [
        {
          what: 'verify',
          input,
          ours: speed(ours),
          peer: { name: 'node:crypto', figure: speed(theirs) },
          ratio,
          goal,
          value: ratio?.median ?? null,
          missing: failed.map(({ name, failed: reason }) => `${name} ${reason}`)[0] ?? null,
        },
      ],
      timings: processTimings('verify', input, outcomes),
    };
  } finally {
    rmSync(archive, { recursive: true, force: true });
  }
}
