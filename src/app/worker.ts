import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import { type PartTask, workPart } from '../archive/publish/merge-partition.ts';
import type { PartDone } from '../archive/publish/partition-result.ts';
import { openSpill, type Spill } from '../archive/publish/spill-file.ts';
import { knownStandings, type StandingsOf } from '../state/precedence.ts';
import { moved, wholeBuffers } from '../worker-threads.ts';
import { type PageRead, type PagesTask, readPages } from './import/pages.ts';

// What a thread of the pool is asked to do. It ends with the import that it reads for.

let spill: Spill | undefined;

export function pages(task: PagesTask): PageRead[] {
  spill ??= openSpill(join(task.scratch, `ticks-${threadId}`));
  return readPages(task, spill);
}

export function part({ task, standings }: { task: PartTask; standings: StandingsOf }): Promise<PartDone> {
  const done = workPart(task, knownStandings(standings));
  return moved(done, wholeBuffers(done.files.map(({ bytes }) => bytes)));
}
