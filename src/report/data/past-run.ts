import type { Summary } from '../../archive/journal/run-summary.ts';
import type { RecordedRun } from '../../archive/journal/runs.ts';

/** A recorded run. Times in epoch ms. */
export interface PastRun extends Omit<RecordedRun, 'summary'> {
  /** `running`: its process is alive. `interrupted`: its process ended without recording an end. */
  readonly state: 'ended' | 'running' | 'interrupted';
  readonly summary: Summary | null;
}

/** @param isOver whether the process of an unfinished run has ended */
export function toPastRun({ summary, ...run }: RecordedRun, isOver: (runId: string) => boolean): PastRun {
  const state = run.finishedAt !== null ? 'ended' : isOver(run.runId) ? 'interrupted' : 'running';
  return { ...run, state, summary: summary === null ? null : (JSON.parse(summary) as Summary) };
}

/** The last nightly run that counted what it changed; a run that failed early counted nothing. Null if there is none. */
export const findCountedNight = (runs: readonly PastRun[], lastNight: PastRun | null): PastRun | null =>
  [lastNight, ...runs].findLast((run) => run?.summary?.night !== undefined) ?? null;
