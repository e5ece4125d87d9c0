import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { bucket, credentials, type ObjectServer, region, startServer } from '../test/bucket/server.ts';
import type { Bench } from './bench.ts';
import { atLeast, under } from './goals.ts';
import {
  alternate,
  type Contender,
  compareReaders,
  createContender,
  isMeasured,
  processTimings,
  summarise,
} from './harness.ts';
import { measure } from './measure.ts';
import { publishedTotals } from './published.ts';
import { type Comparison, countText, mergeReports, type Report, timeText } from './results.ts';
import { createBenchArchive, ticksPerDay } from './tick-archive.ts';

/**
 * Compares `oddslake push` into an empty prefix with `rclone copy` of the same folder to the same server, versitygw on this machine,
 * whose CPU time counts for both. rclone overwrites stable names, checks no hash that the archive has, and swaps nothing.
 */

const goal = atLeast(0.8);
/** Ticks of the generated archives. */
const bytesPerTick = 9.8;
const parts = 4;
/** Of both programs. */
const uploadsConcurrent = 8;
/** Without it rclone waits half a second before each body, because this server sends no 100 Continue. */
const noWaiting = ['--expect-continue-timeout', '0'];
/** Of 10,000 objects. */
const verifySecondsMax = 60;

/**
 * @param megabytes approximate size of the files of the archive with large files
 * @param days of the archive with many files, six a day
 */
export async function benchPush(bench: Bench, megabytes: number, days: number): Promise<Report[]> {
  const server = await startServer(true);
  const archive = join(bench.folder, 'pushed');
  const withArchive = async (ticks: number, days: number | undefined, work: () => Promise<Report>): Promise<Report> => {
    try {
      bench.tell(`building an archive of ${countText(ticks)} ticks`);
      await createBenchArchive(archive, ticks, 'noise', days);
      return await work();
    } finally {
      rmSync(archive, { recursive: true, force: true });
    }
  };
  try {
    return [
      await withArchive((megabytes * 1e6) / bytesPerTick, undefined, () => comparePushes(bench, server, archive)),
      await withArchive(parts * days * ticksPerDay, days, async () => {
        const pushes = await comparePushes({ ...bench, runs: Math.min(bench.runs, 3) }, server, archive);
        const verified = await benchVerifyOfBucket(bench, server, archive);
        return mergeReports([pushes, verified]);
      }),
    ];
  } finally {
    await server.stop();
  }
}

/** The environment of both programs. */
const toEnvironment = ({ folder, env }: Bench, { endpoint }: ObjectServer): NodeJS.ProcessEnv => ({
  ...env,
  AWS_ENDPOINT_URL: endpoint,
  AWS_REGION: region,
  AWS_ACCESS_KEY_ID: credentials.accessKeyId,
  AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
  // rclone cannot use it.
  AWS_CA_BUNDLE: undefined,
  RCLONE_CONFIG: join(folder, 'rclone.conf'),
  RCLONE_CONFIG_SERVER_TYPE: 's3',
  RCLONE_CONFIG_SERVER_PROVIDER: 'Other',
  RCLONE_CONFIG_SERVER_ENDPOINT: endpoint,
  RCLONE_CONFIG_SERVER_ENV_AUTH: 'true',
  RCLONE_CONFIG_SERVER_NO_CHECK_BUCKET: 'true',
});

function comparePushes(bench: Bench, server: ObjectServer, archive: string): Promise<Report> {
  const env = toEnvironment(bench, server);
  const contender = (name: string, prefix: string, argv: Contender['command']['argv']): Contender =>
    createContender({ ...bench, env }, name, argv, join(server.folder, prefix));
  const copy = ['copy', archive, `server:${bucket}/copied`, '--exclude', '.oddslake/**'];
  const rclone = findVersion();
  const contenders = [
    contender('oddslake push', 'pushed', [bench.launcher, 'push', `s3://${bucket}/pushed`, '--output', archive]),
    ...(rclone === null
      ? []
      : [contender('rclone copy', 'copied', ['rclone', ...copy, '--transfers', `${uploadsConcurrent}`, ...noWaiting])]),
  ];
  const missing = rclone === null ? 'rclone is not installed' : null;
  return compareReaders(bench, archive, contenders, { what: 'push', peer: rclone ?? 'rclone', missing, goal });
}

/** `verify` of a bucket, by HEAD. */
async function benchVerifyOfBucket(bench: Bench, server: ObjectServer, archive: string): Promise<Report> {
  const env = toEnvironment(bench, server);
  const url = `s3://${bucket}/verified`;
  await measure({ argv: [bench.launcher, 'push', url, '--output', archive], cwd: bench.folder, env }, bench.accounting);
  const argv = [bench.launcher, 'verify', url] as const;
  const outcomes = await alternate([createContender({ ...bench, env }, 'oddslake verify', argv)], bench);
  const [outcome] = outcomes as [(typeof outcomes)[number]];
  const wallMs = isMeasured(outcome) ? summarise(outcome.runs).wallMs : null;
  const { files } = publishedTotals(archive);
  const input = `${countText(files)} objects`;
  const comparison: Comparison = {
    what: 'verify of a bucket, by HEAD',
    input,
    ours: wallMs === null ? '–' : timeText(wallMs),
    peer: null,
    ratio: null,
    goal: under(verifySecondsMax, 's'),
    value: wallMs === null ? null : wallMs / 1000,
    missing: isMeasured(outcome) ? null : `${outcome.name} ${outcome.failed}`,
  };
  return {
    failed: isMeasured(outcome) ? [] : [outcome.name],
    comparisons: [comparison],
    timings: processTimings('verify of a bucket', input, outcomes),
  };
}

/** `rclone v1.60.1`, or null if there is none. */
const findVersion = (): string | null =>
  /^rclone v[\d.]+\d/.exec(spawnSync('rclone', ['version'], { encoding: 'utf8' }).stdout ?? '')?.[0] ?? null;
