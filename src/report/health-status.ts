import type { DiskSpace } from '../archive/disk/file-system.ts';
import { exitCodes } from '../base/errors.ts';
import { formatThousands } from '../base/format-quantity.ts';
import { formatDay, formatIsoUtc, parseDayStart } from '../base/time.ts';
import { dayMs, floorToDay } from '../base/window.ts';
import { type ArchiveState, formatCompleteness, isDayWhole } from '../contract/completeness-counts.ts';
import type { PastRun } from './data/past-run.ts';
import type { DayTotals, ReportData } from './data/report-data.ts';
import { formatBytes, formatLength, formatMinute, shortenText } from './time-spans.ts';

/** `act`: something is wrong and goes on being so. `look`: somebody should look at it. `note`: good to know. */
export type Severity = 'act' | 'look' | 'note';

export interface HealthFinding {
  readonly severity: Severity;
  readonly text: string;
  /** What to do about it, as a sentence; null where nothing can or has to be done. */
  readonly action: string | null;
}

/** Whether all is well, and what to do next. */
export interface ArchiveHealth {
  readonly state: 'well' | 'look' | 'act' | 'empty';
  readonly headline: string;
  /** The one thing to do next; null where nothing has to be done. */
  readonly nextAction: string | null;
  /** The gravest first. */
  readonly findings: readonly HealthFinding[];
}

const severityOrder: readonly Severity[] = ['act', 'look', 'note'];
const headlines = { act: 'Something has to be done', look: 'Worth a look' } as const;

/** What is said where nothing has to be done: no more than the judge of the archive says. */
const quietHeadlines: Readonly<Record<ArchiveState, string>> = {
  complete: 'All is well',
  empty: 'All is well',
  provisional: 'All is well, provisionally',
  complete_with_exceptions: 'All is well, with exceptions',
  incomplete: 'Nothing new, but the archive is incomplete',
  damaged: 'The archive is damaged',
};

/** Days before a full disk from which on it is told, and from which on it is urgent. */
const diskFullLookDays = 30;
const diskFullActDays = 7;
/** Days for which an incomplete day is worth a look, once the run of the night after it is due. */
const recentDays = 7;

type HealthInput = Pick<
  ReportData,
  'nowMs' | 'rules' | 'status' | 'runs' | 'lastNight' | 'gaps' | 'cadence' | 'space' | 'days'
>;

export function assessHealth(facts: HealthInput, growth: ArchiveGrowth): ArchiveHealth {
  const { runs, status } = facts;
  if (runs.length === 0 && status.generation === 0) {
    const nextAction = 'Start collecting: oddslake nightly';
    return { state: 'empty', headline: 'Nothing has been collected yet', nextAction, findings: [] };
  }
  const findings = [
    ...checkDamage(facts),
    ...checkRuns(facts),
    ...checkLag(facts),
    ...checkGaps(facts),
    ...checkCompleteness(facts),
    ...checkDiskSpace(facts, growth),
    ...checkServerBehavior(facts),
  ].sort((a, b) => severityOrder.indexOf(a.severity) - severityOrder.indexOf(b.severity));
  const worst = findings[0]?.severity ?? 'note';
  const told = runs.findLast(({ state }) => state === 'ended')?.summary?.nextAction;
  return {
    state: worst === 'note' ? 'well' : worst,
    headline: worst === 'note' ? quietHeadlines[status.verdict.state] : headlines[worst],
    // The last run knows best what came of it.
    nextAction: told ?? findings.find(({ action }) => action !== null)?.action ?? null,
    findings,
  };
}

const actionsByExitCode: Readonly<Record<number, string>> = {
  [exitCodes.usage]: 'Correct the settings that the error names, and run it again.',
  [exitCodes.credential]: 'Check ODDSLAKE_API_KEY or ODDSLAKE_API_KEY_FILE, and run oddslake nightly again.',
  [exitCodes.incomplete]: 'Run oddslake nightly again: it asks for what is missing.',
  [exitCodes.busy]: 'See which run holds the archive, and run it again when that one is over.',
  [exitCodes.damaged]: 'Mend it with oddslake verify --repair',
  [exitCodes.unreachable]: 'Check ODDSLAKE_BASE_URL and the network, and run oddslake nightly again.',
};

function checkDamage({ status }: HealthInput): HealthFinding[] {
  const [first] = status.damaged;
  if (first === undefined) return [];
  const { path, kind, found_at: foundAt } = first;
  const text = `${formatCounted(status.damaged_count, 'file')} not as published: ${path} (${kind}, found ${formatMinute(foundAt)})${status.damaged_count > 1 ? ' and others' : ''}.`;
  return [{ severity: 'act', text, action: 'Mend it with oddslake verify --repair' }];
}

/** Of the last nightly and of the last run of all. */
function checkRuns({ runs, lastNight }: HealthInput): HealthFinding[] {
  const over = runs.filter(({ state }) => state !== 'under way');
  const night = over.findLast(({ job }) => job === 'nightly') ?? lastNight;
  return [...new Set([over.at(-1), night])].flatMap((run) => (run ? (checkRun(run) ?? []) : []));
}

function checkRun(run: PastRun): HealthFinding | null {
  const { word, kind } = toRunMark(run);
  if (kind === 'good') return null;
  const story = describeRun(run);
  const text = `The last ${run.job} (${formatMinute(run.startedAt)}): ${word}${story === '' ? '.' : `. ${story}`}`;
  if (kind === 'idle') return { severity: 'note', text, action: null };
  if (kind === 'fair') return { severity: 'look', text, action: null };
  const isGrave = kind === 'bad' && run.state === 'ended' && run.exitCode !== exitCodes.busy;
  const action = run.state === 'ended' ? actionsByExitCode[run.exitCode ?? 1] : undefined;
  return { severity: isGrave ? 'act' : 'look', text, action: action ?? `Run oddslake ${run.job} again.` };
}

function checkLag({ nowMs, rules, runs, status }: HealthInput): HealthFinding[] {
  if (status.lag_ms === null || status.lag_ms <= rules.lagMsMax) return [];
  const isRunning = runs.some(
    ({ exitCode, finishedAt }) =>
      (exitCode === exitCodes.done || exitCode === exitCodes.incomplete) && nowMs - finishedAt! <= rules.lagMsMax,
  );
  if (isRunning) {
    const text = `Jobs run, but some live symbol has had a hole in what is covered for ${formatLength(status.lag_ms)}.`;
    return [{ severity: 'look', text, action: 'See which windows are missing with oddslake gaps' }];
  }
  const text = `Collecting lies ${formatLength(status.lag_ms)} behind; ${formatLength(rules.lagMsMax)} are allowed for.`;
  const action = 'Run oddslake nightly, and see whether its schedule is running.';
  return [{ severity: 'act', text, action }];
}

function checkGaps({ gaps }: HealthInput): HealthFinding[] {
  const { recent, windows, symbols, lost, span } = gaps;
  const out: HealthFinding[] = [];
  if (lost > 0) {
    const text = `${formatCounted(lost, 'window')} of ticks that were published once ${lost === 1 ? 'is' : 'are'} lost.`;
    out.push({ severity: 'look', text, action: 'Have them again with oddslake verify --repair' });
  }
  if (windows > lost && span !== null) {
    const of = recent.windows > 0 ? recent : { windows, symbols };
    const when = recent.windows > 0 ? ' in the last days' : ', none of them in the last days';
    const text = `${formatCounted(of.windows, 'gap')} in the lives of ${formatCounted(of.symbols, 'symbol')}${when}.`;
    const action = `Ask again with oddslake backfill --from ${formatIsoUtc(span.from)} --to ${formatIsoUtc(span.to)}`;
    out.push({ severity: recent.windows > 0 ? 'look' : 'note', text, action: recent.windows > 0 ? action : null });
  }
  return out;
}

/** What the judge of the archive says beside gaps and damage. */
function checkCompleteness({ status, days, nowMs }: HealthInput): HealthFinding[] {
  const { verdict } = status;
  const out: HealthFinding[] = [];
  const incomplete = days.filter((day) => !isDayWhole(day) && parseDayStart(day.date) + dayMs <= nowMs);
  const [latest] = incomplete.toReversed();
  if (latest !== undefined) {
    const isRecent = incomplete.some(
      ({ date }) => parseDayStart(date) >= nowMs - recentDays * dayMs && parseDayStart(date) + 2 * dayMs <= nowMs,
    );
    const text = `${formatCounted(incomplete.length, 'day')} incomplete, the last of them ${latest.date}.`;
    const action = 'See what is missing with oddslake gaps, and which lists were cut off in the last summaries';
    out.push({ severity: isRecent ? 'look' : 'note', text, action: isRecent ? action : null });
  }
  if (verdict.suspended > 0) {
    const text = `${formatCounted(verdict.suspended, 'active symbol')} suspended: the service says that it does not know them.`;
    out.push({ severity: 'look', text, action: 'See them with oddslake gaps; oddslake symbols retry asks at once' });
  }
  if (verdict.state === 'provisional') {
    const text = `The archive is ${formatCompleteness(verdict)}. The next poll confirms what inference covers.`;
    out.push({ severity: 'note', text, action: null });
  }
  return out;
}

function checkDiskSpace({ nowMs, space }: HealthInput, { fullAt, bytesPerDay }: ArchiveGrowth): HealthFinding[] {
  if (space === null || fullAt === null || bytesPerDay === null) return [];
  const days = (fullAt - nowMs) / dayMs;
  if (days > diskFullLookDays) return [];
  const text = `The disk is full in ${formatLength(fullAt - nowMs)}: ${formatBytes(space.freeBytes)} free, ${formatBytes(bytesPerDay)} more a day.`;
  return [
    {
      severity: days <= diskFullActDays ? 'act' : 'look',
      text,
      action: 'Make room, or move the archive to a larger disk.',
    },
  ];
}

function checkServerBehavior({ cadence }: HealthInput): HealthFinding[] {
  if (cadence.error !== null) {
    const text = `The ticks could not be read: ${cadence.error}`;
    return [{ severity: 'act', text, action: 'See what is damaged with oddslake verify' }];
  }
  const count = cadence.silent.length;
  if (count === 0) return [];
  const text = `${formatCounted(count, 'symbol')} that ticked regularly ${count === 1 ? 'is' : 'are'} silent.`;
  return [{ severity: 'note', text, action: null }];
}

const formatCounted = (count: number, noun: string): string =>
  `${formatThousands(count)} ${noun}${count === 1 ? '' : 's'}`;

/** How a run is shown: never by its colour alone. */
export interface RunMark {
  readonly sign: string;
  readonly word: string;
  /** A class of the page's style. */
  readonly kind: 'good' | 'fair' | 'poor' | 'bad' | 'idle';
}

export const runMarks = {
  done: { sign: '✓', word: 'done', kind: 'good' },
  warned: { sign: '!', word: 'done, with warnings', kind: 'fair' },
  incomplete: { sign: '◐', word: 'incomplete', kind: 'poor' },
  failed: { sign: '✕', word: 'failed', kind: 'bad' },
  stopped: { sign: '–', word: 'stopped', kind: 'idle' },
  running: { sign: '…', word: 'under way', kind: 'idle' },
} as const satisfies Record<string, RunMark>;

const exitCodeWords: Readonly<Record<number, string>> = {
  [exitCodes.usage]: 'bad settings',
  [exitCodes.credential]: 'key refused',
  [exitCodes.busy]: 'another run was writing',
  [exitCodes.damaged]: 'archive damaged',
  [exitCodes.unreachable]: 'upstream unreachable',
};

/** What became of a run. */
export function toRunMark({ state, exitCode, summary }: Pick<PastRun, 'state' | 'exitCode' | 'summary'>): RunMark {
  if (state === 'under way') return runMarks.running;
  if (state === 'broken off') return { ...runMarks.failed, word: 'broken off' };
  switch (exitCode) {
    case exitCodes.done:
      return (summary?.warningsCount ?? 0) > 0 ? runMarks.warned : runMarks.done;
    case exitCodes.incomplete:
      return runMarks.incomplete;
    case exitCodes.interrupted:
    case exitCodes.terminated:
      return runMarks.stopped;
    default:
      return { ...runMarks.failed, word: exitCodeWords[exitCode ?? 1] ?? runMarks.failed.word };
  }
}

const lettersMax = 400;

/** What a run says of itself in one line: its error, else what it could not do, else its first warning; not all of a long one. */
export const describeRun = (run: Pick<PastRun, 'state' | 'summary'>): string =>
  shortenText(describeRunInFull(run), lettersMax);

function describeRunInFull({ state, summary }: Pick<PastRun, 'state' | 'summary'>): string {
  if (state === 'broken off') return 'Its process ended without a word; the next run takes up what it had accepted.';
  if (summary === null) return '';
  const { error, failures, failuresCount, warnings, warningsCount } = summary;
  if (error !== null) return error;
  const [failure] = failures;
  if (failure !== undefined)
    return `${failure.symbol === null ? '' : `${failure.symbol}: `}${failure.reason}${formatMore(failuresCount - 1)}`;
  return warnings.length === 0 ? '' : `${warnings[0]}${formatMore(warningsCount - 1)}`;
}

const formatMore = (count: number): string => (count > 0 ? ` (and ${count} more)` : '');

/** How the published files grow. */
export interface ArchiveGrowth {
  /** Bytes published by the end of each day shown, by UTC midnight of the day's end. */
  readonly sizes: readonly { readonly t: number; readonly bytes: number }[];
  /** Bytes a day; null where there are too few whole days to tell. */
  readonly bytesPerDay: number | null;
  /** Whole days that it is told by. */
  readonly days: number;
  /** When nothing is free any more, epoch ms; null where that is beyond `yearsMax`, or cannot be told. */
  readonly fullAt: number | null;
}

/** Years ahead beyond which nobody wants to know when a disk is full. */
export const yearsMax = 10;
const fittedDaysMax = 30;
const fittedDaysMin = 3;

/**
 * A line through the bytes published by the end of each of the last whole days, by least squares: a day is as large as it
 * is however late it was fetched, so that a backfill is no growth to come.
 * @param shownFrom the first moment of which sizes are wanted; epoch ms as all times here
 */
export function computeGrowth(
  days: readonly Pick<DayTotals, 'date' | 'bytes'>[],
  space: DiskSpace | null,
  { nowMs, shownFrom, shownTo }: { readonly nowMs: number; readonly shownFrom: number; readonly shownTo: number },
): ArchiveGrowth {
  const sizes = sumSizesByDay(days, Math.max(floorToDay(nowMs) + dayMs, shownTo));
  const today = floorToDay(nowMs);
  const fitted = sizes.filter(({ t }) => t <= today).slice(-fittedDaysMax);
  const bytesPerDay = fitted.length < fittedDaysMin ? null : estimateSlope(fitted.map(({ bytes }) => bytes));
  const fullInMs = space === null || !bytesPerDay || bytesPerDay <= 0 ? null : (space.freeBytes / bytesPerDay) * dayMs;
  return {
    sizes: sizes.filter(({ t }) => t > shownFrom && t <= shownTo),
    bytesPerDay,
    days: fitted.length,
    fullAt: fullInMs === null || fullInMs > yearsMax * 365.25 * dayMs ? null : nowMs + fullInMs,
  };
}

/** From the first day on, those without a file included. */
function sumSizesByDay(days: readonly Pick<DayTotals, 'date' | 'bytes'>[], to: number): { t: number; bytes: number }[] {
  if (days.length === 0) return [];
  const byDate = new Map(days.map(({ date, bytes }) => [date, bytes]));
  const out: { t: number; bytes: number }[] = [];
  let bytes = 0;
  for (let day = parseDayStart(days[0]!.date); day < to; day += dayMs) {
    bytes += byDate.get(formatDay(day)) ?? 0;
    out.push({ t: day + dayMs, bytes });
  }
  return out;
}

/** The slope of the line that lies nearest to values at 0, 1, 2 and so on. */
export function estimateSlope(values: readonly number[]): number {
  const middle = (values.length - 1) / 2;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const [over, under] = values.reduce(
    ([xy, xx], value, i) => [xy + (i - middle) * (value - mean), xx + (i - middle) ** 2],
    [0, 0],
  );
  return under === 0 ? 0 : over / under;
}
