import type { KnownStandings } from '../../core/standings.ts';
import type { StandingsOf } from '../../state/standings.ts';
import type { PartDone } from './part-done.ts';
import { type PartTask, workPart } from './part-task.ts';

/** What is known of the standing of a part's published ticks: to be asked where it is known, or as values. */
export interface Standings {
  readonly live: KnownStandings;
  values(): StandingsOf;
}

/** Those who do the work on parts. They give the same whoever they are. */
export interface PartWorkers {
  /** Tasks that may be under way at once. */
  readonly width: number;
  work(task: PartTask, standings: Standings): Promise<PartDone>;
}

/** The thread that asks: one part after the other. */
export const ownThread: PartWorkers = {
  width: 1,
  work: async (task, { live }) => workPart(task, live),
};
