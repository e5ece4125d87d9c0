import { chmodSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { createLayout } from '../../archive/format/layout.ts';
import { takeWriteLock, type WriteLock } from '../../archive/journal/lock.ts';
import { clockAheadMsMax } from '../../base/ports.ts';
import type { Context } from '../../context/context.ts';
import type { Sample } from '../../metrics/metric-definitions.ts';
import { formatExposition, parseExposition } from '../../metrics/prometheus.ts';
import { toArchiveSamples, toBuildInfoSample, toRunSamples, toSuccessSamples } from '../../metrics/samples.ts';
import { type LastRunRecord, mergeLastRun, readLastRunRecords } from '../run/last-runs.ts';
import type { Summary } from '../run/summary.ts';

/** Maximum wait for another run that writes the same file, in ms. */
const waitMsMax = 2000;

/** Writes the metrics of the last run of every job to `metrics.textfile`. */
export async function writeTextfileMetrics(context: Context, summary: Summary): Promise<void> {
  const path = context.settings.metrics.textfile;
  if (path === null) return;
  const lock = await tryLockTextfile(context);
  try {
    const samples = mergeSamples(summary, tryReadLastRunRecords(context), tryReadFile(path));
    replaceFile(path, await formatExposition([toBuildInfoSample(context.version), ...samples]));
  } finally {
    lock?.release();
  }
}

/**
 * Merges the samples of a run that has ended with the state and the file. Keeps the file's samples for jobs that are
 * missing from the state.
 */
export function mergeSamples(summary: Summary, known: readonly LastRunRecord[], file: string): Sample[] {
  const lastRuns = mergeLastRun(known, summary);
  const samples = [
    ...lastRuns.flatMap(({ run, succeededAt }) => [...toRunSamples(run), ...toSuccessSamples(run.job, succeededAt)]),
    ...toArchiveSamples(lastRuns.map(({ run }) => run)),
  ];
  const keys = new Set(samples.map(toSampleKey));
  const jobs = new Set(lastRuns.map(({ run }) => run.job));
  // A job's last success may be older than the oldest run in the state, so the file is its only source.
  const isRetained = (sample: Sample): boolean =>
    retainedMetrics.has(sample.name)
      ? !keys.has(toSampleKey(sample)) && !isFromFuture(sample, summary.finished_at)
      : sample.labels.name !== undefined && !jobs.has(sample.labels.name);
  return [...parseExposition(file).filter(isRetained), ...samples];
}

const retainedMetrics = new Set([
  'oddslake_job_last_success_timestamp_seconds',
  'oddslake_generation',
  'oddslake_watermark_timestamp_seconds',
  'oddslake_reached_timestamp_seconds',
  'oddslake_archive_state',
  'oddslake_dates',
  'oddslake_gaps',
  'oddslake_windows_inferred',
  'oddslake_damaged_files',
  'oddslake_symbols_suspended',
]);

/** Whether a timestamp is in the future because it was written while the clock was wrong. */
const isFromFuture = ({ name, value }: Sample, nowMs: number): boolean =>
  name.endsWith('_timestamp_seconds') && value * 1000 > nowMs + clockAheadMsMax;

const toSampleKey = ({ name, labels }: Sample): string => JSON.stringify([name, labels.name]);

/** Returns no runs if the state cannot be read, for example on a full disk. */
function tryReadLastRunRecords(context: Context): LastRunRecord[] {
  try {
    return readLastRunRecords(context);
  } catch (err) {
    context.log.debug({ err }, 'could not read earlier runs');
    return [];
  }
}

/** Locks the file, because a run reads it before replacing it. Returns null if that fails. */
async function tryLockTextfile({ settings, disk, clock }: Context): Promise<WriteLock | null> {
  const { privateFolder: folder } = createLayout(settings.archive.output);
  if (!disk.isFolder(folder)) return null;
  try {
    return await takeWriteLock(join(folder, 'textfile-lock.sqlite'), waitMsMax, clock);
  } catch {
    return null;
  }
}

function tryReadFile(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Replaces the file atomically. Makes it readable by the node exporter, which may run as another user. */
function replaceFile(path: string, text: string): void {
  const temporary = join(dirname(path), `.${basename(path)}.${process.pid}`);
  try {
    writeFileSync(temporary, text);
    chmodSync(temporary, 0o644);
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}
