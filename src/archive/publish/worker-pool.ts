import type { KnownStandings } from '../../core/precedence.ts';
import type { StandingsOf } from '../../state/precedence.ts';
import { type PartTask, workPart } from './merge-partition.ts';
import type { PartDone } from './partition-result.ts';

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
