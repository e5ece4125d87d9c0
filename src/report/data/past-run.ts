import type { PastRun } from '../../archive/journal/runs.ts';

/** The last nightly run that counted what it changed; a run that failed early counted nothing. Null if there is none. */
export const findCountedNight = (runs: readonly PastRun[], lastNight: PastRun | null): PastRun | null =>
  [lastNight, ...runs].findLast((run) => run?.summary?.night !== undefined) ?? null;
