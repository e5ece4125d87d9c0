import { exitCodes } from '../../base/errors.ts';
import { formatBytes, formatCount, formatDuration, formatNumber } from '../../base/format-quantity.ts';
import { quoteShellWord } from '../../base/shell-quote.ts';
import { formatIsoUtc, parseDayStart } from '../../base/time.ts';
import { dayMs, floorToDay, minuteMs, type Window } from '../../base/window.ts';
import { countExceptedGaps } from '../../contract/completeness-counts.ts';
import { isLastingDay, suggestOpenDaysCommand } from '../../contract/day-reasons.ts';
import {
  createVerdict,
  type Finding,
  type FindingKind,
  sortFindings,
  toNamedFew,
  type Verdict,
} from '../../contract/finding.ts';
import type { Summary } from '../journal/run-summary.ts';
import type { PastRun } from '../journal/runs.ts';
import type { ArchiveStatus } from './archive-status.ts';

/** What is known of an archive, of its runs and of its machine at one moment. Times in epoch ms. */
export interface Facts {
  readonly nowMs: number;
  /** Maximum lag without a finding, in ms. */
  readonly lagMsMax: number;
  /** Null: manifest or state cannot be read. */
  readonly status: ArchiveStatus | null;
  /** What the run that ends now has found of itself; the status does not list it yet. */
  readonly ended?: {
    readonly summary: Pick<Summary, 'requests' | 'exit_code' | 'ticks'>;
    readonly findings: readonly Finding[];
  };
  /** Scheduled jobs that are late, and why; absent where no schedule runs. */
  readonly lateJobs?: readonly { readonly name: string; readonly reason: string }[];
}

export interface Judgement {
  readonly verdict: Verdict;
  /** The worst first. */
  readonly findings: readonly Finding[];
}

/**
 * The one judge of an archive: summaries, status, doctor, reports, pages, notifications, readiness and metrics show what it
 * finds, and judge nothing themselves. The same facts give the same findings.
 */
export function judge(facts: Facts): Judgement {
  const { status } = facts;
  const ofArchive = status === null ? (facts.ended === undefined ? [unreadable] : []) : judgeStatus(status, facts);
  // Of one kind there is one finding: the worst, and if they are equally bad, that of the archive.
  const findings = sortFindings([...ofArchive, ...listLateJobs(facts), ...listRunFindings(facts)]).filter(
    ({ kind }, i, all) => manyKinds.has(kind) || all.findIndex((one) => one.kind === kind) === i,
  );
  return { findings, verdict: createVerdict(findings, describeWell(facts)) };
}

/** Kinds whose findings are about different things. */
const manyKinds: ReadonlySet<FindingKind> = new Set(['warning', 'late job']);

/** What the archive shows at any moment. What a run found of these kinds may no longer be so. */
const archiveKinds: ReadonlySet<FindingKind> = new Set([
  'archive unreadable',
  'damage',
  'failing symbols',
  'lag',
  'gaps',
  'suspended',
  'incomplete days',
  'interrupted publish',
  'unpublished',
  'provisional',
  'running',
  'disk space',
  'late job',
  'empty',
]);

/** What a later run that the upstream answered shows to be over. */
const upstreamKinds: ReadonlySet<FindingKind> = new Set(['credential', 'unreachable', 'address', 'source', 'error']);

/** The findings of the run that ends now, of the last nightly of each source, and of failed runs after it. */
function listRunFindings({ status, ended }: Facts): Finding[] {
  if (ended !== undefined) return [...ended.findings];
  const runs = status?.runs ?? [];
  const found = runs.flatMap((run, i) => {
    const later = runs.slice(i + 1);
    // What one source answered says nothing about another.
    const same = later.filter(({ source }) => source === run.source || source === null || run.source === null);
    const isMended = same.some(
      ({ job, exitCode, state }) =>
        job === run.job && (exitCode === exitCodes.done || (job === 'nightly' && state === 'ended')),
    );
    if (isMended || (run.job !== 'nightly' && run.exitCode === exitCodes.done)) return [];
    const isAnswered = same.some(({ summary }) => hasPolled(summary));
    const isPublished = later.some(({ exitCode }) => exitCode === exitCodes.done);
    return (run.summary?.findings ?? []).filter(
      ({ kind }) =>
        !archiveKinds.has(kind) &&
        !(isAnswered && upstreamKinds.has(kind)) &&
        !(isPublished && (kind === 'busy' || kind === 'interrupted')),
    );
  });
  // The runs of one job for its sources have the same findings.
  return [...new Map(found.map((one) => [`${one.kind} ${one.message}`, one])).values(), ...listUnfinished(runs)];
}

const hasPolled = (summary: Pick<Summary, 'requests' | 'exit_code'> | null): boolean =>
  summary !== null &&
  summary.requests > 0 &&
  (summary.exit_code === exitCodes.done || summary.exit_code === exitCodes.incomplete);

/** The newest run, if it is at work or was interrupted. */
function listUnfinished(runs: readonly PastRun[]): Finding[] {
  const last = runs.at(-1);
  if (last === undefined || last.state === 'ended') return [];
  const run = `the ${last.job} of ${formatMoment(last.startedAt)}`;
  return last.state === 'running'
    ? [{ kind: 'running', severity: 'info', message: `${run} is running`, command: null }]
    : [
        {
          kind: 'interrupted',
          severity: 'warning',
          message: `${run} was killed before its end; what it accepted is kept, and the next run resumes`,
          command: `oddslake ${last.job === 'backfill' || last.job === 'import' ? 'publish' : last.job}`,
        },
      ];
}

const unreadable: Finding = {
  kind: 'archive unreadable',
  severity: 'action_required',
  message: 'the archive cannot be read',
  command: 'oddslake doctor',
};

function judgeStatus(status: ArchiveStatus, facts: Facts): Finding[] {
  const hasRun = facts.ended !== undefined || status.runs.length > 0;
  if (status.generation === 0 && !hasRun) {
    const message = 'nothing has been collected yet';
    return [{ kind: 'empty', severity: 'info', message, command: 'oddslake nightly' }];
  }
  return [
    ...judgeDamage(status),
    ...judgeFailing(status),
    ...judgeLag(status, facts),
    ...judgeGaps(status, facts.nowMs),
    ...judgeLists(status),
    ...judgeJournal(status),
    ...judgeProvisional(status),
    ...judgeDisk(status),
  ];
}

/** An archive without a run may wait for a job that is late. */
const listLateJobs = ({ lateJobs = [] }: Facts): Finding[] =>
  lateJobs.map(({ name, reason }) => ({
    kind: 'late job',
    severity: 'warning',
    message: `the ${name} ${reason}`,
    command: 'oddslake doctor',
  }));

/** `2 files damaged: ticks/a and 1 more (missing)`, of at least one file. */
export function describeDamage(damaged: ArchiveStatus['damaged']): string {
  const [first] = damaged;
  const more = damaged.length === 1 ? '' : ` and ${formatNumber(damaged.length - 1)} more`;
  return `${formatCount(damaged.length, 'file')} damaged: ${first!.path}${more} (${first!.kind})`;
}

function judgeDamage({ damaged }: ArchiveStatus): Finding[] {
  if (damaged.length === 0) return [];
  return [
    {
      kind: 'damage',
      severity: 'action_required',
      message: describeDamage(damaged),
      command: 'oddslake verify --repair',
      since: damaged.reduce((min, { foundAt }) => Math.min(min, foundAt), Number.POSITIVE_INFINITY),
      files: toNamedFew(damaged.map(({ path }) => path)),
    },
  ];
}

/** Maximum number of symbols that a command names. */
const namedSymbolsMax = 5;

/** A backfill of a window, limited to the symbols if there are only a few. */
export function suggestBackfill({ from, to }: Window, symbols: readonly string[], count = symbols.length): string {
  const named = count > namedSymbolsMax ? [] : symbols;
  const flags = named.map((symbol) => ` --symbol ${quoteShellWord(symbol)}`).join('');
  const [start, end] = [Math.floor(from / minuteMs) * minuteMs, Math.ceil(to / minuteMs) * minuteMs];
  return `oddslake backfill --from ${formatIsoUtc(start)} --to ${formatIsoUtc(end)}${flags}`;
}

function judgeFailing({ failing }: ArchiveStatus): Finding[] {
  if (failing === null) return [];
  const { symbols, since, reason } = failing;
  return [
    {
      kind: 'failing symbols',
      severity: 'warning',
      message: `${formatCount(symbols.count, 'symbol')} failed since ${formatMoment(since)}: ${symbols.count === 1 ? `${symbols.names[0]!}: ` : ''}${reason}`,
      command: suggestBackfill(failing, symbols.names, symbols.count),
      since,
      symbols,
    },
  ];
}

function judgeLag(
  { reached, runs, failing, completeness }: ArchiveStatus,
  { nowMs, lagMsMax, ended }: Facts,
): Finding[] {
  if (reached === null) {
    if (completeness.live === 0) return [];
    const message = `nothing is covered yet for ${formatCount(completeness.live, 'live symbol')}`;
    return [{ kind: 'lag', severity: 'warning', message, command: 'oddslake nightly' }];
  }
  if (nowMs - reached <= lagMsMax) return [];
  const isRunning =
    hasPolled(ended?.summary ?? null) ||
    runs.some(({ summary, finishedAt }) => hasPolled(summary) && nowMs - finishedAt! <= lagMsMax);
  const since = formatMoment(reached);
  if (!isRunning) {
    const message = `nothing was collected since ${since}`;
    return [{ kind: 'lag', severity: 'action_required', message, command: 'oddslake nightly', since: reached }];
  }
  // The failing symbols are what lags, with a finding of their own.
  if (failing !== null) return [];
  const message = `jobs run, but some live symbols have no data since ${since}`;
  return [{ kind: 'lag', severity: 'warning', message, command: 'oddslake gaps', since: reached }];
}

/** Number of days for which an incomplete day is a warning, once the next nightly run is due. */
const recentDays = 7;

function judgeGaps({ completeness, openDays, failing }: ArchiveStatus, nowMs: number): Finding[] {
  const { gaps, suspended } = completeness;
  const out: Finding[] = [];
  if (gaps.lost > 0) {
    const message = `ticks of ${formatCount(gaps.lost, 'window')} were published and are lost`;
    out.push({ kind: 'lost', severity: 'warning', message, command: 'oddslake verify --repair' });
  }
  const excepted = countExceptedGaps(completeness) - gaps.lost;
  if (excepted > 0) {
    const message = `${formatCount(excepted, 'known gap')} (expired or accepted)`;
    out.push({ kind: 'known gaps', severity: 'info', message, command: 'oddslake gaps' });
  }
  if (suspended > 0) {
    const message = `${formatCount(suspended, 'active symbol')} suspended: unknown to the service`;
    out.push({ kind: 'suspended', severity: 'warning', message, command: 'oddslake symbols retry' });
  }
  const isRecent = ({ date }: { readonly date: string }): boolean =>
    parseDayStart(date) >= floorToDay(nowMs) - recentDays * dayMs && parseDayStart(date) + 2 * dayMs <= nowMs;
  const incomplete = openDays.filter(
    (day) => day.state === 'incomplete' && !day.reasons.some(({ reason }) => reason === 'damaged'),
  );
  const lasting = incomplete.filter(isLastingDay);
  const curable = incomplete.filter((day) => !isLastingDay(day));
  const days = (of: typeof incomplete) => ({ days: toNamedFew(of.map(({ date }) => date)) });
  const open = gaps['never asked'] + (failing === null ? gaps.failed : 0);
  if (open > 0 || (curable.length > 0 && failing === null)) {
    const what = open > 0 ? formatCount(open, 'gap') : `${formatCount(curable.length, 'day')} incomplete`;
    const when = curable.length === 0 ? '' : `, most recently on ${curable[0]!.date}`;
    out.push({
      kind: 'gaps',
      severity: curable.length === 0 || curable.some(isRecent) ? 'warning' : 'info',
      message: `${what}${when}`,
      command: suggestOpenDaysCommand(curable) ?? 'oddslake gaps',
      ...days(curable),
    });
  }
  if (lasting.length > 0)
    out.push({
      kind: 'incomplete days',
      severity: 'info',
      message: `${formatCount(lasting.length, 'past day')} ${lasting.length === 1 ? 'stays' : 'stay'} incomplete, most recently ${lasting[0]!.date}: ${lasting[0]!.reason}`,
      command: 'oddslake gaps',
      ...days(lasting),
    });
  return out;
}

const judgeLists = ({ completeness: { lists_complete: isComplete } }: ArchiveStatus): Finding[] =>
  isComplete
    ? []
    : [
        {
          kind: 'market list',
          severity: 'warning',
          message: 'the last market lists are incomplete, so that symbols may be unknown',
          command: 'oddslake markets',
        },
      ];

function judgeJournal({ ticksJournaled, isPublishOpen, runs }: ArchiveStatus): Finding[] {
  if (runs.at(-1)?.state === 'running') return [];
  if (isPublishOpen) {
    const message = 'the last publish was interrupted; no data lost';
    return [{ kind: 'interrupted publish', severity: 'warning', message, command: 'oddslake publish' }];
  }
  if (ticksJournaled === 0) return [];
  const message = `${formatCount(ticksJournaled, 'tick')} not published yet; the next run publishes them`;
  return [{ kind: 'unpublished', severity: 'info', message, command: 'oddslake publish' }];
}

function judgeProvisional({ completeness: { inferred_windows: windows, gaps } }: ArchiveStatus): Finding[] {
  if (windows === 0) return [];
  const fetched = gaps.failed + gaps['never asked'] === 0 ? 'all fetched; ' : '';
  const message = `${fetched}the next run double-checks ${formatCount(windows, 'range')} (nothing to do)`;
  return [{ kind: 'provisional', severity: 'info', message, command: null }];
}

/** Days before the disk is full at which it is a warning, and at which action is required. */
export const diskFullWarningDays = 30;
const diskFullActionDays = 7;

function judgeDisk({ disk }: ArchiveStatus): Finding[] {
  if (disk === null || disk.bytesPerDay <= 0) return [];
  const days = disk.freeBytes / disk.bytesPerDay;
  if (days > diskFullWarningDays) return [];
  return [
    {
      kind: 'disk space',
      severity: days <= diskFullActionDays ? 'action_required' : 'warning',
      message: `the disk will be full in ${formatDuration(days * dayMs)}: ${formatBytes(disk.freeBytes)} free, growing by ${formatBytes(disk.bytesPerDay)} a day`,
      advice: 'free disk space, or move the archive to a larger disk',
      command: null,
    },
  ];
}

/** `collected to 2026-11-29 08:10 UTC, proven to 2026-11-27, 170,150 new ticks`. */
function describeWell({ status, ended }: Facts): string {
  if (status === null) return 'the job ended without a problem';
  const { reached, watermark, ticksPublished } = status;
  const ends = status.runs.flatMap(({ job, summary }) => (summary === null ? [] : [{ job, summary }]));
  const night = ended?.summary ?? (ends.findLast(({ job }) => job === 'nightly') ?? ends.at(-1))?.summary;
  return [
    ...(reached === null && ticksPublished > 0 ? [formatCount(ticksPublished, 'tick')] : []),
    reached === null ? 'no live symbols' : `collected to ${formatMoment(reached)}`,
    ...(watermark === null || watermark === reached ? [] : [`proven to ${formatMoment(watermark)}`]),
    // A job that requests no ticks brings none.
    ...(night == null || night.ticks.fetched === 0 ? [] : [`${formatCount(night.ticks.accepted, 'new tick')}`]),
  ].join(', ');
}

/** `2026-11-29 08:10 UTC`, or `2026-11-27` at its midnight. */
export const formatMoment = (ms: number): string =>
  ms % dayMs === 0 ? formatIsoUtc(ms).slice(0, 10) : `${formatIsoUtc(ms).slice(0, 16).replace('T', ' ')} UTC`;
