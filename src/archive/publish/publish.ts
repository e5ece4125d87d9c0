import { DamageError, exitCodes, OddslakeError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { parseDayStart } from '../../base/time.ts';
import { floorToDay } from '../../base/window.ts';
import type { CandleInterval } from '../format/candles.ts';
import { type CoveredWindow, type LostWindow, overlayLayersOnto, withdrawCoverage } from '../format/coverage.ts';
import { toDayPath } from '../format/layout.ts';
import { formatVersion, type Manifest, type PublishedFile } from '../format/manifest.ts';
import { createUnknownSymbol, mergeMarkets, type SymbolFacts } from '../format/market.ts';
import { addSegments, readAllSegments, retractSegments } from '../journal/coverage.ts';
import { type Database, evidenceSinceKey, setMeta } from '../journal/database.ts';
import { dropLost, readLostWindows } from '../journal/gap-records.ts';
import { readCommitState, SupersededError } from '../journal/intent.ts';
import { countJournaledTicks, type JournalBin, readMarketPolls } from '../journal/journal.ts';
import { type BookResponse, consumeBooks } from '../journal/journal-books.ts';
import { consumeJournal, emptyIndex, indexJournal, isJournalDamage } from '../journal/journal-check.ts';
import { takeWriteLock, type WriteLock } from '../journal/lock.ts';
import { recordBooksObserved, recordPrecedence } from '../journal/precedence.ts';
import {
  addLateTickCount,
  addPublishedTicks,
  addRecoveredTicks,
  addRunTally,
  createBrokenRunCheck,
} from '../journal/runs.ts';
import { addTickDeltas, readAllSymbols } from '../journal/symbols.ts';
import { type Archive, requireCurrentFormat, requirePublishedManifest } from '../open-archive.ts';
import { commitStage, finishIntent } from './commit.ts';
import { readDayCoverage, readDayMarkets, stageDayTable, toCoverageRows, toMarketRows } from './day-tables.ts';
import { createJournalSource, type ImportBuffer, joinSources } from './import-buffer.ts';
import type { LateTickRules } from './late-ticks.ts';
import { inlineWorker, type MergeWorkers } from './merge-partition.ts';
import {
  type BinResult,
  type DayInput,
  listCandleIntervals,
  stageBooks,
  stageDays,
  stageMissingCandles,
} from './publish-day.ts';
import { type JournalQuarantine, quarantineDamagedJournal, stageRejectedRows } from './quarantine.ts';
import {
  createNextManifest,
  isPublishedVerdictOutdated,
  isSuperseded,
  type JudgeContext,
  recordStagedFiles,
  type Stage,
  sortMoves,
  stageSymbols,
  startStage,
} from './staging.ts';

export interface PublishOptions extends JudgeContext {
  readonly runId: string;
  /** How long to wait for another writer, in ms. */
  readonly waitMs: number;
  /** The intervals to keep candles of, besides those that are there. */
  readonly candles: readonly CandleInterval[];
  /** Bytes that the whole quarantine may have; unbounded where it is not given. */
  readonly quarantineBytesMax?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, total: number) => void;
  /** Where late ticks are to be counted: see `LateTickRules`. */
  readonly late?: LateTickRules | undefined;
  /** What an import has read, besides what is journaled. */
  readonly intake?: ImportBuffer | undefined;
  /**
   * Who works on the parts, where so many ticks are to be gone through, old and new; the caller's own thread where it is not
   * given.
   */
  readonly workers?: ((ticks: number) => Promise<MergeWorkers>) | undefined;
  /** Make a generation though nothing is to be taken in: what days and watermark are judged by has changed. */
  readonly judges?: boolean;
  /** Bring an older format up, taking in nothing that is journaled. Any other publish refuses an older format. */
  readonly upgrades?: boolean;
}

export interface PublishResult {
  /** What was published when the lock was had, */
  readonly previousManifest: Manifest;
  /** and what is now. */
  readonly manifest: Manifest;
  /** Files that this publish wrote. */
  readonly files: readonly PublishedFile[];
  /** Lost windows that answers covered wholly, with fewer ticks than were once had: they stay lost. */
  readonly lacking: readonly LostWindow[];
  /** How late the ticks of re-read windows were, in ms; 0 where none was. See `LateTickRules`. */
  readonly latenessMs: number;
  /** Sentences on damaged files that nothing was merged into; what was for them stays journaled. */
  readonly refused: readonly string[];
  /** What of the journal was damaged and is quarantined; null where nothing was. */
  readonly quarantined: JournalQuarantine | null;
}

/**
 * Merges what is journaled into the published tree and makes the candles that are missing: one new generation, all or
 * nothing. Nothing journaled, no candles missing and no other verdict on gaps and damage: no new one.
 */
export async function publish(archive: Archive, options: PublishOptions): Promise<PublishResult> {
  let quarantined: JournalQuarantine | null = null;
  let isChecked = false;
  for (let attempt = 1; ; attempt++) {
    const lock = await takePublishLock(archive, options);
    try {
      finishIntent(archive);
      return { ...(await publishLocked(archive, options)), quarantined };
    } catch (error) {
      if (isJournalDamage(error) && !isChecked) {
        isChecked = true;
        quarantined = quarantineDamagedJournal(archive);
        continue;
      }
      if (!(error instanceof SupersededError)) throw error;
      if (attempt < publishAttemptsMax) continue;
      options.intake?.journalTo(archive.state);
      throw error;
    } finally {
      lock.release();
    }
  }
}

/** How often a publish begins again because another one committed beside it, which only the loss of a lock allows. */
const publishAttemptsMax = 3;

async function takePublishLock(archive: Archive, options: PublishOptions): Promise<WriteLock> {
  const otherwise =
    options.upgrades === true ? undefined : 'What was collected is journaled; the next publish takes it in.';
  try {
    return await takeWriteLock(archive.layout.lockPath, options.waitMs, options.clock, options.signal, otherwise);
  } catch (error) {
    // Somebody else publishes for long: what was read waits in the journal, as it does for those who collect.
    if (error instanceof OddslakeError && error.exitCode === exitCodes.busy) options.intake?.journalTo(archive.state);
    throw error;
  }
}

/** Finishes a publish that was broken after its commit point, if there is one. */
export async function recoverPublish(
  archive: Archive,
  waitMs: number,
  clock: Clock,
  signal?: AbortSignal,
): Promise<void> {
  const lock = await takeWriteLock(archive.layout.lockPath, waitMs, clock, signal);
  try {
    finishIntent(archive);
  } finally {
    lock.release();
  }
}

type LockedPublishResult = Omit<PublishResult, 'quarantined'>;

async function publishLocked(archive: Archive, options: PublishOptions): Promise<LockedPublishResult> {
  const { db } = archive.state;
  const builtOn = readCommitState(db);
  requirePublishedManifest(archive);
  const base = archive.readManifest();
  const upgrades = options.upgrades === true;
  if (!upgrades) requireCurrentFormat(archive);
  else if (base.format_version === formatVersion)
    return { previousManifest: base, manifest: base, files: [], lacking: [], latenessMs: 0, refused: [] };
  const stage = startStage(archive, base, builtOn);
  try {
    return await mergeAndCommit(archive, stage, options);
  } catch (error) {
    throw isSuperseded(archive, stage, error) ? new SupersededError({ cause: error }) : error;
  }
}

async function mergeAndCommit(archive: Archive, stage: Stage, options: PublishOptions): Promise<LockedPublishResult> {
  const { db } = archive.state;
  const { base } = stage;
  const upgrades = options.upgrades === true;
  const index = upgrades ? emptyIndex : indexJournal(db);
  const { end } = index;
  const { intake } = options;
  const source = joinSources([createJournalSource(db, index), ...(intake === undefined ? [] : [intake])]);
  const bins = source.listBins();
  const books = await stageBooks(archive, stage, index, options.signal);
  const intervals = listCandleIntervals(base, options.candles);
  let done = 0;
  const ofDays = await stageDays(archive, stage, {
    days: groupByDay(bins, books.answers),
    source,
    end,
    intervals,
    signal: options.signal,
    late: options.late,
    workers:
      (await options.workers?.(countPublishedRows(base, bins) + countJournaledTicks(db) + (intake?.ticks ?? 0))) ??
      inlineWorker,
    onPart: () => options.onProgress?.(++done, bins.length),
  });
  const { bins: taken, answers: answered } = ofDays;
  const refused = [...books.refused, ...ofDays.refused];
  if (upgrades) refused.push(...stageLegacyCoverage(archive, stage));
  const missing = await stageMissingCandles(archive, stage, intervals, {
    signal: options.signal,
    onProgress: (made, total) => options.onProgress?.(bins.length + made, bins.length + total),
  });
  refused.push(...missing.filter((sentence) => !refused.includes(sentence)));
  const polls = stageMarkets(archive, stage, end, refused);
  const rejected = stageRejectedRows(archive, stage, end, options.quarantineBytesMax ?? Number.POSITIVE_INFINITY);
  const anyBooks = books.bins.length + answered.length > 0;
  const anything = taken.length + polls.length + stage.stagedFiles.size > 0 || rejected || anyBooks;
  if (!anything && !upgrades && options.judges !== true && !isPublishedVerdictOutdated(archive, base, options)) {
    if (intake !== undefined) db.transaction(() => intake.commitTo(archive.state, []));
    return { previousManifest: base, manifest: base, files: [], lacking: [], latenessMs: 0, refused };
  }
  const symbols = computeSymbolsAfter(readAllSymbols(db), intake?.seen ?? new Map(), taken, options.clock.nowMs());
  if (!upgrades) stageSymbols(archive, stage, symbols);
  const after = {
    symbols,
    coverage: computeCoverageAfter(db, taken),
    lost: computeLostAfter(readLostWindows(db), taken),
  };
  const manifest = createNextManifest(archive, stage, after, options);
  commitStage(archive, stage, manifest, sortMoves(stage), () => {
    consumeBooks(db, books.bins, answered, end);
    recordBooksObserved(db, books.observed);
    recordStagedFiles(archive, stage, manifest.created_at);
    recordPublish(archive, options, taken, end, polls);
    if (base.format_version < 3 && base.generation > 0) setMeta(db, evidenceSinceKey, String(options.clock.nowMs()));
  });
  const lacking = taken.flatMap((bin) => bin.lacking);
  const files = [...stage.stagedFiles.values()].map((staged) => staged.file);
  const { latenessMs } = sumLateTicks(taken);
  return { previousManifest: base, manifest, files, lacking, latenessMs, refused };
}

/**
 * Stages coverage with the columns that an older format lacks; holds one day in memory. Returns why days were left out:
 * what is published there is damaged.
 */
function stageLegacyCoverage(archive: Archive, stage: Stage): string[] {
  const refused: string[] = [];
  for (const { date } of stage.base.datasets.coverage.files) {
    const day = parseDayStart(date!);
    try {
      stageDayTable(archive, stage, 'coverage', day, toCoverageRows(readDayCoverage(archive, stage.base, day)));
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.push(error.message);
    }
  }
  return refused;
}

/** How many ticks are published in parts. */
function countPublishedRows(base: Manifest, bins: readonly JournalBin[]): number {
  const rows = new Map(base.datasets.ticks.files.map((file) => [file.path, file.rows]));
  return bins.reduce((sum, { day, part }) => sum + (rows.get(toDayPath('ticks', day, part)) ?? 0), 0);
}

/** What is journaled of each day, in the order of days. */
function groupByDay(bins: readonly JournalBin[], answers: ReadonlyMap<number, readonly BookResponse[]>): DayInput[] {
  const byDay = Map.groupBy(bins, (bin) => bin.day);
  const days = [...new Set([...byDay.keys(), ...answers.keys()])].sort((a, b) => a - b);
  return days.map((day) => ({ day, bins: byDay.get(day) ?? [], answers: answers.get(day) ?? [] }));
}

/** The market polls that were taken in, by record; a day whose published file is damaged takes in none. */
function stageMarkets(archive: Archive, stage: Stage, end: number, refused: string[]): number[] {
  const polls = [...readMarketPolls(archive.state.db, end)];
  const taken: number[] = [];
  for (const [day, ofDay] of Map.groupBy(polls, (poll) => floorToDay(poll.observedAt))) {
    try {
      const rows = mergeMarkets(readDayMarkets(archive, stage.base, day), ofDay);
      stageDayTable(archive, stage, 'markets', day, toMarketRows(rows));
      taken.push(...ofDay.map((poll) => poll.recordId));
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.push(error.message);
    }
  }
  return taken;
}

const sumLateTicks = (taken: readonly BinResult[]): { ticks: number; latenessMs: number } => ({
  ticks: taken.reduce((sum, { late }) => sum + late.ticks, 0),
  latenessMs: taken.reduce((max, { late }) => Math.max(max, late.latenessMs), 0),
});

/** The symbols as they will be once this publish is committed; the state does the same sum in `addTickDeltas`. */
function computeSymbolsAfter(
  symbols: readonly SymbolFacts[],
  seen: ReadonlyMap<string, number>,
  taken: readonly BinResult[],
  nowMs: number,
): SymbolFacts[] {
  const bySymbol = new Map(symbols.map((facts) => [facts.symbol, facts]));
  for (const [symbol, at] of seen) if (!bySymbol.has(symbol)) bySymbol.set(symbol, createUnknownSymbol(symbol, at));
  for (const { symbol, added, first, last } of taken.flatMap((bin) => bin.deltas)) {
    const facts = bySymbol.get(symbol) ?? createUnknownSymbol(symbol, nowMs);
    bySymbol.set(symbol, {
      ...facts,
      ticks: facts.ticks + added,
      firstTick: Math.min(facts.firstTick ?? first, first),
      lastTick: Math.max(facts.lastTick ?? last, last),
    });
  }
  return [...bySymbol.values()].sort((a, b) => compareUtf8(a.symbol, b.symbol));
}

/** The published coverage as it will be. */
function computeCoverageAfter(db: Database, taken: readonly BinResult[]): Map<string, CoveredWindow[]> {
  const coverage: Map<string, CoveredWindow[]> = readAllSegments(db);
  for (const [symbol, windows] of joinBySymbol(taken.map(({ withdrawn }) => withdrawn)))
    coverage.set(symbol, withdrawCoverage(coverage.get(symbol) ?? [], windows));
  for (const [symbol, added] of joinBySymbol(taken.map(({ covered }) => covered))) {
    coverage.set(symbol, overlayLayersOnto(coverage.get(symbol) ?? [], added));
  }
  return coverage;
}

/** The windows that are lost once this publish is committed. */
function computeLostAfter(lost: readonly LostWindow[], taken: readonly BinResult[]): LostWindow[] {
  const keyOf = ({ dataset, symbol, from }: LostWindow): string => `${dataset} ${from} ${symbol}`;
  const restored = new Set(taken.flatMap((bin) => bin.restored.map(keyOf)));
  return lost.filter((window) => !restored.has(keyOf(window)));
}

/** What the state must know of a publish; in its transaction. */
function recordPublish(
  archive: Archive,
  options: PublishOptions,
  taken: readonly BinResult[],
  end: number,
  polls: readonly number[],
): void {
  const { db } = archive.state;
  const bins = taken.map(({ bin }) => bin);
  options.intake?.commitTo(archive.state, bins);
  const { runId: own } = options;
  const isBroken = createBrokenRunCheck(db, own);
  let added = 0;
  for (const { merged, deltas } of taken) {
    addTickDeltas(db, deltas, options.clock.nowMs());
    recordPrecedence(db, merged.precedence);
    for (const [runId, tally] of merged.tallies) {
      if (isBroken(runId)) addRecoveredTicks(db, own, runId, tally);
      else addRunTally(db, runId, tally);
    }
    for (const count of merged.added.values()) added += count;
  }
  addPublishedTicks(db, own, { added, lost: 0 });
  const { ticks } = sumLateTicks(taken);
  if (ticks > 0) addLateTickCount(db, options.runId, ticks);
  for (const [symbol, windows] of joinBySymbol(taken.map(({ withdrawn }) => withdrawn)))
    retractSegments(db, symbol, windows);
  for (const [symbol, covered] of joinBySymbol(taken.map(({ covered }) => covered)))
    addSegments(db, symbol, covered, options.lifetimeRules.settleMs);
  for (const { restored } of taken) dropLost(db, restored);
  consumeJournal(db, bins, end, polls);
}

/** What came of each symbol, over all days. */
function joinBySymbol<T>(bins: readonly ReadonlyMap<string, readonly T[]>[]): Map<string, T[]> {
  const out = new Map<string, T[]>();
  for (const ofBin of bins) {
    for (const [symbol, items] of ofBin) {
      const list = out.get(symbol);
      if (list === undefined) out.set(symbol, [...items]);
      else for (const item of items) list.push(item);
    }
  }
  return out;
}
