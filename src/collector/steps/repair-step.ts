import { countPublishedTicks } from '../../archive/count-lost-ticks.ts';
import type { LostWindow } from '../../archive/format/coverage.ts';
import { recordVerification } from '../../archive/integrity/daily-hash-share.ts';
import { repairArchive } from '../../archive/integrity/repair.ts';
import type { RepairReport, UnrecoverableRows } from '../../archive/integrity/repair-report.ts';
import type { RecordedLoss } from '../../archive/journal/gap-records.ts';
import { addPublishedTicks } from '../../archive/journal/runs.ts';
import type { SortKey } from '../../archive/parquet/row-group-index.ts';
import { listRawFiles } from '../../archive/raw/raw-file.ts';
import { DamageError } from '../../base/errors.ts';
import { intersectTwo, isEmpty, union, type Window } from '../../base/window.ts';
import { toCompletenessRules } from '../../context/open-configured.ts';
import type { RawPage } from '../../contract/raw-page.ts';
import { type ImportFile, UnreadableFileError } from '../import/files.ts';
import { openRawReplay } from '../import/import-raw.ts';
import { openImportWriter } from '../import/import-writer.ts';
import type { SymbolPlan } from '../paging/plan.ts';
import type { Run } from '../run/run.ts';
import { collectPlans } from './poll-steps.ts';
import { publishJournal } from './publish-step.ts';
import { listLostTickWindows, toLossKey } from './track-lost-windows.ts';

/**
 * Mends the archive; what no request can bring back is a failure of the run.
 * @throws DamageError where the state is damaged: nothing is asked for by what it says, and what was mended is told all the same
 */
export async function repairDamage(run: Run, show?: (repaired: RepairReport) => void): Promise<void> {
  const { context, archive } = run;
  const { clock, waitMs, signal } = context;
  const display = await context.startDisplay('verify', 1, 'files');
  let repaired: RepairReport;
  const begunAt = clock.nowMs();
  try {
    const onProgress = (done: number, total: number): void => display.update({ done, total });
    repaired = await repairArchive(archive, {
      clock,
      waitMs,
      signal,
      ...toCompletenessRules(context.settings),
      onProgress,
    });
  } finally {
    display.stop();
  }
  // All that is published was looked at, and what was wrong of it was mended.
  recordVerification(archive, { ...repaired, findings: [] }, run.id, begunAt);
  for (const file of repaired.written) run.files.set(file.path, file);
  const lost = repaired.repaired.reduce(
    (sum, { path, rows_lost }) => sum + (path.startsWith('ticks/') ? (rows_lost ?? 0) : 0),
    0,
  );
  if (lost > 0) addPublishedTicks(archive.state.db, run.id, { added: 0, lost });
  for (const gone of repaired.unrecoverable) {
    run.failures.push({ symbol: null, from: null, to: null, reason: `lost for good: ${formatGoneRows(gone)}` });
  }
  if (repaired.repaired.length > 0)
    context.log.info({ files: repaired.repaired.length, generation: repaired.generation }, 'mended');
  show?.(repaired);
  // Last: what the state knows of the files was needed to mend them.
  if (repaired.state !== null) throw new DamageError(repaired.state);
}

/** `3 rows of markets in markets/…, from A to B`. */
export function formatGoneRows({ dataset, path, rows, first, last }: UnrecoverableRows): string {
  const between = first === null || last === null ? '' : `, from ${formatKey(first)} to ${formatKey(last)}`;
  const uncovered = dataset === 'ticks' ? ' that no answer covers' : '';
  return `${rows} row${rows === 1 ? '' : 's'} of ${dataset}${uncovered} in ${path}${between}`;
}

const formatKey = (key: SortKey): string => `(${key.map((value) => value ?? 'null').join(', ')})`;

/** Every symbol that lost ticks, whatever became of it since, with its lost windows whole. */
const planRefetch = (lost: readonly RecordedLoss[]): SymbolPlan[] =>
  [...Map.groupBy(lost, ({ symbol }) => symbol)].map(([symbol, windows]) => ({
    symbol,
    windows: union(windows),
    isFirst: false,
  }));

/**
 * Asks for all ticks that are lost, and publishes what comes. A window proves to be back by answers that are published
 * together: where the journal grew so large that it was published on the way, what that cut apart is asked for again, one
 * window after the other, whatever the journal comes to hold: none is longer than a day of one symbol.
 */
export async function refetchLostWindows(run: Run): Promise<void> {
  const plans = planRefetch(listLostTickWindows(run));
  if (plans.length === 0) return;
  const generation = run.archive.state.generation();
  await collectPlans(run, plans, 'backfill');
  const wasCut = run.archive.state.generation() !== generation;
  await publishJournal(run);
  if (!wasCut) return;
  const { tried, confirmedLost } = run.lostWindows;
  const apart = listLostTickWindows(run).filter(
    (loss) => tried.has(toLossKey(loss)) && !confirmedLost.has(toLossKey(loss)),
  );
  for (const loss of apart) {
    await collectPlans(run, planRefetch([loss]), 'backfill', { journalTicksMax: Number.POSITIVE_INFINITY });
    await publishJournal(run);
  }
}

/** Says what is lost where there is nobody to ask for it: told as a failure, but not as one that was tried. */
export function reportLossesWithoutUpstream(run: Run): void {
  const lost = listLostTickWindows(run).filter(({ reportedAt }) => reportedAt === null);
  const held = countPublishedTicks(run.archive, lost);
  for (const [i, { symbol, from, to, ticks }] of lost.entries()) {
    const reason = `lost: ${held[i]} of ${ticks} ticks are left, and nobody was asked: there is no upstream in the settings`;
    run.failures.push({ symbol, from, to, reason });
  }
}

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
