import { threadId } from 'node:worker_threads';
import type { PartDone } from '../archive/publish/part-done.ts';
import { type PartTask, workPart } from '../archive/publish/part-task.ts';
import { knownStandings, type StandingsOf } from '../state/standings.ts';
import { type PageRead, type PagesTask, readPages } from './import-pages.ts';

// What a thread of the pool is asked to do.

export const pages = (task: PagesTask): PageRead[] => readPages(task, `ticks-${threadId}`);

export function part({ task, standings }: { task: PartTask; standings: StandingsOf }): PartDone {
  return workPart(task, knownStandings(standings));
}
