import { rawFiles } from '../archive/raw/raw-prune.ts';
import type { RawPage } from '../core/raw-page.ts';
import { intersection, isEmpty, type Window } from '../core/window.ts';
import type { ImportFile } from './import-files.ts';
import { openReplay } from './import-raw.ts';
import { openImportWriter } from './import-write.ts';
import { lostTicks } from './restored.ts';
import type { Run } from './run.ts';
import { publishStep } from './steps.ts';
import { UnreadableFile } from './unreadable-file.ts';

/**
 * Takes in what the answers that are kept as they came still have of ticks that are lost, and publishes it: what was had
 * once is had again without a request. What of them cannot be read is passed over, there being others to ask.
 */
export async function rawReplayStep(run: Run): Promise<void> {
  const { context, archive } = run;
  const lost = Map.groupBy(lostTicks(run), ({ symbol }) => symbol);
  const files = lost.size === 0 ? [] : rawFiles(archive).map(fileOf);
  if (files.length === 0) return;
  const { source, poll } = context.settings;
  const writer = openImportWriter(run, false, context.clock.nowMs() + poll.futureSkewSeconds * 1000);
  const display = await context.startDisplay('kept answers', files.length, 'files');
  let done = 0;
  const replay = openReplay({
    ...{ run, writer },
    rules: { dataset: 'ticks', zone: null, paths: { symbolPaths: source.symbolPaths, fieldPaths: source.fieldPaths } },
    wanted: (page) => reachesInto(page, (symbol) => lost.get(symbol) ?? []),
    onSetAside: () => {},
    onTorn: () => {},
    onProgress: () => display.update({ done, ticks: writer.ticks }),
  });
  try {
    for (const file of files) await replay.find(file).catch(passUnreadable);
    for (const file of files) await replay.learn(file).catch(passUnreadable);
    for (const file of files) {
      await replay.take(file).catch(passUnreadable);
      done++;
    }
    await replay.finish();
    await writer.finish();
  } finally {
    display.stop();
  }
  await publishStep(run);
  // What was answered then says nothing of what the upstream has now.
  run.lost.answered.clear();
}

/** Whether an answer is of a window that reaches into one of these. */
function reachesInto({ asked }: RawPage, lostOf: (symbol: string) => readonly Window[]): boolean {
  if (asked.route !== 'ticks' || asked.meaning === null) return false;
  const spoken = [{ from: asked.from, to: asked.to }, asked.meaning.asked];
  return lostOf(asked.symbol).some((window) => spoken.some((span) => !isEmpty(intersection(span, window))));
}

const fileOf = (path: string): ImportFile => ({
  ...{ path, named: false, format: 'raw', compression: 'none', writtenAt: 0 },
});

const passUnreadable = (error: unknown): void => {
  if (!(error instanceof UnreadableFile)) throw error;
};
