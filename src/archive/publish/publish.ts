import { exitCodes, OddslakeError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { joinLists } from '../../base/push-to.ts';
import { type Archive, requirePublishedManifest } from '../archive.ts';
import { createBackgroundWrites } from '../disk/background-writes.ts';
import { type CoveredWindow, type LostWindow, overlayCoverage, withdrawCoverage } from '../format/coverage.ts';
import type { CandleInterval } from '../format/datasets.ts';
import type { DayPart } from '../format/day-parts.ts';
import { toDayPath } from '../format/layout.ts';
import { hasRows, type Manifest, type PublishedFile } from '../format/manifest.ts';
import type { SymbolFacts } from '../format/market.ts';
import { flattenWithdrawals, overlayWithdrawals, type PublishedWithdrawal } from '../format/withdrawals.ts';
import { reopenSymbols } from '../journal/closed-symbols.ts';
import { overlayPublishedCoverage, readPublishedCoverageOf, retractCoverage } from '../journal/coverage-store.ts';
import type { Database } from '../journal/database.ts';
import { dropLost, readLostWindows } from '../journal/gap-records.ts';
import { readCommitState, SupersededError } from '../journal/intent.ts';
import { type BookResponse, consumeBooks } from '../journal/journal-books.ts';
import { consumeJournal, indexJournal } from '../journal/journal-check.ts';
import { countJournaledTicks, countJournaledWindows, isJournalDamage } from '../journal/journal-rows.ts';
import { consumeSeries } from '../journal/journal-series.ts';
import { takeWriteLock, type WriteLock } from '../journal/lock.ts';
import { recordBooksObserved, recordPrecedence } from '../journal/precedence-store.ts';
import {
  addPublishedTicks,
  addRecoveredTicks,
  addRunTally,
  createInterruptedRunCheck,
  formatUnfinishedRuns,
} from '../journal/runs.ts';
import { addSeriesTally } from '../journal/series-counts.ts';
import { readAllSymbols } from '../journal/symbol-store.ts';
import { addTickDeltas } from '../journal/tick-counts.ts';
import { readJudgedSymbols } from '../known-state.ts';
import { commitStage, finishIntent } from './commit.ts';
import { chooseDayParts } from './day-part-choice.ts';
import { mergeMarketPolls, stageMarkets } from './day-tables.ts';
import { createIntakeSeries, createIntakeSource, createJournalSource, joinSources } from './import-buffer.ts';
import type { LateTickRules } from './late-ticks.ts';
import { inlineWorker, type MergeWorkers } from './merge-partition.ts';
import {
  type PriceBreak,
  type PriceCheck,
  type PriceCheckOptions,
  SuspectPricesError,
  startPriceCheck,
} from './price-check.ts';
import { type DayInput, type PartResult, stageBooks, stageDays } from './publish-day.ts';
import { type SeriesCoverage, type StagedSeries, stageSeries } from './publish-series.ts';
import { type JournalQuarantine, quarantineDamagedJournal, stageRejectedRows } from './quarantine.ts';
import { commitQuietly, hasNothingNew, isQuiet } from './quiet-publish.ts';
import { listCandleIntervals, stageMissingCandles } from './stage-candles.ts';
import { stageMissingEmptyFiles } from './stage-empty-files.ts';
import { computeSymbolsAfter, stageSymbols } from './stage-symbols.ts';
import {
  createNextManifest,
  finishWrites,
  isPublishedCompletenessOutdated,
  isSuperseded,
  type JudgeContext,
  recordStagedFiles,
  type Stage,
  sortMoves,
  startStage,
} from './staging.ts';

export interface PublishOptions extends JudgeContext, PriceCheckOptions {
  /** How long to wait for another writer, in ms. */
  readonly waitMs: number;
  /** Intervals to compute candles for, besides those that the archive already has. */
  readonly candles: readonly CandleInterval[];
  /** Maximum size of the quarantine in bytes, if it differs from the default. */
  readonly quarantineBytesMax?: number | undefined;
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, total: number) => void;
  /** Set to count late ticks; one for each source, since a publish merges what all of their runs have journaled. */
  readonly late?: readonly LateTickRules[] | undefined;
  /**
   * Opens workers for merging. The argument is the number of rows to process: published and new ticks, and the rows of series
   * of an import. Default: the calling thread.
   */
  readonly workers?: ((rows: number) => Promise<MergeWorkers>) | undefined;
  /**
   * Create no generation if it would add nothing but coverage of today and last-seen times, as long as the journal has at
   * most this many windows; see quiet-publish.ts. By default they are published. Not with `intake`.
   */
  readonly quietWindowsMax?: number;
  /** Create a generation even without input, because the rules for judging days and watermark have changed. */
  readonly judges?: boolean;
}

export interface PublishResult {
  /** The current manifest. */
  readonly manifest: Manifest;
  /** Files with rows that this publish wrote. */
  readonly files: readonly PublishedFile[];
  /** Lost windows that were fetched completely with fewer ticks than were once published. They stay lost. */
  readonly lacking: readonly LostWindow[];
  /** How late the ticks of each source are that has late ones. */
  readonly late: readonly SourceLateness[];
  /** One message per damaged file that was skipped. Its input stays journaled. */
  readonly refused: readonly string[];
  /** The quarantined rows of a damaged journal; null if it is intact. */
  readonly quarantined: JournalQuarantine | null;
  /** What was not merged because its prices are in another unit. */
  readonly priceBreaks: readonly PriceBreak[];
}

type SourceLateness = Pick<LateTickRules, 'source'> & { readonly latenessMs: number };

/**
 * Merges the journal into the published files, adds missing candles, and commits the result atomically as one
 * generation. Creates no generation if the journal is empty, no candles are missing and the completeness is unchanged.
 */
export async function publish(archive: Archive, options: PublishOptions): Promise<PublishResult> {
  let quarantined: JournalQuarantine | null = null;
  let isChecked = false;
  const prices = startPriceCheck(archive, options);
  for (let attempt = 1; ; attempt++) {
    const { intake } = prices;
    using _lock = await takePublishLock(archive, { ...options, intake });
    try {
      finishIntent(archive);
      prices.begin();
      const result = await withStage(archive, (stage) =>
        mergeAndCommit(archive, stage, { ...options, intake, prices }),
      );
      return { ...result, quarantined, priceBreaks: prices.breaks };
    } catch (error) {
      if (error instanceof SuspectPricesError) {
        prices.quarantineSuspects();
        continue;
      }
      if (isJournalDamage(error) && !isChecked) {
        isChecked = true;
        quarantined = quarantineDamagedJournal(archive);
        continue;
      }
      if (!(error instanceof SupersededError)) throw error;
      if (attempt < publishAttemptsMax) continue;
      journalIntake(archive, { intake });
      throw error;
    }
  }
}

/** Attempts of a publish when another one commits meanwhile, which can happen only after a lost lock. */
export const publishAttemptsMax = 3;

async function takePublishLock(archive: Archive, options: PublishOptions): Promise<WriteLock> {
  const { waitMs, clock, signal } = options;
  const describe = (): string =>
    `${formatUnfinishedRuns(archive.state.db, options.runId)}The collected ticks are in the journal; the next publish includes them.`;
  try {
    return await takeWriteLock(archive.layout.lockPath, waitMs, clock, signal, describe);
  } catch (error) {
    // If another process holds the lock for a long time, the imported ticks stay in the journal, like collected ticks.
    if (error instanceof OddslakeError && error.exitCode === exitCodes.busy) journalIntake(archive, options);
    throw error;
  }
}

/** Finishes a publish that was interrupted after its commit point, if there is one. */
export async function recoverPublish(
  archive: Archive,
  waitMs: number,
  clock: Clock,
  signal?: AbortSignal,
): Promise<void> {
  using _lock = await takeWriteLock(archive.layout.lockPath, waitMs, clock, signal);
  finishIntent(archive);
}

type LockedPublishResult = Omit<PublishResult, 'quarantined' | 'priceBreaks'>;

/**
 * Stages and commits a generation. Requires the write lock.
 * @throws SupersededError if another run published meanwhile
 */
export async function withStage<T>(archive: Archive, work: (stage: Stage) => Promise<T>): Promise<T> {
  const builtOn = readCommitState(archive.state.db);
  requirePublishedManifest(archive);
  const base = archive.readManifest();
  const writes = createBackgroundWrites();
  const stage = startStage(archive, base, builtOn, writes);
  try {
    return await work(stage);
  } catch (error) {
    throw isSuperseded(archive, stage, error) ? new SupersededError({ cause: error }) : error;
  } finally {
    await writes.settle();
  }
}

type MergeOptions = PublishOptions & { readonly prices: PriceCheck };

async function mergeAndCommit(archive: Archive, stage: Stage, options: MergeOptions): Promise<LockedPublishResult> {
  const { db } = archive.state;
  const { base } = stage;
  const { intake } = options;
  const nowMs = options.clock.nowMs();
  const sources = intake === undefined ? [] : [intake.ticks, intake.series];
  const index = indexJournal(db, (journaled) => {
    stage.parts = chooseDayParts(base, { journaled, sources, parts: archive.parts });
    return stage.parts;
  });
  const { end } = index;
  const source = joinSources([
    createJournalSource(db, index),
    ...(intake === undefined ? [] : [createIntakeSource(intake.ticks, stage.parts)]),
  ]);
  const parts = source.listParts();
  const books = await stageBooks(archive, stage, index, options.signal);
  const intervals = listCandleIntervals(base, options.candles);
  const rows = countPublishedRows(base, parts) + countJournaledTicks(db) + (intake?.ticks.rows ?? 0);
  const workers = (await options.workers?.(rows + (intake?.series.rows ?? 0))) ?? inlineWorker;
  const series = await stageSeries(
    archive,
    stage,
    index,
    intake && createIntakeSeries(intake.series, stage.parts),
    { intervals, tickParts: parts },
    workers,
    options.signal,
  );
  let done = 0;
  const stagedDays = await stageDays(archive, stage, {
    days: groupByDay(parts, books.answers, series.coverage),
    source,
    end,
    intervals,
    signal: options.signal,
    late: options.late ?? [],
    workers,
    onPart: () => options.onProgress?.(++done, parts.length),
    onConflicts: options.prices.note,
  });
  const { results, answers: coveredResponses } = stagedDays;
  options.prices.requireUsual();
  // Coverage and conflicts of a part are read for its series and for its ticks.
  const refused = [...new Set([...books.refused, ...series.refused, ...stagedDays.refused])];
  const missing = await stageMissingCandles(archive, stage, intervals, {
    signal: options.signal,
    onProgress: (candlesDone, total) => options.onProgress?.(parts.length + candlesDone, parts.length + total),
  });
  refused.push(...missing.filter((message) => !refused.includes(message)));
  const { recordIds: polls, days: markets } = mergeMarketPolls(archive, stage, end, refused);
  const hasRejected = stageRejectedRows(archive, stage, end, options.quarantineBytesMax);
  const hasOthers = books.parts.length + coveredResponses.length + series.parts.length > 0;
  const hasInput = results.length + polls.length + stage.stagedFiles.size > 0 || hasRejected || hasOthers;
  if (!hasInput && options.judges !== true && !isPublishedCompletenessOutdated(archive, base, options)) {
    journalIntake(archive, options);
    return { manifest: base, files: [], lacking: [], late: [], refused };
  }
  // In the order in which the commit inserts unknown symbols into the state.
  const seen = [...(intake?.series.seen ?? []), ...(intake?.ticks.seen ?? [])];
  stageSymbols(archive, stage, computeSymbolsAfter(readAllSymbols(db), seen, results, nowMs));
  const judged = readJudgedWith(db, seen, options);
  const symbols = computeSymbolsAfter(judged.symbols, seen, results, nowMs);
  const withdrawn = results.flatMap(({ withdrawn: ofPart }) => flattenWithdrawals(ofPart));
  const listed = [...(base.datasets.coverage.withdrawn ?? []), ...withdrawn];
  const after = { ...judged, symbols, ...computeClaimsAfter(db, readLostWindows(db), listed, results, symbols) };
  const mayBeQuiet =
    permitsQuiet(db, options) && !(hasRejected || hasOthers) && refused.length === 0 && results.every(hasNothingNew);
  // A quiet publish needs no file of markets that were only seen again.
  const deferred = mayBeQuiet ? markets.filter(({ isOnlySeenAgain }) => isOnlySeenAgain) : [];
  stageMarkets(
    archive,
    stage,
    markets.filter((each) => !deferred.includes(each)),
  );
  stageMissingEmptyFiles(archive, stage);
  let manifest = createNextManifest(archive, stage, after, options);
  if (mayBeQuiet && isQuiet(archive, stage, manifest, options.clock.nowMs())) {
    const merged = results.map(({ part }) => part);
    commitQuietly(archive, stage, manifest, { runId: options.runId, results, parts: merged, end });
    return { manifest: base, files: [], lacking: [], late: [], refused };
  }
  if (deferred.length > 0) {
    stageMarkets(archive, stage, deferred);
    manifest = createNextManifest(archive, stage, after, options);
  }
  await finishWrites(archive, stage);
  commitStage(archive, stage, manifest, sortMoves(stage), () => {
    consumeBooks(db, books.parts, coveredResponses, end);
    recordBooksObserved(db, books.observed);
    recordSeries(archive, options, series, end);
    recordStagedFiles(archive, stage, manifest.created_at);
    recordPublish(archive, options, results, end, polls);
  });
  const lacking = results.flatMap((one) => one.lacking);
  const files = [...stage.stagedFiles.values()].map((staged) => staged.file).filter(hasRows);
  return { manifest, files, lacking, late: findLateness(options, results), refused };
}

/** Reads the symbols to judge. What is imported reopens its symbols, as what is journaled has done. */
const readJudgedWith = (db: Database, seen: Iterable<readonly [string, unknown]>, rules: JudgeContext) =>
  // One transaction, because the night of another process may be closing symbols.
  db.transaction(() => {
    reopenSymbols(db, seen);
    return readJudgedSymbols(db, rules);
  });

const permitsQuiet = (db: Database, { quietWindowsMax = -1, judges, intake }: PublishOptions): boolean =>
  countJournaledWindows(db) <= quietWindowsMax && judges !== true && intake === undefined;

/** Journals what an import has read, of which nothing was merged. */
function journalIntake({ state }: Archive, { intake }: Pick<PublishOptions, 'intake'>): void {
  intake?.ticks.journalTo(state);
  intake?.series.journalTo(state);
}

function countPublishedRows(base: Manifest, parts: readonly DayPart[]): number {
  const rows = new Map(base.datasets.ticks.files.map((file) => [file.path, file.rows]));
  return parts.reduce((sum, { day, part }) => sum + (rows.get(toDayPath('ticks', day, part)) ?? 0), 0);
}

/** Groups the input by day, sorted. */
export function groupByDay(
  parts: readonly DayPart[],
  responses: ReadonlyMap<number, readonly BookResponse[]>,
  series: ReadonlyMap<number, ReadonlyMap<number, SeriesCoverage>>,
): DayInput[] {
  const byDay = Map.groupBy(parts, ({ day }) => day);
  const days = [...new Set([...byDay.keys(), ...responses.keys(), ...series.keys()])].sort((a, b) => a - b);
  return days.map((day) => ({
    day,
    parts: byDay.get(day) ?? [],
    answers: responses.get(day) ?? [],
    series: series.get(day) ?? new Map(),
  }));
}

/** Records the merged rows of series in the state database. Runs in the commit's transaction. */
export function recordSeries(
  { state }: Archive,
  { runId, intake }: PublishOptions,
  series: StagedSeries,
  end: number,
): void {
  const { db } = state;
  const isBrokenRun = createInterruptedRunCheck(db, runId);
  for (const { dataset, precedence, tallies } of series.outcomes) {
    recordPrecedence(db, precedence, dataset);
    for (const [ofRun, tally] of tallies)
      addSeriesTally(db, { runId, ofRun, isBroken: isBrokenRun(ofRun) }, dataset, tally);
  }
  consumeSeries(db, series.parts, end);
  intake?.series.commitTo(state, series.parts);
}

const findLateness = ({ late: rules = [] }: PublishOptions, results: readonly PartResult[]): SourceLateness[] =>
  rules
    .map(({ source }, i) => ({ source, latenessMs: results.reduce((max, { late }) => Math.max(max, late[i]!), 0) }))
    .filter(({ latenessMs }) => latenessMs > 0);

/** What the archive claims to have after the commit. @param withdrawn the withdrawals listed before and those of the commit */
export function computeClaimsAfter(
  db: Database,
  lost: readonly LostWindow[],
  withdrawn: readonly PublishedWithdrawal[],
  results: readonly PartResult[],
  symbols: readonly SymbolFacts[],
) {
  const named = new Set([...symbols, ...withdrawn].flatMap(({ symbol }) => symbol ?? []));
  const coverage = computeCoverageAfter(readPublishedCoverageOf(db, named), results);
  return {
    coverage,
    lost: computeLostAfter(lost, results),
    withdrawn: overlayWithdrawals(withdrawn, coverage),
  };
}

function computeCoverageAfter(
  coverage: Map<string, CoveredWindow[]>,
  results: readonly PartResult[],
): Map<string, CoveredWindow[]> {
  for (const [symbol, windows] of joinLists(results.map(({ withdrawn }) => withdrawn)))
    coverage.set(symbol, withdrawCoverage(coverage.get(symbol) ?? [], windows));
  for (const [symbol, added] of joinLists(results.map(({ covered }) => covered)))
    coverage.set(symbol, overlayCoverage([...(coverage.get(symbol) ?? []), ...added]));
  return coverage;
}

function computeLostAfter(lost: readonly LostWindow[], results: readonly PartResult[]): LostWindow[] {
  const toKey = ({ dataset, symbol, from }: LostWindow): string => `${dataset} ${from} ${symbol}`;
  const restored = new Set(results.flatMap((one) => one.restored.map(toKey)));
  return lost.filter((window) => !restored.has(toKey(window)));
}

/** Records the publish in the state database. Runs in the commit's transaction. */
export function recordPublish(
  archive: Archive,
  options: PublishOptions,
  results: readonly PartResult[],
  end: number,
  polls: readonly number[],
): void {
  const { db } = archive.state;
  const merged = results.map(({ part }) => part);
  options.intake?.ticks.commitTo(archive.state, merged);
  const { runId: ownRunId } = options;
  const isBrokenRun = createInterruptedRunCheck(db, ownRunId);
  let added = 0;
  addTickDeltas(
    db,
    results.flatMap(({ deltas }) => deltas),
    options.clock.nowMs(),
  );
  recordPrecedence(
    db,
    results.flatMap(({ merged }) => merged.precedence),
  );
  for (const { merged } of results) {
    for (const [runId, tally] of merged.tallies) {
      if (isBrokenRun(runId)) addRecoveredTicks(db, ownRunId, runId, tally);
      else addRunTally(db, runId, tally);
    }
    for (const count of merged.added.values()) added += count;
  }
  addPublishedTicks(db, ownRunId, { added, lost: 0 });
  for (const [symbol, windows] of joinLists(results.map(({ withdrawn }) => withdrawn)))
    if (windows.length > 0) retractCoverage(db, symbol, windows);
  for (const [symbol, covered] of joinLists(results.map(({ covered }) => covered)))
    overlayPublishedCoverage(db, symbol, covered);
  for (const { restored } of results) dropLost(db, restored);
  consumeJournal(db, merged, end, polls);
}
