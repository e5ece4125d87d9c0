import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { bucket, credentials, region, startServer } from '../test/bucket/server.ts';
import type { Bench } from './bench.ts';
import { alternate, type Contender, computeSpeedup, isMeasured, processTimings, summarise } from './harness.ts';
import { publishedTotals } from './published.ts';
import { atLeast, type Report } from './results.ts';
import { createBenchArchive } from './tick-archive.ts';

/**
 * Compares `oddslake push` into an empty prefix with `rclone copy` of the same folder to the same server, versitygw on this machine,
 * whose CPU time counts for both. rclone overwrites stable names, checks no hash that the archive has, and swaps nothing.
 */

const goal = atLeast(0.8);
/** Ticks of the generated archive. */
const bytesPerTick = 9.8;
/** Of both programs. */
const uploadsConcurrent = 8;

/** @param megabytes approximate size of the files */
export async function benchPush(bench: Bench, megabytes: number): Promise<Report> {
  const archive = join(bench.folder, 'pushed');
  const server = await startServer();
  const env = {
    ...bench.env,
    AWS_ENDPOINT_URL: server.endpoint,
    AWS_REGION: region,
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    // rclone cannot use it.
    AWS_CA_BUNDLE: undefined,
    RCLONE_CONFIG: join(bench.folder, 'rclone.conf'),
    RCLONE_CONFIG_SERVER_TYPE: 's3',
    RCLONE_CONFIG_SERVER_PROVIDER: 'Other',
    RCLONE_CONFIG_SERVER_ENDPOINT: server.endpoint,
    RCLONE_CONFIG_SERVER_ENV_AUTH: 'true',
    RCLONE_CONFIG_SERVER_NO_CHECK_BUCKET: 'true',
  };
  try {
    bench.tell(`building an archive of ${megabytes} MB`);
    await createBenchArchive(archive, (megabytes * 1e6) / bytesPerTick, 'noise');
    const contender = (name: string, prefix: string, argv: Contender['command']['argv']): Contender => ({
      name,
      out: join(server.folder, prefix),
      command: { argv, cwd: bench.folder, env },
    });
    const copy = ['copy', archive, `server:${bucket}/copied`, '--exclude', '.oddslake/**'];
    const contenders = [
      contender('oddslake push', 'pushed', [bench.launcher, 'push', `s3://${bucket}/pushed`, '--output', archive]),
      contender('rclone copy', 'copied', ['rclone', ...copy, '--transfers', `${uploadsConcurrent}`]),
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
          what: 'push',
          input,
          ours: speed(ours),
          peer: { name: findVersion(), figure: speed(theirs) },
          ratio,
          goal,
          value: ratio?.median ?? null,
          missing: failed.map(({ name, failed: reason }) => `${name} ${reason}`)[0] ?? null,
        },
      ],
      timings: processTimings('push', input, outcomes),
    };
  } finally {
    rmSync(archive, { recursive: true, force: true });
    await server.stop();
  }
}

/** `rclone v1.60.1`, or `rclone` if there is none. */
const findVersion = (): string =>
  /^rclone v[\d.]+\d/.exec(spawnSync('rclone', ['version'], { encoding: 'utf8' }).stdout ?? '')?.[0] ?? 'rclone';
