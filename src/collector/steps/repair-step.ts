import type { LostWindow } from '../../archive/format/coverage.ts';
import { recordVerification } from '../../archive/integrity/daily-hash-share.ts';
import { type RepairReport, repairArchive, type UnrecoverableRows } from '../../archive/integrity/repair.ts';
import type { RecordedLoss } from '../../archive/journal/gap-records.ts';
import { addPublishedTicks } from '../../archive/journal/runs.ts';
import type { SortKey } from '../../archive/parquet/row-group-index.ts';
import { countPublishedTicks } from '../../archive/publish/count-ticks.ts';
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
 * Repairs the archive. Rows that no request can restore are failures of the run.
 * @throws DamageError if the state is damaged, so that no requests follow from it; `show` is called before
 */
export async function repairDamage(run: Run, show?: (repaired: RepairReport) => void): Promise<void> {
  const { context, archive } = run;
  const { clock, waitMs, signal } = context;
  const display = await context.startDisplay('verify', 1, 'files');
  let repaired: RepairReport;
  const startedAt = clock.nowMs();
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
  // The repair has verified all published files, and none of them is damaged any more.
  recordVerification(archive, { ...repaired, findings: [] }, run.id, startedAt);
  for (const file of repaired.written) run.files.set(file.path, file);
  const lost = repaired.repaired.reduce(
    (sum, { path, rows_lost }) => sum + (path.startsWith('ticks/') ? (rows_lost ?? 0) : 0),
    0,
  );
  if (lost > 0) addPublishedTicks(archive.state.db, run.id, { added: 0, lost });
  for (const rows of repaired.unrecoverable) {
    run.failures.push({
      symbol: null,
      from: null,
      to: null,
      reason: `lost permanently: ${formatUnrecoverableRows(rows)}`,
    });
  }
  if (repaired.repaired.length > 0)
    context.log.info({ files: repaired.repaired.length, generation: repaired.generation }, 'repaired');
  show?.(repaired);
  // Last, because the repair needed the state.
  if (repaired.state !== null) throw new DamageError(repaired.state);
}

/** `3 rows of markets in markets/…, from A to B`. */
function formatUnrecoverableRows({ dataset, path, rows, first, last }: UnrecoverableRows): string {
  const range = first === null || last === null ? '' : `, from ${formatKey(first)} to ${formatKey(last)}`;
  const uncovered = dataset === 'ticks' ? ' without coverage' : '';
  return `${rows} row${rows === 1 ? '' : 's'} of ${dataset}${uncovered} in ${path}${range}`;
}

const formatKey = (key: SortKey): string => `(${key.map((value) => value ?? 'null').join(', ')})`;

/** Plans that fetch the lost windows completely, of all symbols in any state. */
const planRefetch = (lost: readonly RecordedLoss[]): SymbolPlan[] =>
  [...Map.groupBy(lost, ({ symbol }) => symbol)].map(([symbol, windows]) => ({
    symbol,
    windows: union(windows),
    isFirst: false,
  }));

/**
 * Fetches all lost windows and publishes. A window counts as restored only if its responses are published together. If the
 * journal grew so large that it was published on the way, the windows that this split are fetched again one by one, without
 * a limit on the journal; a window is at most a day of one symbol.
 */
export async function refetchLostWindows(run: Run): Promise<void> {
  const plans = planRefetch(listLostTickWindows(run));
  if (plans.length === 0) return;
  const generation = run.archive.state.generation();
  await collectPlans(run, plans, 'backfill');
  const wasPublished = run.archive.state.generation() !== generation;
  await publishJournal(run);
  if (!wasPublished) return;
  const { tried, confirmedLost } = run.lostWindows;
  const split = listLostTickWindows(run).filter(
    (loss) => tried.has(toLossKey(loss)) && !confirmedLost.has(toLossKey(loss)),
  );
  for (const loss of split) {
    await collectPlans(run, planRefetch([loss]), 'backfill', { journalTicksMax: Number.POSITIVE_INFINITY });
    await publishJournal(run);
  }
}

/** Reports lost windows without an upstream: as failures, but not marked as reported, because none was tried. */
export function reportLossesWithoutUpstream(run: Run): void {
  const lost = listLostTickWindows(run).filter(({ reportedAt }) => reportedAt === null);
  const held = countPublishedTicks(run.archive, lost);
  for (const [i, { symbol, from, to, ticks }] of lost.entries()) {
    const reason = `lost: ${held[i]} of ${ticks} ticks are left; no upstream is set, so none were requested`;
    run.failures.push({ symbol, from, to, kind: 'lost', reason });
  }
}

/**
 * Restores lost ticks from raw responses, without requests, and publishes. Ignores unreadable files, because the upstream
 * can still be asked.
 *
 * A window counts as restored only if its responses are published together. Windows are therefore processed in batches whose
 * lost ticks fit in the journal, with one publish for each batch.
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
  // An old response does not say what the upstream has now.
  run.lostWindows.confirmedLost.clear();
}

/** Splits windows, in order, into non-empty batches of at most `ticksMax` lost ticks; a larger window is a batch alone. */
function splitLossesIntoBatches(lost: readonly LostWindow[], ticksMax: number): LostWindow[][] {
  const out: LostWindow[][] = [];
  let ticksLeft = 0;
  for (const window of lost) {
    if (out.length === 0 || window.ticks > ticksLeft) {
      out.push([]);
      ticksLeft = ticksMax;
    }
    out.at(-1)!.push(window);
    ticksLeft -= window.ticks;
  }
  return out;
}

/** Journals the responses that overlap lost windows. `lost` is by symbol. */
async function replayBatch(
  run: Run,
  files: readonly ImportFile[],
  lost: ReadonlyMap<string, readonly LostWindow[]>,
): Promise<void> {
  const { context } = run;
  const { source, poll } = context.settings;
  const futureMs = context.clock.nowMs() + poll.futureSkewSeconds * 1000;
  // Responses are journaled unchanged, so no scratch files are needed.
  const options = { preferred: false, futureMs, scratch: '', journalTicksMax: Number.POSITIVE_INFINITY };
  const writer = openImportWriter(run, options);
  const display = await context.startDisplay('raw responses', files.length, 'files');
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

/** Whether the window of a response overlaps a lost window. */
function hasLostOverlap({ asked }: RawPage, getLostWindows: (symbol: string) => readonly Window[]): boolean {
  if (asked.route !== 'ticks' || asked.meaning === null) return false;
  const requested = [{ from: asked.from, to: asked.to }, asked.meaning.asked];
  return getLostWindows(asked.symbol).some((window) => requested.some((part) => !isEmpty(intersectTwo(part, window))));
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
