import { type Space, spaceAt } from '../../archive/disk/free-space.ts';
import type { Manifest } from '../../archive/manifest.ts';
import type { Archive } from '../../archive/open-archive.ts';
import { aheadMsMax, type Random } from '../../core/clock.ts';
import type { JudgeRules } from '../../core/completeness.ts';
import { OddslakeError } from '../../core/errors.ts';
import type { SymbolFacts } from '../../core/market.ts';
import { overlapInUse, type RecheckFacts, sumRechecks } from '../../core/rechecks.ts';
import { cursorOf, isLive } from '../../core/symbol-lifetime.ts';
import { dayOf, dayStart } from '../../core/time.ts';
import type { DayState } from '../../core/verdict.ts';
import { dayFloor, dayMs, type Window } from '../../core/window.ts';
import { knownSpan } from '../../state/coverage.ts';
import { sureCoverageOf } from '../../state/data-loss.ts';
import { readRechecks } from '../../state/rechecks.ts';
import { isOver, type KnownRun, latestEndOf, latestRuns } from '../../state/runs.ts';
import { allSymbols, oneSymbol } from '../../state/symbols.ts';
import { judgeNow, type readStatus, statusOf } from '../status.ts';
import { type CoverageFacts, coverageFacts } from './coverage-facts.ts';
import { type DayTotals, dayTotals } from './day-totals.ts';
import { type GapFacts, gapFacts } from './gap-groups.ts';
import { type PastRun, pastRun } from './past-run.ts';
import { type QuarantineFacts, quarantineFacts } from './quarantine.ts';
import { type Habit, habitsOf } from './tick-cadence.ts';

export interface ReportRules {
  readonly judged: JudgeRules;
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
export interface Gathered {
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
  readonly habits: HabitFacts;
  readonly quarantine: QuarantineFacts;
  readonly space: Space | null;
}

export interface HabitFacts {
  /** The days that were looked at. */
  readonly days: number;
  readonly busiest: readonly KnownHabit[];
  readonly silent: readonly SilentSymbol[];
  /** Why they could not be read; null where they could. */
  readonly error: string | null;
}

export interface KnownHabit extends Habit {
  readonly question: string | null;
}

export interface SilentSymbol extends KnownHabit {
  readonly lastTick: number;
  /** Milliseconds from its last tick to the end of what is covered of it. */
  readonly quietMs: number;
}

const hourMs = 3_600_000;
const runsMax = 200;
const heatDays = 14;
const habitDays = 14;
const groupsMax = 12;
const gapGroupsMax = 15;
const habitRules = { busiestMax: 15, quietMax: 500, hoursMin: 12, quietHoursMin: 6, timesPause: 2 };
const silentMax = 15;

/** Publishes that may come in between before what was read is taken as it is. */
const attemptsMax = 20;

/** Gathers what a report tells. Reads beside running jobs, and writes nothing but a pin that goes again. */
export async function gatherReport(
  archive: Archive,
  rules: ReportRules,
  { nowMs, random }: { readonly nowMs: number; readonly random: Random },
): Promise<Gathered> {
  const { manifest, judgedDays, end, ...known } = readKnown(archive, rules, nowMs);
  const shownTo = dayFloor(end - 1) + dayMs;
  const shown = { from: shownTo - rules.days * dayMs, to: shownTo };
  return {
    nowMs,
    rules,
    shown,
    ...known,
    days: dayTotals(manifest, judgedDays),
    habits: await habitFacts(archive, manifest, end, rules, { nowMs, random }),
    quarantine: await quarantineFacts(archive, shown.from),
    space: spaceAt(archive.layout.root),
  };
}

type Known = Pick<Gathered, 'status' | 'runs' | 'lastNight' | 'coverage' | 'gaps' | 'rechecks'> & {
  manifest: Manifest;
  judgedDays: Record<string, DayState>;
  end: number;
};

/** What manifest and state say, as of one moment. */
function readKnown(archive: Archive, rules: ReportRules, nowMs: number): Known {
  const { db } = archive.state;
  for (let attempt = 1; ; attempt++) {
    const found = db.snapshot(() => {
      const manifest = archive.manifest();
      // A publish has replaced manifest.json since this look at the state began.
      if (manifest.generation !== archive.state.generation() && attempt < attemptsMax) return null;
      const known = knownSpan(db);
      const end = endShown(nowMs, known?.to ?? null);
      // Before the first thing that is known nothing was expected, as gaps have it too.
      const first = dayFloor(known?.from ?? end);
      const span = { from: Math.min(Math.max(first, end - heatDays * dayMs), end - dayMs), to: end };
      const named = rules.judged.named ?? new Set<string>();
      const verdict = judgeNow(archive, rules.judged, nowMs);
      const memory = readRechecks(db);
      const past = (run: KnownRun): PastRun => pastRun(run, (runId) => isOver(db, runId));
      const night = latestEndOf(db, 'nightly', nowMs + aheadMsMax);
      return {
        judgedDays: Object.fromEntries([...verdict.days].map(([day, state]) => [dayOf(day), state])),
        manifest,
        end,
        status: statusOf(archive, verdict, nowMs),
        rechecks: { ...sumRechecks(memory), overlapMs: overlapInUse(memory, rules.overlapMs, rules.overlapMsMax) },
        runs: latestRuns(db, runsMax, nowMs + aheadMsMax).map(past),
        lastNight: night === undefined ? null : past(night),
        coverage: coverageFacts(db, allSymbols(db), span, {
          lookbackMs: rules.judged.rules.lookbackMs,
          stepMs: hourMs,
          groupsMax,
          named,
          nowMs,
          knownFrom: known?.from ?? end,
        }),
        gaps: gapFacts(verdict.gaps, gapGroupsMax, span.from),
      };
    });
    if (found !== null) return found;
  }
}

/** Now, up to the full hour; of an archive of the past alone, the end of what it knows. */
export function endShown(nowMs: number, knownTo: number | null): number {
  const isPast = knownTo !== null && nowMs - knownTo > heatDays * dayMs;
  return Math.ceil((isPast ? knownTo : nowMs) / hourMs) * hourMs;
}

async function habitFacts(
  archive: Archive,
  manifest: Manifest,
  end: number,
  rules: ReportRules,
  { nowMs, random }: { readonly nowMs: number; readonly random: Random },
): Promise<HabitFacts> {
  const days = Array.from({ length: habitDays }, (_, i) => dayOf(end - 1 - i * dayMs));
  const span = { from: dayStart(days.at(-1)!), to: end };
  try {
    const { busiest, quiet } = await habitsOf(archive, manifest, new Set(days), span, habitRules, random);
    const { db } = archive.state;
    const questionOf = (symbol: string): string | null => oneSymbol(db, symbol)?.question ?? null;
    return {
      days: habitDays,
      busiest: busiest.map((habit) => ({ ...habit, question: questionOf(habit.symbol) })),
      silent: quiet.flatMap((habit) => silentOf(archive, habit, rules, nowMs) ?? []).slice(0, silentMax),
      error: null,
    };
  } catch (error) {
    // A damaged file is no reason to tell nothing: the rest of the report says what is known.
    if (!(error instanceof OddslakeError)) throw error;
    return { days: habitDays, busiest: [], silent: [], error: error.message };
  }
}

/** A live symbol that is quiet as far as it is covered; null for one that ended, or of which answers are missing. */
function silentOf(archive: Archive, habit: Habit, rules: ReportRules, nowMs: number): SilentSymbol | null {
  const { db } = archive.state;
  const facts: SymbolFacts | undefined = oneSymbol(db, habit.symbol);
  if (facts === undefined || facts.lastTick === null) return null;
  const { named, rules: linger } = rules.judged;
  const cursor = cursorOf(facts, sureCoverageOf(db, habit.symbol), linger);
  const isPolled = named === null ? isLive(facts, cursor, nowMs, linger) : named.has(habit.symbol);
  const quietMs = Math.min(cursor, nowMs) - facts.lastTick;
  const usualMs = Math.max(habitRules.quietHoursMin, habitRules.timesPause * habit.longestPause) * hourMs;
  if (!isPolled || quietMs <= usualMs) return null;
  return { ...habit, question: facts.question, lastTick: facts.lastTick, quietMs };
}
