import type { CompletenessRules } from '../../archive/completeness/completeness.ts';
import { computeCursor, isLive } from '../../archive/completeness/symbol-lifetime.ts';
import { type DiskSpace, readDiskSpace } from '../../archive/disk/file-system.ts';
import type { DatasetName } from '../../archive/format/datasets.ts';
import { listFilesWithRows, type Manifest } from '../../archive/format/manifest.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import { findKnownWindow } from '../../archive/journal/coverage-store.ts';
import { readCoverageWithoutLost } from '../../archive/journal/gap-records.ts';
import { readRecheckHistory } from '../../archive/journal/nightly-memory.ts';
import { computeOverlapMs, type RecheckFacts, sumRechecks } from '../../archive/journal/recheck-results.ts';
import { isRunOver, type RecordedRun, readLatestEndedRun, readLatestRuns } from '../../archive/journal/runs.ts';
import { readAllSymbols, readSymbol } from '../../archive/journal/symbols.ts';
import type { Archive } from '../../archive/open-archive.ts';
import { openPinned } from '../../archive/query/pinned-query.ts';
import { computeArchiveCompleteness, createStatus, type readStatus } from '../../archive/read/status.ts';
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
  /** Number of UTC days shown, at least 1. */
  readonly days: number;
  /** Maximum lag without a finding, in ms. */
  readonly lagMsMax: number;
  /** Configured overlap of polls, and its maximum if ticks are late, in ms. */
  readonly overlapMs: number;
  readonly overlapMsMax: number;
  /** Configured requests per second. */
  readonly requestsPerSecond: number;
}

/** Data of the report, of one generation. Times in epoch ms. */
export interface ReportData {
  readonly nowMs: number;
  readonly rules: ReportRules;
  readonly status: ReturnType<typeof readStatus>;
  /** Oldest first. */
  readonly runs: readonly PastRun[];
  /** Last finished `nightly` run. It may precede `runs` if other jobs run every few minutes. */
  readonly lastNight: PastRun | null;
  /** All days. */
  readonly days: readonly DayTotals[];
  /** Shown days, from UTC midnight to UTC midnight. */
  readonly shown: Window;
  readonly coverage: CoverageFacts;
  readonly gaps: GapFacts;
  readonly rechecks: RecheckFacts & {
    /** Current overlap of polls, in ms. */
    readonly overlapMs: number;
  };
  readonly cadence: CadenceFacts;
  readonly quarantine: QuarantineFacts;
  readonly space: DiskSpace | null;
}

export interface CadenceFacts {
  /** Number of days evaluated. */
  readonly days: number;
  readonly busiest: readonly NamedCadence[];
  readonly silent: readonly SilentSymbol[];
  /** Error message if the ticks could not be read, otherwise null. */
  readonly error: string | null;
}

export interface NamedCadence extends TickCadence {
  readonly question: string | null;
}

export interface SilentSymbol extends NamedCadence {
  readonly lastTick: number;
  /** Time from the last tick to the cursor, in milliseconds. */
  readonly quietMs: number;
}

const runsMax = 200;
const heatmapDays = 14;
const cadenceDays = 14;
const groupsMax = 12;
const gapGroupsMax = 15;
const cadenceRules = { busiestMax: 15, quietMax: 500, hoursMin: 12, quietHoursMin: 6, pauseFactor: 2 };
const silentMax = 15;

/** Maximum number of attempts to read manifest and state of the same generation. */
const attemptsMax = 20;

/** Reads the data of a report. Can run concurrently with jobs. Writes only a temporary pin. */
export async function readReportData(
  archive: Archive,
  rules: ReportRules,
  { nowMs, random }: { readonly nowMs: number; readonly random: Random },
): Promise<ReportData> {
  const { manifest, judgedDays, end, ...existing } = readKnown(archive, rules, nowMs);
  const shownTo = floorToDay(end - 1) + dayMs;
  const shown = { from: shownTo - rules.days * dayMs, to: shownTo };
  return {
    nowMs,
    rules,
    shown,
    ...existing,
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

/** Reads manifest and state of one generation. */
function readKnown(archive: Archive, rules: ReportRules, nowMs: number): KnownState {
  const { db } = archive.state;
  for (let attempt = 1; ; attempt++) {
    const found = db.snapshot(() => {
      const manifest = archive.readManifest();
      // A publish has replaced manifest.json since the snapshot of the state.
      if (manifest.generation !== archive.state.generation() && attempt < attemptsMax) return null;
      const existing = findKnownWindow(db);
      const end = computeReportEnd(nowMs, existing?.to ?? null);
      // As for gaps, nothing is expected before the first known time.
      const first = floorToDay(existing?.from ?? end);
      const span = { from: Math.min(Math.max(first, end - heatmapDays * dayMs), end - dayMs), to: end };
      const named = rules.judged.namedSymbols ?? new Set<string>();
      const completeness = computeArchiveCompleteness(archive, rules.judged, nowMs);
      const recheckMemory = readRecheckHistory(db);
      const toPast = (run: RecordedRun): PastRun => toPastRun(run, (runId) => isRunOver(db, runId));
      const latestNightly = readLatestEndedRun(db, 'nightly', nowMs + clockAheadMsMax);
      return {
        judgedDays: Object.fromEntries([...completeness.days].map(([day, state]) => [formatDay(day), state])),
        manifest,
        end,
        status: createStatus(archive, completeness, nowMs),
        rechecks: {
          ...sumRechecks(recheckMemory),
          overlapMs: computeOverlapMs(recheckMemory, rules.overlapMs, rules.overlapMsMax),
        },
        runs: readLatestRuns(db, runsMax, nowMs + clockAheadMsMax).map(toPast),
        lastNight: latestNightly === undefined ? null : toPast(latestNightly),
        coverage: computeCoverageFacts(db, readAllSymbols(db), span, {
          lookbackMs: rules.judged.lifetimeRules.lookbackMs,
          stepMs: hourMs,
          groupsMax,
          named,
          nowMs,
          knownFrom: existing?.from ?? end,
        }),
        gaps: computeGapFacts(completeness.gaps, gapGroupsMax, span.from),
      };
    });
    if (found !== null) return found;
  }
}

/** End of the report: now, rounded up to the hour; for an archive without recent data, the end of its data. */
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
      busiest: busiest.map((cadence) => ({ ...cadence, question: questionOf(cadence.symbol) })),
      silent: quiet.flatMap((cadence) => toSilentSymbol(archive, cadence, rules, nowMs) ?? []).slice(0, silentMax),
      error: null,
    };
  } catch (error) {
    // A damaged file must not prevent the rest of the report.
    if (!(error instanceof OddslakeError)) throw error;
    return { days: cadenceDays, busiest: [], silent: [], error: error.message };
  }
}

/** A live symbol without recent ticks although it is covered; null if it is not live, not covered or not silent. */
function toSilentSymbol(
  archive: Archive,
  cadence: TickCadence,
  rules: ReportRules,
  nowMs: number,
): SilentSymbol | null {
  const { db } = archive.state;
  const facts: SymbolFacts | undefined = readSymbol(db, cadence.symbol);
  if (facts === undefined || facts.lastTick === null) return null;
  const { namedSymbols, lifetimeRules } = rules.judged;
  const cursor = computeCursor(facts, readCoverageWithoutLost(db, cadence.symbol), lifetimeRules);
  const isPolled =
    namedSymbols === null ? isLive(facts, cursor, nowMs, lifetimeRules) : namedSymbols.has(cadence.symbol);
  const quietMs = Math.min(cursor, nowMs) - facts.lastTick;
  const usualMs = Math.max(cadenceRules.quietHoursMin, cadenceRules.pauseFactor * cadence.longestPauseHours) * hourMs;
  if (!isPolled || quietMs <= usualMs) return null;
  return { ...cadence, question: facts.question, lastTick: facts.lastTick, quietMs };
}

/** Totals of a UTC day over all datasets. */
export interface DayTotals {
  /** YYYY-MM-DD */
  readonly date: string;
  readonly ticks: number;
  readonly bytes: number;
  readonly conflicts: number;
  readonly state: DayState['state'];
  /** Symbols live on that day, and those of them that are fully covered. */
  readonly expected: number;
  readonly covered: number;
}

/** All days with files or with a completeness state, in order. */
export function computeDayTotals(
  { datasets }: Pick<Manifest, 'datasets'>,
  days: Readonly<Record<string, DayState>>,
): DayTotals[] {
  const totals = new Map<string, { -readonly [name in keyof DayTotals]: DayTotals[name] }>();
  const getTotals = (date: string) => {
    const existing = totals.get(date);
    if (existing !== undefined) return existing;
    const { state = 'incomplete', expected = 0, covered = 0 } = days[date] ?? {};
    const total = { date, ticks: 0, bytes: 0, conflicts: 0, state, expected, covered };
    totals.set(date, total);
    return total;
  };
  for (const date of Object.keys(days)) getTotals(date);
  for (const [dataset, { files }] of Object.entries(datasets)) {
    for (const { date, rows, bytes } of files) {
      // A file without rows makes no day.
      if (date === null || rows === 0) continue;
      const total = getTotals(date);
      total.bytes += bytes;
      if (dataset === 'ticks') total.ticks += rows;
      if (dataset === 'conflicts') total.conflicts += rows;
    }
  }
  return [...totals.values()].sort((a, b) => (a.date < b.date ? -1 : 1));
}

/** Tick frequency of a symbol in a window. Hours are UTC clock hours. */
export interface TickCadence {
  readonly symbol: string;
  readonly ticks: number;
  /** Hours with a tick. */
  readonly hours: number;
  /** Longest distance, in hours, between consecutive hours with ticks; 1 if all hours have ticks. */
  readonly longestPauseHours: number;
}

export interface TickCadences {
  /** Symbols with the most ticks, most ticks first. */
  readonly busiest: readonly TickCadence[];
  /** Symbols whose final silence is much longer than any earlier pause, most active first. */
  readonly quiet: readonly TickCadence[];
}

export interface CadenceRules {
  readonly busiestMax: number;
  readonly quietMax: number;
  /** Minimum number of hours with ticks. */
  readonly hoursMin: number;
  /** Minimum number of silent hours. */
  readonly quietHoursMin: number;
  /** Minimum silence as a multiple of the longest pause. */
  readonly pauseFactor: number;
}

const memoryBytesMax = 1024 ** 3;

const noCadences: TickCadences = { busiest: [], quiet: [] };

/** Computes the tick frequency of all symbols on the given days (YYYY-MM-DD), up to `span.to`, from one generation. */
export async function readTickCadences(
  archive: Archive,
  manifest: Manifest,
  days: ReadonlySet<string>,
  span: Window,
  rules: CadenceRules,
  random: Random,
): Promise<TickCadences> {
  const isSelected = ({ date }: { date: string | null }): boolean => date !== null && days.has(date);
  const [ticks, candles] = (['ticks', 'candles_1h'] as const).map((name) =>
    listFilesWithRows(manifest, name).filter(isSelected),
  );
  if (ticks!.length === 0) return noCadences;
  // Candles are optional, but there are far fewer of them than ticks.
  const from: DatasetName = candles!.length === ticks!.length ? 'candles_1h' : 'ticks';
  const { query, close } = await openPinned(archive, { names: [from], wanted: isSelected, memoryBytesMax }, random);
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
    const cadence = (row: (typeof rows)[number]): TickCadence => ({
      symbol: row.symbol as string,
      ticks: row.ticks as number,
      hours: row.hours as number,
      longestPauseHours: row.pause as number,
    });
    return {
      busiest: rows.filter(({ rank }) => (rank as number) <= rules.busiestMax).map(cadence),
      quiet: rows.filter(({ is_quiet }) => is_quiet === true).map(cadence),
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
