import type { CompletenessRules } from '../../archive/completeness/completeness.ts';
import { computeCursor, isLive } from '../../archive/completeness/symbol-lifetime.ts';
import { type DiskSpace, readDiskSpace } from '../../archive/disk/file-system.ts';
import type { DatasetName } from '../../archive/format/datasets.ts';
import type { Manifest } from '../../archive/format/manifest.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import { findKnownWindow } from '../../archive/journal/coverage.ts';
import { readCoverageWithoutLost } from '../../archive/journal/gap-records.ts';
import { readRechecks } from '../../archive/journal/nightly-memory.ts';
import { computeOverlapMs, type RecheckFacts, sumRechecks } from '../../archive/journal/recheck-results.ts';
import { isRunOver, type RecordedRun, readLatestEndedRun, readLatestRuns } from '../../archive/journal/runs.ts';
import { readAllSymbols, readSymbol } from '../../archive/journal/symbols.ts';
import type { Archive } from '../../archive/open-archive.ts';
import { openPinned } from '../../archive/query/pinned-query.ts';
import { createStatus, judgeArchive, type readStatus } from '../../archive/read/status.ts';
import { OddslakeError } from '../../base/errors.ts';
import { clockAheadMsMax, type Random } from '../../base/ports.ts';
import { formatDay, parseDayStart } from '../../base/time.ts';
import { dayMs, floorToDay, hourMs, type Window } from '../../base/window.ts';
import type { DayState } from '../../contract/completeness-counts.ts';
import { type CoverageFacts, computeCoverageFacts, computeGapFacts, type GapFacts } from './coverage-facts.ts';
import { type PastRun, toPastRun } from './past-run.ts';
import { type QuarantineFacts, readQuarantineFacts } from './quarantine.ts';

export interface ReportRules {
  readonly judged: CompletenessRules;
  /** UTC days that are shown, at least 1. */
  readonly days: number;
  /** How far the archive may lie behind before it is told, in ms. */
  readonly lagMsMax: number;
  /** How far before its cursor a poll reads again, and up to how far where ticks come later; in ms, as configured. */
  readonly overlapMs: number;
  readonly overlapMsMax: number;
  /** Requests a second as configured. */
  readonly requestsPerSecond: number;
}

/** All that a report is made of, as of one generation. Times are epoch milliseconds. */
export interface ReportData {
  readonly nowMs: number;
  readonly rules: ReportRules;
  readonly status: ReturnType<typeof readStatus>;
  /** The oldest first. */
  readonly runs: readonly PastRun[];
  /** The last `nightly` that has ended: jobs that run every few minutes may have left it behind. */
  readonly lastNight: PastRun | null;
  /** Every day that there is. */
  readonly days: readonly DayTotals[];
  /** The days shown: UTC midnights of the first, included, and of the last, excluded. */
  readonly shown: Window;
  readonly coverage: CoverageFacts;
  readonly gaps: GapFacts;
  readonly rechecks: RecheckFacts & {
    /** How far before its cursor a poll reads again, in ms. */
    readonly overlapMs: number;
  };
  readonly cadence: CadenceFacts;
  readonly quarantine: QuarantineFacts;
  readonly space: DiskSpace | null;
}

export interface CadenceFacts {
  /** The days that were looked at. */
  readonly days: number;
  readonly busiest: readonly NamedCadence[];
  readonly silent: readonly SilentSymbol[];
  /** Why they could not be read; null where they could. */
  readonly error: string | null;
}

export interface NamedCadence extends TickCadence {
  readonly question: string | null;
}

export interface SilentSymbol extends NamedCadence {
  readonly lastTick: number;
  /** Milliseconds from its last tick to the end of what is covered of it. */
  readonly quietMs: number;
}

const runsMax = 200;
const heatmapDays = 14;
const cadenceDays = 14;
const groupsMax = 12;
const gapGroupsMax = 15;
const cadenceRules = { busiestMax: 15, quietMax: 500, hoursMin: 12, quietHoursMin: 6, pauseFactor: 2 };
const silentMax = 15;

/** Publishes that may come in between before what was read is taken as it is. */
const attemptsMax = 20;

/** Gathers what a report tells. Reads beside running jobs, and writes nothing but a pin that goes again. */
export async function readReportData(
  archive: Archive,
  rules: ReportRules,
  { nowMs, random }: { readonly nowMs: number; readonly random: Random },
): Promise<ReportData> {
  const { manifest, judgedDays, end, ...known } = readKnown(archive, rules, nowMs);
  const shownTo = floorToDay(end - 1) + dayMs;
  const shown = { from: shownTo - rules.days * dayMs, to: shownTo };
  return {
    nowMs,
    rules,
    shown,
    ...known,
    days: computeDayTotals(manifest, judgedDays),
    cadence: await readCadenceFacts(archive, manifest, end, rules, { nowMs, random }),
    quarantine: await readQuarantineFacts(archive, shown.from),
    space: readDiskSpace(archive.layout.root),
  };
}

type KnownState = Pick<ReportData, 'status' | 'runs' | 'lastNight' | 'coverage' | 'gaps' | 'rechecks'> & {
  manifest: Manifest;
  judgedDays: Record<string, DayState>;
  end: number;
};

/** What manifest and state say, as of one moment. */
function readKnown(archive: Archive, rules: ReportRules, nowMs: number): KnownState {
  const { db } = archive.state;
  for (let attempt = 1; ; attempt++) {
    const found = db.snapshot(() => {
      const manifest = archive.readManifest();
      // A publish has replaced manifest.json since this look at the state began.
      if (manifest.generation !== archive.state.generation() && attempt < attemptsMax) return null;
      const known = findKnownWindow(db);
      const end = computeReportEnd(nowMs, known?.to ?? null);
      // Before the first thing that is known nothing was expected, as gaps have it too.
      const first = floorToDay(known?.from ?? end);
      const span = { from: Math.min(Math.max(first, end - heatmapDays * dayMs), end - dayMs), to: end };
      const named = rules.judged.namedSymbols ?? new Set<string>();
      const verdict = judgeArchive(archive, rules.judged, nowMs);
      const memory = readRechecks(db);
      const past = (run: RecordedRun): PastRun => toPastRun(run, (runId) => isRunOver(db, runId));
      const night = readLatestEndedRun(db, 'nightly', nowMs + clockAheadMsMax);
      return {
        judgedDays: Object.fromEntries([...verdict.days].map(([day, state]) => [formatDay(day), state])),
        manifest,
        end,
        status: createStatus(archive, verdict, nowMs),
        rechecks: { ...sumRechecks(memory), overlapMs: computeOverlapMs(memory, rules.overlapMs, rules.overlapMsMax) },
        runs: readLatestRuns(db, runsMax, nowMs + clockAheadMsMax).map(past),
        lastNight: night === undefined ? null : past(night),
        coverage: computeCoverageFacts(db, readAllSymbols(db), span, {
          lookbackMs: rules.judged.lifetimeRules.lookbackMs,
          stepMs: hourMs,
          groupsMax,
          named,
          nowMs,
          knownFrom: known?.from ?? end,
        }),
        gaps: computeGapFacts(verdict.gaps, gapGroupsMax, span.from),
      };
    });
    if (found !== null) return found;
  }
}

/** Now, up to the full hour; of an archive of the past alone, the end of what it knows. */
export function computeReportEnd(nowMs: number, knownTo: number | null): number {
  const isPast = knownTo !== null && nowMs - knownTo > heatmapDays * dayMs;
  return Math.ceil((isPast ? knownTo : nowMs) / hourMs) * hourMs;
}

async function readCadenceFacts(
  archive: Archive,
  manifest: Manifest,
  end: number,
  rules: ReportRules,
  { nowMs, random }: { readonly nowMs: number; readonly random: Random },
): Promise<CadenceFacts> {
  const days = Array.from({ length: cadenceDays }, (_, i) => formatDay(end - 1 - i * dayMs));
  const span = { from: parseDayStart(days.at(-1)!), to: end };
  try {
    const { busiest, quiet } = await readTickCadences(archive, manifest, new Set(days), span, cadenceRules, random);
    const { db } = archive.state;
    const questionOf = (symbol: string): string | null => readSymbol(db, symbol)?.question ?? null;
    return {
      days: cadenceDays,
      busiest: busiest.map((habit) => ({ ...habit, question: questionOf(habit.symbol) })),
      silent: quiet.flatMap((habit) => toSilentSymbol(archive, habit, rules, nowMs) ?? []).slice(0, silentMax),
      error: null,
    };
  } catch (error) {
    // A damaged file is no reason to tell nothing: the rest of the report says what is known.
    if (!(error instanceof OddslakeError)) throw error;
    return { days: cadenceDays, busiest: [], silent: [], error: error.message };
  }
}

/** A live symbol that is quiet as far as it is covered; null for one that ended, or of which answers are missing. */
function toSilentSymbol(archive: Archive, habit: TickCadence, rules: ReportRules, nowMs: number): SilentSymbol | null {
  const { db } = archive.state;
  const facts: SymbolFacts | undefined = readSymbol(db, habit.symbol);
  if (facts === undefined || facts.lastTick === null) return null;
  const { namedSymbols, lifetimeRules: linger } = rules.judged;
  const cursor = computeCursor(facts, readCoverageWithoutLost(db, habit.symbol), linger);
  const isPolled = namedSymbols === null ? isLive(facts, cursor, nowMs, linger) : namedSymbols.has(habit.symbol);
  const quietMs = Math.min(cursor, nowMs) - facts.lastTick;
  const usualMs = Math.max(cadenceRules.quietHoursMin, cadenceRules.pauseFactor * habit.longestPauseMs) * hourMs;
  if (!isPolled || quietMs <= usualMs) return null;
  return { ...habit, question: facts.question, lastTick: facts.lastTick, quietMs };
}

/** What a UTC day holds, all its datasets together. */
export interface DayTotals {
  /** YYYY-MM-DD */
  readonly date: string;
  readonly ticks: number;
  readonly bytes: number;
  readonly conflicts: number;
  readonly state: DayState['state'];
  /** Symbols alive that day, and those of them covered throughout. */
  readonly expected: number;
  readonly covered: number;
}

/** The days that a manifest has files of, and those that were judged, in their order. */
export function computeDayTotals(
  { datasets }: Pick<Manifest, 'datasets'>,
  days: Readonly<Record<string, DayState>>,
): DayTotals[] {
  const totals = new Map<string, { -readonly [name in keyof DayTotals]: DayTotals[name] }>();
  const of = (date: string) => {
    const known = totals.get(date);
    if (known !== undefined) return known;
    const { state = 'incomplete', expected = 0, covered = 0 } = days[date] ?? {};
    const total = { date, ticks: 0, bytes: 0, conflicts: 0, state, expected, covered };
    totals.set(date, total);
    return total;
  };
  for (const date of Object.keys(days)) of(date);
  for (const [dataset, { files }] of Object.entries(datasets)) {
    for (const { date, rows, bytes } of files) {
      if (date === null) continue;
      const total = of(date);
      total.bytes += bytes;
      if (dataset === 'ticks') total.ticks += rows;
      if (dataset === 'conflicts') total.conflicts += rows;
    }
  }
  return [...totals.values()].sort((a, b) => (a.date < b.date ? -1 : 1));
}

/** How a symbol ticked in a span of time. Hours are whole UTC hours. */
export interface TickCadence {
  readonly symbol: string;
  readonly ticks: number;
  /** Hours with a tick. */
  readonly hours: number;
  /** The longest time, in hours, from one of them to the next; 1 where there was one in each. */
  readonly longestPauseMs: number;
}

export interface TickCadences {
  /** Those of the most ticks, first. */
  readonly busiest: readonly TickCadence[];
  /** Those that have been quiet at the end of the span for much longer than ever before in it, the busiest first. */
  readonly quiet: readonly TickCadence[];
}

export interface CadenceRules {
  readonly busiestMax: number;
  readonly quietMax: number;
  /** Hours with a tick without which nothing is a habit. */
  readonly hoursMin: number;
  /** Hours of quiet that are nothing special. */
  readonly quietHoursMin: number;
  /** How many times its longest pause one has to have been quiet. */
  readonly pauseFactor: number;
}

const memoryBytesMax = 1024 ** 3;

const noCadences: TickCadences = { busiest: [], quiet: [] };

/** Looks at the ticks of some days, given as YYYY-MM-DD, up to the end of the span. One generation is read. */
export async function readTickCadences(
  archive: Archive,
  manifest: Manifest,
  days: ReadonlySet<string>,
  span: Window,
  rules: CadenceRules,
  random: Random,
): Promise<TickCadences> {
  const wanted = ({ date }: { date: string | null }): boolean => date !== null && days.has(date);
  const [ticks, candles] = [manifest.datasets.ticks.files, manifest.datasets.candles_1h.files].map((files) =>
    files.filter(wanted),
  );
  if (ticks!.length === 0) return noCadences;
  // Candles are there where the settings say so, and much fewer than ticks.
  const from: DatasetName = candles!.length === ticks!.length ? 'candles_1h' : 'ticks';
  const { query, close } = await openPinned(archive, { names: [from], wanted, memoryBytesMax }, random);
  try {
    const end = Math.ceil(span.to / hourMs);
    const rows = await query.readRows(formatCadenceQuery(from), [
      span.from,
      rules.hoursMin,
      end,
      rules.quietHoursMin,
      rules.pauseFactor,
      rules.busiestMax,
      rules.quietMax,
    ]);
    const habit = (row: (typeof rows)[number]): TickCadence => ({
      symbol: row.symbol as string,
      ticks: row.ticks as number,
      hours: row.hours as number,
      longestPauseMs: row.pause as number,
    });
    return {
      busiest: rows.filter(({ rank }) => (rank as number) <= rules.busiestMax).map(habit),
      quiet: rows.filter(({ is_quiet }) => is_quiet === true).map(habit),
    };
  } finally {
    await close();
  }
}

const formatCadenceQuery = (from: 'candles_1h' | 'ticks'): string => `
WITH hours AS (
  SELECT symbol, epoch_ms(t) // ${hourMs} AS hour, ${from === 'ticks' ? 'count(*)' : 'sum(ticks)'} AS n
  FROM ${from} WHERE epoch_ms(t) >= $1 GROUP BY ALL
), paused AS (
  SELECT symbol, hour, n, hour - lag(hour) OVER (PARTITION BY symbol ORDER BY hour) AS pause FROM hours
), habits AS (
  SELECT symbol, CAST(sum(n) AS BIGINT) AS ticks, count(*) AS hours, coalesce(max(pause), 0) AS pause, max(hour) AS last
  FROM paused GROUP BY symbol
), ranked AS (
  SELECT *, row_number() OVER (ORDER BY ticks DESC, symbol) AS rank,
         hours >= $2 AND $3 - last > greatest($4, $5 * pause) AS is_quiet
  FROM habits
)
SELECT symbol, ticks, hours, pause, rank, is_quiet FROM ranked
WHERE rank <= $6 OR is_quiet
QUALIFY rank <= $6 OR row_number() OVER (PARTITION BY is_quiet ORDER BY rank) <= $7
ORDER BY rank`;
