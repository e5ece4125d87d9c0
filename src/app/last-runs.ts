import { layoutOf } from '../archive/layout.ts';
import { aheadMsMax } from '../core/clock.ts';
import type { LastRun } from '../metrics/last-run.ts';
import type { Database } from '../state/database.ts';
import { lastEnded } from '../state/runs.ts';
import { openState, stateFile } from '../state/state.ts';
import type { Context } from './context.ts';

/** A job's last run, and when the job last ended with 0 (epoch ms). */
export interface KnownRun {
  readonly run: LastRun;
  readonly succeededAt: number | null;
}

/** What the state knows of the last run of each job. */
export const knownRuns = (db: Database, nowMs: number): KnownRun[] =>
  lastEnded(db, nowMs + aheadMsMax).flatMap(({ summary, succeededAt }) => {
    const run = readRun(summary);
    return run === null ? [] : [{ run, succeededAt }];
  });

/** A summary as it was kept; one of an older oddslake may lack what a later one has, and then nothing is told of it. */
function readRun(summary: string | null): LastRun | null {
  try {
    const run = JSON.parse(summary ?? 'null') as Partial<LastRun> | null;
    const whole = run?.ticks !== undefined && run.symbols !== undefined && run.published !== undefined;
    return whole ? (run as LastRun) : null;
  } catch {
    return null;
  }
}

/** The same from the archive's state, which is closed at the moment; none where there is none. */
export function readKnownRuns({ settings, disk, clock, openDatabase }: Context): KnownRun[] {
  const { private: folder } = layoutOf(settings.archive.output);
  // Nothing is made by those that only look.
  if (disk.size(stateFile(folder)) === null) return [];
  const state = openState(folder, { upstream: '', parts: settings.archive.parts }, openDatabase);
  try {
    return knownRuns(state.db, clock.nowMs());
  } finally {
    state.close();
  }
}

/** What is known, and a run that has just ended: the state may not have it, as it could not be opened or written. */
export function withRun(known: readonly KnownRun[], run: LastRun): KnownRun[] {
  const before = known.find((one) => one.run.job === run.job);
  if (before !== undefined && before.run.finished_at > run.finished_at) return [...known];
  const succeededAt = run.exit_code === 0 ? run.finished_at : (before?.succeededAt ?? null);
  return [...known.filter((one) => one !== before), { run, succeededAt }].sort((a, b) =>
    a.run.job < b.run.job ? -1 : 1,
  );
}
