import type { DiskSpace } from '../archive/disk/file-system.ts';
import { computeDailyGrowth } from '../archive/format/growth.ts';
import type { Summary } from '../archive/journal/run-summary.ts';
import { exitCodes } from '../base/errors.ts';
import { formatBytes, formatCount, formatDuration, formatNumber } from '../base/format-quantity.ts';
import { formatDay, formatIsoUtc, formatMinute, parseDayStart } from '../base/time.ts';
import { dayMs, floorToDay, minuteMs } from '../base/window.ts';
import { type ArchiveState, formatCompleteness, isDayComplete } from '../contract/completeness-counts.ts';
import type { PastRun } from './data/past-run.ts';
import type { DayTotals, ReportData } from './data/report-data.ts';
import { shortenText } from './page-parts.ts';

/** `action_required`: a problem that persists until someone acts. `warning`: should be checked. The doctor uses the same words. */
type Severity = 'action_required' | 'warning' | 'info';

interface HealthFinding {
  readonly severity: Severity;
  readonly message: string;
  /** What to do, as a sentence; null if there is nothing to do. */
  readonly action: string | null;
}

/** State of the archive and the next action. */
export interface ArchiveHealth {
  readonly state: 'ok' | 'warning' | 'action_required' | 'empty';
  readonly headline: string;
  /** Null if no action is required. */
  readonly nextAction: string | null;
  /** Sorted by severity, most severe first. */
  readonly findings: readonly HealthFinding[];
}

const severityOrder: readonly Severity[] = ['action_required', 'warning', 'info'];
const headlines = { action_required: 'Action required', warning: 'Needs attention' } as const;

/** Headlines by the state of the archive, for a report with no warning and no required action. */
const quietHeadlines: Readonly<Record<ArchiveState, string>> = {
  complete: 'OK',
  empty: 'OK',
  provisional: 'OK, some coverage provisional',
  complete_with_exceptions: 'OK, with exceptions',
  incomplete: 'No new problems, but the archive is incomplete',
  damaged: 'The archive is damaged',
};

/** Days before the disk is full at which the report warns, and at which action is required. */
const diskFullWarningDays = 30;
const diskFullActionDays = 7;
/** Number of days for which an incomplete day is a warning, once the next nightly run is due. */
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
  const worst = findings[0]?.severity ?? 'info';
  return {
    state: worst === 'info' ? 'ok' : worst,
    headline: worst === 'info' ? quietHeadlines[status.completeness.state] : headlines[worst],
    // The worst problem decides: repairing damage comes before fetching what is missing.
    nextAction: findings.find(({ action }) => action !== null)?.action ?? null,
    findings,
  };
}

const actionsByExitCode: Readonly<Record<number, string>> = {
  [exitCodes.usage]: 'Correct the settings named in the error, and run it again.',
  [exitCodes.credential]: 'Check ODDSLAKE_API_KEY or ODDSLAKE_API_KEY_FILE, and run oddslake nightly again.',
  [exitCodes.incomplete]: 'Run oddslake nightly again: it fetches the missing windows.',
  [exitCodes.busy]: 'Run it again when the other run has finished.',
  [exitCodes.damaged]: 'Repair the archive with oddslake verify --repair',
  [exitCodes.unreachable]: 'Check ODDSLAKE_BASE_URL and the network, and run oddslake nightly again.',
};

function checkDamage({ status }: HealthInput): HealthFinding[] {
  const [first] = status.damaged;
  if (first === undefined) return [];
  const { path, kind, found_at: foundAt } = first;
  const message = `${formatCount(status.damaged_count, 'file')} damaged: ${path} (${kind}, found ${formatMinute(foundAt)})${status.damaged_count > 1 ? ` and ${formatNumber(status.damaged_count - 1)} more` : ''}.`;
  return [{ severity: 'action_required', message, action: 'Repair the archive with oddslake verify --repair' }];
}

/** Checks the last nightly run and the last run of any job. A verify that only found damage says what the damage says. */
function checkRuns({ runs, lastNight, status }: HealthInput): HealthFinding[] {
  const ended = runs.filter(({ state }) => state !== 'running');
  const lastNightly = ended.findLast(({ job }) => job === 'nightly') ?? lastNight;
  return [...new Set([ended.at(-1), lastNightly])].flatMap((run) =>
    run && !(run.job === 'verify' && run.exitCode === exitCodes.damaged && status.damaged_count > 0)
      ? (checkRun(run, run === ended.at(-1) ? run.summary?.next_action : undefined) ?? [])
      : [],
  );
}

/** @param ownAction what the run itself suggested; undefined for a run that others followed, since it may be outdated */
function checkRun(run: PastRun, ownAction: string | null | undefined): HealthFinding | null {
  const { word, kind } = toRunMark(run);
  if (kind === 'good') return null;
  const reason = describeRun(run);
  const message = `The last ${run.job} (${formatMinute(run.startedAt)}): ${word}${reason === '' ? '.' : `. ${reason}`}`;
  if (kind === 'idle') return { severity: 'info', message, action: null };
  if (kind === 'fair') return { severity: 'warning', message, action: ownAction ?? null };
  const isGrave = kind === 'bad' && run.state === 'ended' && run.exitCode !== exitCodes.busy;
  const action = run.state === 'ended' ? actionsByExitCode[run.exitCode ?? 1] : undefined;
  return {
    severity: isGrave ? 'action_required' : 'warning',
    message,
    action: ownAction ?? action ?? `Run oddslake ${run.job} again.`,
  };
}

function checkLag({ nowMs, rules, runs, status }: HealthInput): HealthFinding[] {
  if (status.lag_ms === null || status.lag_ms <= rules.lagMsMax) return [];
  const isRunning = runs.some(
    ({ exitCode, finishedAt }) =>
      (exitCode === exitCodes.done || exitCode === exitCodes.incomplete) && nowMs - finishedAt! <= rules.lagMsMax,
  );
  if (isRunning) {
    const message = `Jobs run, but a live symbol has had a gap for ${formatDuration(status.lag_ms)}.`;
    return [{ severity: 'warning', message, action: 'List the missing windows with oddslake gaps' }];
  }
  const message = `The lag is ${formatDuration(status.lag_ms)}; the limit is ${formatDuration(rules.lagMsMax)}.`;
  const action = 'Run oddslake nightly, and check that its schedule is running.';
  return [{ severity: 'action_required', message, action }];
}

const floorToMinute = (t: number): number => Math.floor(t / minuteMs) * minuteMs;

function checkGaps({ gaps }: HealthInput): HealthFinding[] {
  const { recent, windows, symbols, lost, span } = gaps;
  const out: HealthFinding[] = [];
  if (lost > 0) {
    const message = `${formatCount(lost, 'window')} of published ticks ${lost === 1 ? 'is' : 'are'} lost.`;
    out.push({ severity: 'warning', message, action: 'Restore them with oddslake verify --repair' });
  }
  if (windows > lost && span !== null) {
    const counts = recent.windows > 0 ? recent : { windows, symbols };
    const whenText = recent.windows > 0 ? ' in recent days' : ', none of them in recent days';
    const message = `${formatCount(counts.windows, 'gap')} of ${formatCount(counts.symbols, 'symbol')}${whenText}.`;
    const action = `Fetch them with oddslake backfill --from ${formatIsoUtc(floorToMinute(span.from))} --to ${formatIsoUtc(-floorToMinute(-span.to))}`;
    out.push({
      severity: recent.windows > 0 ? 'warning' : 'info',
      message,
      action: recent.windows > 0 ? action : null,
    });
  }
  return out;
}

/** Checks completeness, apart from gaps and damage. */
function checkCompleteness({ status, days, nowMs }: HealthInput): HealthFinding[] {
  const { completeness } = status;
  const out: HealthFinding[] = [];
  const incomplete = days.filter((day) => !isDayComplete(day) && parseDayStart(day.date) + dayMs <= nowMs);
  const [latestDay] = incomplete.toReversed();
  if (latestDay !== undefined) {
    const isRecent = incomplete.some(
      ({ date }) => parseDayStart(date) >= nowMs - recentDays * dayMs && parseDayStart(date) + 2 * dayMs <= nowMs,
    );
    const message = `${formatCount(incomplete.length, 'day')} incomplete, most recently ${latestDay.date}.`;
    const action = 'List the missing windows with oddslake gaps, and check the last summaries for truncated lists';
    out.push({ severity: isRecent ? 'warning' : 'info', message, action: isRecent ? action : null });
  }
  if (completeness.suspended > 0) {
    const message = `${formatCount(completeness.suspended, 'active symbol')} suspended: the service reports them as unknown.`;
    out.push({
      severity: 'warning',
      message,
      action: 'List them with oddslake gaps, or poll them now with oddslake symbols retry',
    });
  }
  if (completeness.state === 'provisional') {
    const message = `The archive is ${formatCompleteness(completeness)}. The next poll confirms inferred coverage.`;
    out.push({ severity: 'info', message, action: null });
  }
  return out;
}

function checkDiskSpace({ nowMs, space }: HealthInput, { fullAt, bytesPerDay }: ArchiveGrowth): HealthFinding[] {
  if (space === null || fullAt === null || bytesPerDay === null) return [];
  const days = (fullAt - nowMs) / dayMs;
  if (days > diskFullWarningDays) return [];
  const message = `The disk will be full in ${formatDuration(fullAt - nowMs)}: ${formatBytes(space.freeBytes)} free, growing by ${formatBytes(bytesPerDay)} per day.`;
  return [
    {
      severity: days <= diskFullActionDays ? 'action_required' : 'warning',
      message,
      action: 'Free disk space, or move the archive to a larger disk.',
    },
  ];
}

function checkServerBehavior({ cadence, status }: HealthInput): HealthFinding[] {
  if (cadence.error !== null) {
    // Known damage is a finding of its own.
    if (status.damaged_count > 0) return [];
    const message = `Ticks could not be read: ${cadence.error}`;
    return [{ severity: 'action_required', message, action: 'Check for damage with oddslake verify' }];
  }
  const count = cadence.silent.length;
  if (count === 0) return [];
  const message = `${formatCount(count, 'symbol')} with regular ticks ${count === 1 ? 'has' : 'have'} become silent.`;
  return [{ severity: 'info', message, action: null }];
}

/** How a run is displayed. Colour is never the only distinction. */
interface RunMark {
  readonly sign: string;
  readonly word: string;
  /** CSS class. */
  readonly kind: 'good' | 'fair' | 'poor' | 'bad' | 'idle';
}

export const runMarks = {
  done: { sign: '✓', word: 'done', kind: 'good' },
  warned: { sign: '!', word: 'done, with warnings', kind: 'fair' },
  incomplete: { sign: '◐', word: 'incomplete', kind: 'poor' },
  failed: { sign: '✕', word: 'failed', kind: 'bad' },
  stopped: { sign: '–', word: 'stopped', kind: 'idle' },
  running: { sign: '…', word: 'running', kind: 'idle' },
} as const satisfies Record<string, RunMark>;

const exitCodeWords: Readonly<Record<number, string>> = {
  [exitCodes.usage]: 'bad settings',
  [exitCodes.credential]: 'key rejected',
  [exitCodes.busy]: 'another run was writing',
  [exitCodes.damaged]: 'archive damaged',
  [exitCodes.unreachable]: 'upstream unreachable',
};

/** Returns how the outcome of a run is displayed. */
export function toRunMark({ state, exitCode, summary }: Pick<PastRun, 'state' | 'exitCode' | 'summary'>): RunMark {
  if (state === 'running') return runMarks.running;
  if (state === 'interrupted') return { ...runMarks.failed, word: 'interrupted' };
  switch (exitCode) {
    case exitCodes.done:
      return summary === null || summary.warnings_count === 0 || hasOnlyFewUnusableRows(summary)
        ? runMarks.done
        : runMarks.warned;
    case exitCodes.incomplete:
      return runMarks.incomplete;
    case exitCodes.interrupted:
    case exitCodes.terminated:
      return runMarks.stopped;
    default:
      return { ...runMarks.failed, word: exitCodeWords[exitCode ?? 1] ?? runMarks.failed.word };
  }
}

/** Unusable rows up to this share of all rows are normal, and no reason to warn. Imports have the same default. */
const unusableShareMax = 0.01;

/** The warning of every run with unusable rows; see collector/job.ts. */
const unusableRowsPattern = /^\d+ unusable [\w ]+ were quarantined in \.oddslake\/quarantine\.$/;

/** Whether the run warned of nothing but a small share of unusable rows. */
function hasOnlyFewUnusableRows({ warnings, warnings_count, ...counts }: Summary): boolean {
  const all = [counts.ticks, counts.quotes, counts.trades].filter((one) => one !== undefined);
  const fetched = all.reduce((sum, one) => sum + one.fetched, 0);
  const unusable = all.reduce((sum, one) => sum + one.quarantined, 0);
  const areAllOfRows = warnings.every((warning) => unusableRowsPattern.test(warning));
  return areAllOfRows && warnings.length === warnings_count && unusable <= fetched * unusableShareMax;
}

const lettersMax = 400;

/** The error, first failure or first warning of a run, shortened to one line. */
export const describeRun = (run: Pick<PastRun, 'state' | 'summary'>): string =>
  shortenText(describeRunInFull(run), lettersMax);

function describeRunInFull({ state, summary }: Pick<PastRun, 'state' | 'summary'>): string {
  if (state === 'interrupted')
    return 'Its process ended unexpectedly; the next run recovers the ticks that it accepted.';
  if (summary === null) return '';
  const { error, failures, failures_count, warnings, warnings_count } = summary;
  if (error !== null) return error;
  const [failure] = failures;
  if (failure !== undefined)
    return `${failure.symbol === null ? '' : `${failure.symbol}: `}${failure.reason}${formatMore(failures_count - 1)}`;
  return warnings.length === 0 ? '' : `${warnings[0]}${formatMore(warnings_count - 1)}`;
}

const formatMore = (count: number): string => (count > 0 ? ` (and ${count} more)` : '');

/** Growth of the published files. */
export interface ArchiveGrowth {
  /** Published bytes of all days up to each shown day; `t` is the UTC midnight at its end. */
  readonly sizes: readonly { readonly t: number; readonly bytes: number }[];
  /** Bytes per day; null if there are too few finished days. */
  readonly bytesPerDay: number | null;
  /** Number of finished days in the mean. */
  readonly days: number;
  /** Time at which the disk will be full, epoch ms; null if unknown or more than `yearsMax` ahead. */
  readonly fullAt: number | null;
}

/** Maximum forecast of a full disk, in years. */
const yearsMax = 10;

/**
 * Computes the growth, and from it when the disk will be full.
 * @param shownFrom start of the returned sizes, epoch ms
 */
export function computeGrowth(
  days: readonly Pick<DayTotals, 'date' | 'bytes'>[],
  space: DiskSpace | null,
  { nowMs, shownFrom, shownTo }: { readonly nowMs: number; readonly shownFrom: number; readonly shownTo: number },
): ArchiveGrowth {
  const sizes = sumSizesByDay(days, Math.max(floorToDay(nowMs) + dayMs, shownTo));
  const { bytesPerDay, days: meanDays } = computeDailyGrowth(days, nowMs) ?? { bytesPerDay: null, days: 0 };
  const fullInMs = space === null || !bytesPerDay ? null : (space.freeBytes / bytesPerDay) * dayMs;
  return {
    sizes: sizes.filter(({ t }) => t > shownFrom && t <= shownTo),
    bytesPerDay,
    days: meanDays,
    fullAt: fullInMs === null || fullInMs > yearsMax * 365.25 * dayMs ? null : nowMs + fullInMs,
  };
}

/** Cumulative sizes from the first day, including days without files. */
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
