import { chmodSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { createLayout } from '../../archive/format/layout.ts';
import { takeWriteLock, type WriteLock } from '../../archive/journal/lock.ts';
import { clockAheadMsMax } from '../../base/ports.ts';
import type { Context } from '../../context/context.ts';
import { formatExposition, parseExposition } from '../../metrics/exposition-format.ts';
import { toArchiveSamples, toBuildInfoSample, toRunSamples, toSuccessSamples } from '../../metrics/last-run.ts';
import type { Sample } from '../../metrics/metric-definitions.ts';
import { type LastRunRecord, mergeLastRun, readLastRunRecords } from '../run/last-runs.ts';
import type { Summary } from '../run/summary.ts';

/** How long a run waits for another that writes the same file at the same moment, in ms. */
const waitMsMax = 2000;

/** Writes what Prometheus is told of every job's last run: see `metrics.textfile`. */
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
 * What is told once this run has ended. Jobs that the state does not know (it may be lost) stay as the file has them.
 */
export function mergeSamples(summary: Summary, known: readonly LastRunRecord[], file: string): Sample[] {
  const runs = mergeLastRun(known, summary);
  const told = [
    ...runs.flatMap(({ run, succeededAt }) => [...toRunSamples(run), ...toSuccessSamples(run.job, succeededAt)]),
    ...toArchiveSamples(runs.map(({ run }) => run)),
  ];
  const names = new Set(told.map(toSampleKey));
  const jobs = new Set(runs.map(({ run }) => run.job));
  // Of a job that is told of nothing else stays but when it last succeeded: that may be longer ago than runs are kept.
  const stays = (sample: Sample): boolean =>
    retainedMetrics.has(sample.name)
      ? !names.has(toSampleKey(sample)) && !isFromFuture(sample, summary.finished_at)
      : sample.labels.name !== undefined && !jobs.has(sample.labels.name);
  return [...parseExposition(file).filter(stays), ...told];
}

const retainedMetrics = new Set([
  'oddslake_job_last_success_timestamp_seconds',
  'oddslake_generation',
  'oddslake_watermark_timestamp_seconds',
  'oddslake_reached_timestamp_seconds',
  'oddslake_archive_state',
  'oddslake_days',
  'oddslake_gaps',
  'oddslake_windows_inferred',
  'oddslake_damaged_files',
  'oddslake_symbols_suspended',
]);

/** Whether it was told by a clock that was wrong. */
const isFromFuture = ({ name, value }: Sample, nowMs: number): boolean =>
  name.endsWith('_timestamp_seconds') && value * 1000 > nowMs + clockAheadMsMax;

const toSampleKey = ({ name, labels }: Sample): string => JSON.stringify([name, labels.name]);

/** A state that cannot be read, as on a full disk, is no reason to tell nothing. */
function tryReadLastRunRecords(context: Context): LastRunRecord[] {
  try {
    return readLastRunRecords(context);
  } catch (err) {
    context.log.debug({ err }, 'the runs before this one could not be read');
    return [];
  }
}

/** Of two runs that end together one waits: each reads the file that it replaces. Null where it cannot be had. */
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

/** The node exporter may read at any moment, as another user: it finds one whole file or the other. */
function replaceFile(path: string, text: string): void {
  const beside = join(dirname(path), `.${basename(path)}.${process.pid}`);
  try {
    writeFileSync(beside, text);
    chmodSync(beside, 0o644);
    renameSync(beside, path);
  } catch (error) {
    rmSync(beside, { force: true });
    throw error;
  }
}
