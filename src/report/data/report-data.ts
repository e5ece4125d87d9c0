import type { Archive } from '../../archive/archive.ts';
import type { CompletenessRules } from '../../archive/completeness/completeness.ts';
import { type DiskSpace, readDiskSpace } from '../../archive/disk/file-system.ts';
import type { Manifest } from '../../archive/format/manifest.ts';
import { findKnownWindow } from '../../archive/journal/coverage-store.ts';
import { readRecheckHistory } from '../../archive/journal/nightly-memory.ts';
import {
  computeOverlapMs,
  joinRecheckHistories,
  type RecheckFacts,
  sumRechecks,
} from '../../archive/journal/recheck-results.ts';
import { type PastRun, type RecordedRun, readLatestRuns, toPastRun } from '../../archive/journal/runs.ts';
import { readCurrentState } from '../../archive/known-state.ts';
import { readStatusOf } from '../../archive/read/archive-status.ts';
import { type Judgement, judge } from '../../archive/read/judge.ts';
import { computeCompletenessOf, createStatus, type readStatus } from '../../archive/read/status.ts';
import { clockAheadMsMax, type Random } from '../../base/ports.ts';
import { formatDay } from '../../base/time.ts';
import { dayMs, floorToDay, hourMs, type Window } from '../../base/window.ts';
import type { DayState } from '../../contract/day-reasons.ts';
import { type CoverageFacts, computeCoverageFacts, computeGapFacts, type GapFacts } from './coverage-facts.ts';
import { listProblemSymbols, type ProblemSymbols } from './problem-symbols.ts';
import { type QuarantineFacts, readQuarantineFacts } from './quarantine-figures.ts';
import { type CadenceFacts, readCadenceFacts } from './tick-cadence.ts';

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
  /** Configured http or https address of the catalogue page; null if it is not known. */
  readonly catalogueUrl: string | null;
}

/** Data of the report, of one generation. Times in epoch ms. */
export interface ReportData {
  readonly nowMs: number;
  readonly rules: ReportRules;
  readonly status: ReturnType<typeof readStatus>;
  readonly judgement: Judgement;
  /** Oldest first. */
  readonly runs: readonly PastRun[];
  /** All days. */
  readonly days: readonly DayTotals[];
  /** Shown days, from UTC midnight to UTC midnight. */
  readonly shown: Window;
  readonly coverage: CoverageFacts;
  readonly problems: ProblemSymbols;
  readonly gaps: GapFacts;
  readonly rechecks: RecheckFacts & {
    /** Current overlap of polls, in ms. */
    readonly overlapMs: number;
    /** Greatest measured lateness of each day with late ticks; `day` is its UTC midnight. Sorted. */
    readonly lateness: readonly { readonly day: number; readonly ms: number }[];
  };
  readonly cadence: CadenceFacts;
  readonly quarantine: QuarantineFacts;
  readonly space: DiskSpace | null;
}

const runsMax = 200;
/** Days up to which coverage is shown per hour. */
const heatmapDays = 14;
const groupsMax = 12;
const gapGroupsMax = 15;

/** Maximum number of attempts to read manifest and state of the same generation. */
const attemptsMax = 20;

/** Reads the data of a report. Can run concurrently with jobs. Writes only a temporary pin. */
export async function readReportData(
  archive: Archive,
  rules: ReportRules,
  { nowMs, random }: { readonly nowMs: number; readonly random: Random },
): Promise<ReportData> {
  const { manifest, judgedDays, end, state, ...existing } = readKnown(archive, rules, nowMs);
  const shownTo = floorToDay(end - 1) + dayMs;
  const shown = { from: shownTo - rules.days * dayMs, to: shownTo };
  return {
    nowMs,
    rules,
    shown,
    ...existing,
    days: computeDayTotals(manifest, judgedDays),
    cadence: await readCadenceFacts(archive, { manifest, state, end }, rules.judged, random),
    quarantine: await readQuarantineFacts(archive, shown.from),
    space: readDiskSpace(archive.layout.root),
  };
}

/** Reads manifest and state of one generation. */
function readKnown(archive: Archive, rules: ReportRules, nowMs: number) {
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
      const { stepMs, ...span } = chooseHeatmapSpan(first, end, rules.days);
      const named = rules.judged.namedSymbols ?? new Set<string>();
      // Read once: coverage is by far the largest part of the state. What closed before the shown time is counted only.
      const state = readCurrentState(archive, rules.judged, nowMs, null, [], span.from);
      const completeness = computeCompletenessOf(archive, state, nowMs);
      const status = createStatus(archive, completeness, nowMs);
      const { lagMsMax } = rules;
      const judgement = judge({ nowMs, lagMsMax, status: readStatusOf(db, manifest, nowMs, archive.layout.root) });
      const isJustCovered = status.reached !== null && nowMs - status.reached < hourMs;
      const { sources } = archive.state.identity;
      const recheckMemory =
        sources.length === 0
          ? readRecheckHistory(db)
          : joinRecheckHistories(sources.map(({ name }) => readRecheckHistory(db, name)));
      const toPast = (run: RecordedRun): PastRun => toPastRun(db, run);
      const runs = readLatestRuns(db, runsMax, nowMs + clockAheadMsMax).map(toPast);
      return {
        judgedDays: Object.fromEntries([...completeness.days].map(([day, state]) => [formatDay(day), state])),
        manifest,
        end,
        status,
        judgement,
        rechecks: {
          ...sumRechecks(recheckMemory),
          lateness: joinLateness(recheckMemory.lateness),
          overlapMs: computeOverlapMs(recheckMemory, rules.overlapMs, rules.overlapMsMax),
        },
        runs,
        state,
        problems: listProblemSymbols(state, completeness, nowMs),
        coverage: computeCoverageFacts(state, span, {
          lookbackMs: rules.judged.lifetimeRules.lookbackMs,
          stepMs,
          groupsMax,
          named,
          // The minutes since the last poll are not a gap.
          nowMs: isJustCovered ? status.reached! : nowMs,
          knownFrom: existing?.from ?? end,
        }),
        gaps: computeGapFacts(completeness.gaps, gapGroupsMax),
      };
    });
    if (found !== null) return found;
  }
}

/** The greatest lateness of each day, over all sources. */
function joinLateness(entries: readonly { readonly day: number; readonly ms: number }[]) {
  const byDay = new Map<number, number>();
  for (const { day, ms } of entries) byDay.set(day, Math.max(ms, byDay.get(day) ?? 0));
  return [...byDay].map(([day, ms]) => ({ day, ms })).sort((a, b) => a.day - b.day);
}

/** End of the report: now, rounded up to the hour; for an archive without recent data, the end of its data. */
export function computeReportEnd(nowMs: number, knownTo: number | null): number {
  const isPast = knownTo !== null && nowMs - knownTo > heatmapDays * dayMs;
  return Math.ceil((isPast ? knownTo : nowMs) / hourMs) * hourMs;
}

/** Steps of the coverage plot, each with the number of days up to which it is used. */
const heatmapSteps = [
  { stepMs: hourMs, daysMax: heatmapDays },
  { stepMs: 6 * hourMs, daysMax: 90 },
  { stepMs: dayMs, daysMax: Number.POSITIVE_INFINITY },
] as const;

/**
 * Window and step of the coverage plot: from the first known day, at least one day and at most `daysMax` days, in whole steps.
 * @param first start of the first known day @param end a whole hour @param daysMax shown days; at least 14 are shown
 */
export function chooseHeatmapSpan(first: number, end: number, daysMax: number): Window & { readonly stepMs: number } {
  const lengthMs = Math.min(Math.max(end - first, dayMs), Math.max(daysMax, heatmapDays) * dayMs);
  const { stepMs } = heatmapSteps.find((step) => lengthMs <= step.daysMax * dayMs)!;
  return {
    from: Math.floor((end - lengthMs) / stepMs) * stepMs,
    to: Math.ceil(end / stepMs) * stepMs,
    stepMs,
  };
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
