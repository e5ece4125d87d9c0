import type { CandleInterval } from '../../core/candles.ts';
import type { Clock } from '../../core/clock.ts';
import { compareUtf8 } from '../../core/compare-utf8.ts';
import { type Covered, overlayLayersOnto, withdrawFrom } from '../../core/coverage.ts';
import type { LostWindow } from '../../core/data-loss.ts';
import { DamageError, exitCodes, OddslakeError } from '../../core/errors.ts';
import { mergeMarkets, type SymbolFacts, unknownSymbol } from '../../core/market.ts';
import { dayStart } from '../../core/time.ts';
import { dayFloor } from '../../core/window.ts';
import { noteBooks } from '../../state/book-observed.ts';
import { addSegments, allSegments, retractSegments } from '../../state/coverage.ts';
import { dropLost, lostWindows } from '../../state/data-loss.ts';
import type { Database } from '../../state/database.ts';
import { readCommitState, SupersededError } from '../../state/intent.ts';
import { type Bin, journaledTicks, readMarkets } from '../../state/journal.ts';
import { type BookAnswer, consumeBooks } from '../../state/journal-books.ts';
import { emptyIndex, indexJournal } from '../../state/journal-check.ts';
import { isJournalDamage } from '../../state/journal-checksum.ts';
import { consume } from '../../state/journal-consume.ts';
import { takeWriteLock, type WriteLock } from '../../state/lock.ts';
import { evidenceSinceKey, setMeta } from '../../state/meta.ts';
import { noteStandings } from '../../state/precedence.ts';
import { addLate, addPublished, addRecovered, addTally, brokenBeside } from '../../state/runs.ts';
import { addTickDeltas, allSymbols } from '../../state/symbols.ts';
import { commit, finishIntent } from '../generation/commit.ts';
import { coverageRows, encodeDay, marketRows, readCoverage, readMarketRows } from '../generation/day-tables.ts';
import { isVerdictOutdated, type JudgedBy, movesOf, nextManifest, stageSymbols } from '../generation/next-manifest.ts';
import { isSuperseded, recordFiles, type Stage, startStage } from '../generation/staging.ts';
import { dayPath } from '../layout.ts';
import { formatVersion, type Manifest, type PublishedFile } from '../manifest.ts';
import { type Archive, requireCurrentFormat, requireOwnManifest } from '../open-archive.ts';
import type { Intake } from './import-buffer.ts';
import type { LateRules } from './late-ticks.ts';
import { stageBooks } from './publish-books.ts';
import { keptIntervals, stageMissingCandles } from './publish-candles.ts';
import { type BinOutcome, type DayInput, stageDays } from './publish-day.ts';
import { type QuarantinedRows, quarantineDamage, stageQuarantine } from './quarantine.ts';
import { joinSources, journalSource } from './tick-sources.ts';
import { ownThread, type PartWorkers } from './worker-pool.ts';

export interface PublishOptions extends JudgedBy {
  readonly runId: string;
  /** How long to wait for another writer, in ms. */
  readonly waitMs: number;
  /** The intervals to keep candles of, besides those that are there. */
  readonly candles: readonly CandleInterval[];
  /** Bytes that the whole quarantine may have; unbounded where it is not given. */
  readonly quarantineBytesMax?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, total: number) => void;
  /** Where late ticks are to be counted: see `LateRules`. */
  readonly late?: LateRules | undefined;
  /** What an import has read, besides what is journaled. */
  readonly intake?: Intake | undefined;
  /**
   * Who works on the parts, where so many ticks are to be gone through, old and new; the caller's own thread where it is not
   * given.
   */
  readonly workers?: ((ticks: number) => Promise<PartWorkers>) | undefined;
  /** Make a generation though nothing is to be taken in: what days and watermark are judged by has changed. */
  readonly judges?: boolean;
  /** Bring an older format up, taking in nothing that is journaled. Any other publish refuses an older format. */
  readonly upgrades?: boolean;
}

export interface Published {
  /** What was published when the lock was had, */
  readonly before: Manifest;
  /** and what is now. */
  readonly manifest: Manifest;
  /** Files that this publish wrote. */
  readonly files: readonly PublishedFile[];
  /** Lost windows that answers covered wholly, with fewer ticks than were once had: they stay lost. */
  readonly lacking: readonly LostWindow[];
  /** How late the ticks of re-read windows were, in ms; 0 where none was. See `LateRules`. */
  readonly latenessMs: number;
  /** Sentences on damaged files that nothing was merged into; what was for them stays journaled. */
  readonly refused: readonly string[];
  /** What of the journal was damaged and is quarantined; null where nothing was. */
  readonly quarantined: QuarantinedRows | null;
}

/**
 * Merges what is journaled into the published tree and makes the candles that are missing: one new generation, all or
 * nothing. Nothing journaled, no candles missing and no other verdict on gaps and damage: no new one.
 */
export async function publish(archive: Archive, options: PublishOptions): Promise<Published> {
  let quarantined: QuarantinedRows | null = null;
  let isChecked = false;
  for (let attempt = 1; ; attempt++) {
    const lock = await takeLock(archive, options);
    try {
      finishIntent(archive);
      return { ...(await publishLocked(archive, options)), quarantined };
    } catch (error) {
      if (isJournalDamage(error) && !isChecked) {
        isChecked = true;
        quarantined = quarantineDamage(archive);
        continue;
      }
      if (!(error instanceof SupersededError)) throw error;
      if (attempt < attemptsMax) continue;
      options.intake?.keep(archive.state);
      throw error;
    } finally {
      lock.release();
    }
  }
}

/** How often a publish begins again because another one committed beside it, which only the loss of a lock allows. */
const attemptsMax = 3;

async function takeLock(archive: Archive, options: PublishOptions): Promise<WriteLock> {
  const otherwise =
    options.upgrades === true ? undefined : 'What was collected is journaled; the next publish takes it in.';
  try {
    return await takeWriteLock(archive.layout.lock, options.waitMs, options.clock, options.signal, otherwise);
  } catch (error) {
    // Somebody else publishes for long: what was read waits in the journal, as it does for those who collect.
    if (error instanceof OddslakeError && error.exitCode === exitCodes.busy) options.intake?.keep(archive.state);
    throw error;
  }
}

/** Finishes a publish that was broken after its commit point, if there is one. */
export async function recover(archive: Archive, waitMs: number, clock: Clock, signal?: AbortSignal): Promise<void> {
  const lock = await takeWriteLock(archive.layout.lock, waitMs, clock, signal);
  try {
    finishIntent(archive);
  } finally {
    lock.release();
  }
}

type Outcome = Omit<Published, 'quarantined'>;

async function publishLocked(archive: Archive, options: PublishOptions): Promise<Outcome> {
  const { db } = archive.state;
  const builtOn = readCommitState(db);
  requireOwnManifest(archive);
  const base = archive.manifest();
  const upgrades = options.upgrades === true;
  if (!upgrades) requireCurrentFormat(archive);
  else if (base.format_version === formatVersion)
    return { before: base, manifest: base, files: [], lacking: [], latenessMs: 0, refused: [] };
  const stage = startStage(archive, base, builtOn);
  try {
    return await publishStage(archive, stage, options);
  } catch (error) {
    throw isSuperseded(archive, stage, error) ? new SupersededError({ cause: error }) : error;
  }
}

async function publishStage(archive: Archive, stage: Stage, options: PublishOptions): Promise<Outcome> {
  const { db } = archive.state;
  const { base } = stage;
  const upgrades = options.upgrades === true;
  const index = upgrades ? emptyIndex : indexJournal(db);
  const { end } = index;
  const { intake } = options;
  const source = joinSources([journalSource(db, index), ...(intake === undefined ? [] : [intake])]);
  const bins = source.bins();
  const books = await stageBooks(archive, stage, index, options.signal);
  const intervals = keptIntervals(base, options.candles);
  let done = 0;
  const ofDays = await stageDays(archive, stage, {
    days: daysOf(bins, books.answers),
    source,
    end,
    intervals,
    signal: options.signal,
    late: options.late,
    workers:
      (await options.workers?.(publishedIn(base, bins) + journaledTicks(db) + (intake?.ticks ?? 0))) ?? ownThread,
    onPart: () => options.onProgress?.(++done, bins.length),
  });
  const { bins: taken, answers: answered } = ofDays;
  const refused = [...books.refused, ...ofDays.refused];
  if (upgrades) refused.push(...stageOlderCoverage(archive, stage));
  const missing = await stageMissingCandles(archive, stage, intervals, {
    signal: options.signal,
    onProgress: (made, total) => options.onProgress?.(bins.length + made, bins.length + total),
  });
  refused.push(...missing.filter((sentence) => !refused.includes(sentence)));
  const polls = stageMarkets(archive, stage, end, refused);
  const rejected = stageQuarantine(archive, stage, end, options.quarantineBytesMax ?? Number.POSITIVE_INFINITY);
  const anyBooks = books.bins.length + answered.length > 0;
  const anything = taken.length + polls.length + stage.files.size > 0 || rejected || anyBooks;
  if (!anything && !upgrades && options.judges !== true && !isVerdictOutdated(archive, base, options)) {
    if (intake !== undefined) db.transaction(() => intake.settle(archive.state, []));
    return { before: base, manifest: base, files: [], lacking: [], latenessMs: 0, refused };
  }
  const symbols = symbolsAfter(allSymbols(db), intake?.seen ?? new Map(), taken, options.clock.nowMs());
  if (!upgrades) stageSymbols(archive, stage, symbols);
  const after = { symbols, coverage: coverageAfter(db, taken), lost: lostAfter(lostWindows(db), taken) };
  const manifest = nextManifest(archive, stage, after, options);
  commit(archive, stage, manifest, movesOf(stage), () => {
    consumeBooks(db, books.bins, answered, end);
    noteBooks(db, books.observed);
    recordFiles(archive, stage, manifest.created_at);
    record(archive, options, taken, end, polls);
    if (base.format_version < 3 && base.generation > 0) setMeta(db, evidenceSinceKey, String(options.clock.nowMs()));
  });
  const lacking = taken.flatMap((bin) => bin.lacking);
  const files = [...stage.files.values()].map((staged) => staged.file);
  const { latenessMs } = sumLate(taken);
  return { before: base, manifest, files, lacking, latenessMs, refused };
}

/**
 * Stages coverage with the columns that an older format lacks; holds one day in memory. Returns why days were left out:
 * what is published there is damaged.
 */
function stageOlderCoverage(archive: Archive, stage: Stage): string[] {
  const refused: string[] = [];
  for (const { date } of stage.base.datasets.coverage.files) {
    const day = dayStart(date!);
    try {
      encodeDay(archive, stage, 'coverage', day, coverageRows(readCoverage(archive, stage.base, day)));
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.push(error.message);
    }
  }
  return refused;
}

/** How many ticks are published in parts. */
function publishedIn(base: Manifest, bins: readonly Bin[]): number {
  const rows = new Map(base.datasets.ticks.files.map((file) => [file.path, file.rows]));
  return bins.reduce((sum, { day, part }) => sum + (rows.get(dayPath('ticks', day, part)) ?? 0), 0);
}

/** What is journaled of each day, in the order of days. */
function daysOf(bins: readonly Bin[], answers: ReadonlyMap<number, readonly BookAnswer[]>): DayInput[] {
  const byDay = Map.groupBy(bins, (bin) => bin.day);
  const days = [...new Set([...byDay.keys(), ...answers.keys()])].sort((a, b) => a - b);
  return days.map((day) => ({ day, bins: byDay.get(day) ?? [], answers: answers.get(day) ?? [] }));
}

/** The market polls that were taken in, by record; a day whose published file is damaged takes in none. */
function stageMarkets(archive: Archive, stage: Stage, end: number, refused: string[]): number[] {
  const polls = [...readMarkets(archive.state.db, end)];
  const taken: number[] = [];
  for (const [day, ofDay] of Map.groupBy(polls, (poll) => dayFloor(poll.observedAt))) {
    try {
      const rows = mergeMarkets(readMarketRows(archive, stage.base, day), ofDay);
      encodeDay(archive, stage, 'markets', day, marketRows(rows));
      taken.push(...ofDay.map((poll) => poll.recordId));
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.push(error.message);
    }
  }
  return taken;
}

const sumLate = (taken: readonly BinOutcome[]): { ticks: number; latenessMs: number } => ({
  ticks: taken.reduce((sum, { late }) => sum + late.ticks, 0),
  latenessMs: taken.reduce((max, { late }) => Math.max(max, late.latenessMs), 0),
});

/** The symbols as they will be once this publish is committed; the state does the same sum in `addTickDeltas`. */
function symbolsAfter(
  symbols: readonly SymbolFacts[],
  seen: ReadonlyMap<string, number>,
  taken: readonly BinOutcome[],
  nowMs: number,
): SymbolFacts[] {
  const bySymbol = new Map(symbols.map((facts) => [facts.symbol, facts]));
  for (const [symbol, at] of seen) if (!bySymbol.has(symbol)) bySymbol.set(symbol, unknownSymbol(symbol, at));
  for (const { symbol, added, first, last } of taken.flatMap((bin) => bin.deltas)) {
    const facts = bySymbol.get(symbol) ?? unknownSymbol(symbol, nowMs);
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
function coverageAfter(db: Database, taken: readonly BinOutcome[]): Map<string, Covered[]> {
  const coverage: Map<string, Covered[]> = allSegments(db);
  for (const [symbol, windows] of joinBins(taken.map(({ withdrawn }) => withdrawn)))
    coverage.set(symbol, withdrawFrom(coverage.get(symbol) ?? [], windows));
  for (const [symbol, added] of joinBins(taken.map(({ covered }) => covered))) {
    coverage.set(symbol, overlayLayersOnto(coverage.get(symbol) ?? [], added));
  }
  return coverage;
}

/** The windows that are lost once this publish is committed. */
function lostAfter(lost: readonly LostWindow[], taken: readonly BinOutcome[]): LostWindow[] {
  const keyOf = ({ dataset, symbol, from }: LostWindow): string => `${dataset} ${from} ${symbol}`;
  const restored = new Set(taken.flatMap((bin) => bin.restored.map(keyOf)));
  return lost.filter((window) => !restored.has(keyOf(window)));
}

/** What the state must know of a publish; in its transaction. */
function record(
  archive: Archive,
  options: PublishOptions,
  taken: readonly BinOutcome[],
  end: number,
  polls: readonly number[],
): void {
  const { db } = archive.state;
  const bins = taken.map(({ bin }) => bin);
  options.intake?.settle(archive.state, bins);
  const { runId: own } = options;
  const isBroken = brokenBeside(db, own);
  let added = 0;
  for (const { merged, deltas } of taken) {
    addTickDeltas(db, deltas, options.clock.nowMs());
    noteStandings(db, merged.stretches);
    for (const [runId, tally] of merged.tallies) {
      if (isBroken(runId)) addRecovered(db, own, runId, tally);
      else addTally(db, runId, tally);
    }
    for (const count of merged.added.values()) added += count;
  }
  addPublished(db, own, { added, lost: 0 });
  const { ticks } = sumLate(taken);
  if (ticks > 0) addLate(db, options.runId, ticks);
  for (const [symbol, windows] of joinBins(taken.map(({ withdrawn }) => withdrawn)))
    retractSegments(db, symbol, windows);
  for (const [symbol, covered] of joinBins(taken.map(({ covered }) => covered)))
    addSegments(db, symbol, covered, options.rules.settleMs);
  for (const { restored } of taken) dropLost(db, restored);
  consume(db, bins, end, polls);
}

/** What came of each symbol, over all days. */
function joinBins<T>(bins: readonly ReadonlyMap<string, readonly T[]>[]): Map<string, T[]> {
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
