import { listRawFiles } from '../../archive/raw/raw-retention.ts';
import type { LostWindow } from '../../core/data-loss.ts';
import type { RawPage } from '../../core/raw-page.ts';
import { intersectTwo, isEmpty, type Window } from '../../core/window.ts';
import type { ImportFile } from '../import/files.ts';
import { openRawReplay } from '../import/import-raw.ts';
import { openImportWriter } from '../import/stage-rows.ts';
import { UnreadableFileError } from '../import/unreadable-file.ts';
import type { Run } from '../run.ts';
import { listLostTickWindows } from './count-restored.ts';
import { publishJournal } from './publish-step.ts';

/**
 * Takes in what the answers that are kept as they came still have of ticks that are lost, and publishes it: what was had
 * once is had again without a request. What of them cannot be read is passed over, there being others to ask.
 *
 * A window proves to be back by answers that are published together: so only as many windows are read for at a time as
 * lost what the journal may hold, and what is journaled for them is published at the end.
 */
export async function replayRawResponses(run: Run): Promise<void> {
  const files = listRawFiles(run.archive).map(toImportFile);
  if (files.length === 0) return;
  const { journalTicksMax } = run.context.settings.publish;
  for (const batch of splitLossesIntoBatches(listLostTickWindows(run), journalTicksMax)) {
    await replayBatch(
      run,
      files,
      Map.groupBy(batch, ({ symbol }) => symbol),
    );
    await publishJournal(run);
  }
  // What was answered then says nothing of what the upstream has now.
  run.lostWindows.confirmedLost.clear();
}

/** Windows in their order, cut into batches that lost about as many ticks together; none is empty. */
function splitLossesIntoBatches(lost: readonly LostWindow[], ticksMax: number): LostWindow[][] {
  const out: LostWindow[][] = [];
  let room = 0;
  for (const window of lost) {
    if (out.length === 0 || window.ticks > room) {
      out.push([]);
      room = ticksMax;
    }
    out.at(-1)!.push(window);
    room -= window.ticks;
  }
  return out;
}

/** Journals the answers that reach into lost windows, by symbol. */
async function replayBatch(
  run: Run,
  files: readonly ImportFile[],
  lost: ReadonlyMap<string, readonly LostWindow[]>,
): Promise<void> {
  const { context } = run;
  const { source, poll } = context.settings;
  const futureMs = context.clock.nowMs() + poll.futureSkewSeconds * 1000;
  // Answers are journaled as they were when they came: nothing is put aside.
  const options = { preferred: false, futureMs, scratch: '', journalTicksMax: Number.POSITIVE_INFINITY };
  const writer = openImportWriter(run, options);
  const display = await context.startDisplay('kept answers', files.length, 'files');
  let done = 0;
  const replay = openRawReplay({
    run,
    writer,
    rules: { dataset: 'ticks', paths: { symbolPaths: source.symbolPaths, fieldPaths: source.fieldPaths } },
    isWanted: (page) => hasLostOverlap(page, (symbol) => lost.get(symbol) ?? []),
    onSetAside: () => {},
    onTorn: () => {},
    onProgress: () => display.update({ done, ticks: writer.ticks }),
  });
  try {
    for (const file of files) {
      await replay.take(file).catch(ignoreUnreadableFile);
      done++;
    }
    await replay.finish();
    await writer.flushJournal();
  } finally {
    display.stop();
  }
}

/** Whether an answer is of a window that reaches into one of these. */
function hasLostOverlap({ asked }: RawPage, lostOf: (symbol: string) => readonly Window[]): boolean {
  if (asked.route !== 'ticks' || asked.meaning === null) return false;
  const spoken = [{ from: asked.from, to: asked.to }, asked.meaning.asked];
  return lostOf(asked.symbol).some((window) => spoken.some((span) => !isEmpty(intersectTwo(span, window))));
}

const toImportFile = (path: string): ImportFile => ({
  path,
  isNamed: false,
  format: 'raw',
  compression: 'none',
  writtenAt: 0,
  bytes: 0,
});

const ignoreUnreadableFile = (error: unknown): void => {
  if (!(error instanceof UnreadableFileError)) throw error;
};
