import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import { type SymbolsPrecedence, toKnownPrecedence } from '../../archive/journal/precedence-store.ts';
import { type MergeResult, type MergeTask, mergePartition } from '../../archive/publish/merge-partition.ts';
import { openSpillFile, type SpillFile } from '../../archive/publish/spill-file.ts';
import { listWholeBuffers, moveToCaller } from '../../base/worker-threads.ts';
import { type ReadPagesTask, readPages, type TickPageRead } from '../import/pages.ts';

// Tasks of a worker thread. The threads of an import end with the import, so the spill file needs no close.

let spill: SpillFile | undefined;

export function pages(task: ReadPagesTask): TickPageRead[] {
  spill ??= openSpillFile(join(task.scratch, `ticks-${threadId}`));
  return readPages(task, spill);
}

export function part({ task, standings }: { task: MergeTask; standings: SymbolsPrecedence }): Promise<MergeResult> {
  const result = mergePartition(task, toKnownPrecedence(standings));
  return moveToCaller(result, listWholeBuffers(result.files.map(({ bytes }) => bytes)));
}
