import { chmodSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { layoutOf } from '../../archive/layout.ts';
import { aheadMsMax } from '../../core/clock.ts';
import { textOf } from '../../metrics/exposition-format.ts';
import { buildSample, samplesOfArchive, samplesOfRun, successSample } from '../../metrics/last-run.ts';
import type { Sample } from '../../metrics/metric-definitions.ts';
import { readSamples } from '../../metrics/parse-exposition.ts';
import { takeWriteLock, type WriteLock } from '../../state/lock.ts';
import type { Context } from '../context.ts';
import { type KnownRun, readKnownRuns, withRun } from '../last-runs.ts';
import type { Summary } from '../summary.ts';

/** How long a run waits for another that writes the same file at the same moment, in ms. */
const waitMsMax = 2000;

/** Writes what Prometheus is told of every job's last run: see `metrics.textfile`. */
export async function textfileStep(context: Context, summary: Summary): Promise<void> {
  const path = context.settings.metrics.textfile;
  if (path === null) return;
  const lock = await lockOf(context);
  try {
    const samples = samplesAfter(summary, known(context), readFile(path));
    replace(path, await textOf([buildSample(context.version), ...samples]));
  } finally {
    lock?.release();
  }
}

/**
 * What is told once this run has ended. Jobs that the state does not know (it may be lost) stay as the file has them.
 */
export function samplesAfter(summary: Summary, known: readonly KnownRun[], file: string): Sample[] {
  const runs = withRun(known, summary);
  const told = [
    ...runs.flatMap(({ run, succeededAt }) => [...samplesOfRun(run), ...successSample(run.job, succeededAt)]),
    ...samplesOfArchive(runs.map(({ run }) => run)),
  ];
  const names = new Set(told.map(nameOf));
  const jobs = new Set(runs.map(({ run }) => run.job));
  // Of a job that is told of nothing else stays but when it last succeeded: that may be longer ago than runs are kept.
  const stays = (sample: Sample): boolean =>
    keptOnce.has(sample.name)
      ? !names.has(nameOf(sample)) && !isAhead(sample, summary.finished_at)
      : sample.labels.name !== undefined && !jobs.has(sample.labels.name);
  return [...readSamples(file).filter(stays), ...told];
}

const keptOnce = new Set([
  'oddslake_job_last_success_timestamp_seconds',
  'oddslake_generation',
  'oddslake_watermark_timestamp_seconds',
  'oddslake_reached_timestamp_seconds',
  'oddslake_archive_state',
  'oddslake_dates',
  'oddslake_gaps',
  'oddslake_windows_provisional',
  'oddslake_damaged_files',
  'oddslake_symbols_suspended',
]);

/** Whether it was told by a clock that was wrong. */
const isAhead = ({ name, value }: Sample, nowMs: number): boolean =>
  name.endsWith('_timestamp_seconds') && value * 1000 > nowMs + aheadMsMax;

const nameOf = ({ name, labels }: Sample): string => JSON.stringify([name, labels.name]);

/** A state that cannot be read, as on a full disk, is no reason to tell nothing. */
function known(context: Context): KnownRun[] {
  try {
    return readKnownRuns(context);
  } catch (err) {
    context.log.debug({ err }, 'the runs before this one could not be read');
    return [];
  }
}

/** Of two runs that end together one waits: each reads the file that it replaces. Null where it cannot be had. */
async function lockOf({ settings, disk, clock }: Context): Promise<WriteLock | null> {
  const { private: folder } = layoutOf(settings.archive.output);
  if (!disk.isFolder(folder)) return null;
  try {
    return await takeWriteLock(join(folder, 'textfile-lock.sqlite'), waitMsMax, clock);
  } catch {
    return null;
  }
}

function readFile(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** The node exporter may read at any moment, as another user: it finds one whole file or the other. */
function replace(path: string, text: string): void {
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
