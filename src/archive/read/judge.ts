import { exitCodes } from '../../base/errors.ts';
import { formatBytes, formatCount, formatDuration, formatNumber } from '../../base/format-quantity.ts';
import { quoteShellWord } from '../../base/shell-quote.ts';
import { formatIsoUtc, parseDayStart } from '../../base/time.ts';
import { dayMs, floorToDay, minuteMs, type Window } from '../../base/window.ts';
import { countCompleteDays, countExceptedGaps } from '../../contract/completeness-counts.ts';
import {
  type DayReason,
  describeCompleteDays,
  isLastingDay,
  type OpenDay,
  suggestOpenDaysCommand,
} from '../../contract/day-reasons.ts';
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
    readonly summary: Pick<Summary, 'requests' | 'exit_code' | 'symbols' | 'ticks'>;
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
const manyKinds: ReadonlySet<FindingKind> = new Set(['warning', 'late job', 'provisional']);

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

/** What a later run that the upstream answered shows to be over. An error may be about anything. */
const upstreamKinds: ReadonlySet<FindingKind> = new Set(['credential', 'unreachable', 'address', 'source']);

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
    // A key may read ticks and no order books.
    const isAnswered = same.some(
      ({ job, summary }) => hasPolled(summary) && (job === run.job || run.job !== 'orderbook'),
    );
    const published = later.filter(({ job, exitCode }) => exitCode === exitCodes.done && job !== 'verify');
    return (run.summary?.findings ?? []).filter(
      ({ kind }) =>
        !archiveKinds.has(kind) &&
        !(isAnswered && upstreamKinds.has(kind)) &&
        !(status!.isPushed && kind === 'push') &&
        !(kind === 'busy' && published.length > 0) &&
        // Another job does not do what was stopped. Who publishes what it accepted may leave it at that.
        !(kind === 'interrupted' && published.some(({ job }) => job === 'publish')),
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
  if (last.state === 'running')
    return [{ kind: 'running', severity: 'info', message: `${run} is running`, command: null }];
  const message = `${run} was interrupted; what it accepted is kept, and the next run resumes`;
  const command = `oddslake ${last.job === 'backfill' || last.job === 'import' ? 'publish' : last.job}`;
  return [{ kind: 'interrupted', severity: 'warning', message, command }];
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
    ...judgeProvisional(status, facts),
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
  const [message, command] = [describeDamage(damaged), 'oddslake verify --repair'];
  const since = damaged.reduce((min, { foundAt }) => Math.min(min, foundAt), Number.POSITIVE_INFINITY);
  const files = toNamedFew(damaged.map(({ path }) => path));
  return [{ kind: 'damage', severity: 'action_required', message, command, since, files }];
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
  const { symbols, since, reason, otherReasons, areUnknown } = failing;
  const name = symbols.count === 1 ? `${symbols.names[0]!}: ` : '';
  const other = otherReasons === 0 ? '' : ` (and ${formatCount(otherReasons, 'other reason')})`;
  const message = `${formatCount(symbols.count, 'symbol')} failed since ${formatMoment(since)}: ${name}${reason}${other}`;
  const command = areUnknown
    ? ['oddslake symbols retry', ...symbols.names.map(quoteShellWord)].join(' ')
    : suggestBackfill(failing, symbols.names, symbols.count);
  return [{ kind: 'failing symbols', severity: 'warning', message, command, since, symbols }];
}

function judgeLag(
  { reached, runs, failing, completeness, ticksPublished }: ArchiveStatus,
  { nowMs, lagMsMax, ended }: Facts,
): Finding[] {
  if (reached === null) {
    if (completeness.live === 0) return [];
    const message = `nothing is covered yet for ${formatCount(completeness.live, 'live symbol')}`;
    // Until symbols are polled there are only their lists.
    const summaries = [ended?.summary, ...runs.map(({ summary }) => summary)];
    if (summaries.some((one) => one != null && one.symbols.planned > 0))
      return [{ kind: 'lag', severity: 'warning', message, command: 'oddslake nightly' }];
    return ticksPublished > 0 ? [] : [{ kind: 'empty', severity: 'info', message, command: 'oddslake nightly' }];
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
  if (suspended + gaps.suspended > 0) {
    const who = suspended > 0 ? formatCount(suspended, 'active symbol') : 'ended symbols';
    const message = `${who} suspended: unknown to the service`;
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
  if (lasting.length > 0) {
    const message = `${formatCount(lasting.length, 'past day')} ${lasting.length === 1 ? 'stays' : 'stay'} incomplete, most recently ${lasting[0]!.date}: ${lasting[0]!.reason}`;
    out.push({ kind: 'incomplete days', severity: 'info', message, command: 'oddslake gaps', ...days(lasting) });
  }
  return out;
}

function judgeLists({ completeness }: ArchiveStatus): Finding[] {
  const message = 'the last market lists are incomplete, so that symbols may be unknown';
  if (completeness.lists_complete) return [];
  return [{ kind: 'market list', severity: 'warning', message, command: 'oddslake markets' }];
}

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

/** Nights after which a day is expected to be proven, and the share of live symbols above which it is a warning if it is not. */
const provenDays = 8;
const unprovenShareMax = 0.05;

function judgeProvisional({ completeness, openDays, nights }: ArchiveStatus, { nowMs, ended }: Facts): Finding[] {
  const { inferred_windows: windows, gaps, live } = completeness;
  // A backfill that continues another says what nights do not prove.
  if (windows === 0 || ended?.findings.some(({ kind }) => kind === 'provisional')) return [];
  const since = Math.min(...nights.map((night) => night.since));
  const isOld = ({ state, date }: OpenDay): boolean =>
    state === 'provisional' && parseDayStart(date) >= since && parseDayStart(date) < nowMs - provenDays * dayMs;
  const isWide = ({ reason, symbols }: DayReason): boolean =>
    reason === 'inferred' && symbols > Math.max(1, unprovenShareMax * live);
  const old = openDays.filter((day) => isOld(day) && day.reasons.some(isWide));
  if (old.length > 0) {
    const known = nights.flatMap(({ source, cause }) =>
      cause === null ? [] : [source ? `${source}: ${cause}` : cause],
    );
    const message = `${formatCount(old.length, 'day')} older than a week not proven, most recently ${old[0]!.date}`;
    const days = toNamedFew(old.map(({ date }) => date));
    const finding = { kind: 'provisional', severity: 'warning', command: 'oddslake gaps', days } as const;
    return (known.length === 0 ? [old[0]!.reason] : known).map((why) => ({
      ...finding,
      message: `${message}: ${why}`,
    }));
  }
  const fetched = gaps.failed + gaps['never asked'] === 0 ? 'all fetched; ' : '';
  const message = `${fetched}${formatCount(windows, 'range')} covered, not proven yet (nothing to do)`;
  return [{ kind: 'provisional', severity: 'info', message, command: null }];
}

/** Days before the disk is full at which it is a warning, and at which action is required. */
export const diskFullWarningDays = 30;
const diskFullActionDays = 7;

/** With less free space a publish may fail: it writes new files before it removes the old ones. */
export const freeBytesMin = 100e6;

function judgeDisk({ disk }: ArchiveStatus): Finding[] {
  if (disk === null) return [];
  const advice = 'free disk space, or move the archive to a larger disk';
  if (disk.freeBytes < freeBytesMin) {
    const message = `the disk is ${disk.freeBytes < 1e6 ? 'full' : 'nearly full'}: ${formatBytes(disk.freeBytes)} free`;
    return [{ kind: 'disk full', severity: 'action_required', message, advice, command: null }];
  }
  const days = disk.freeBytes / disk.bytesPerDay;
  if (disk.bytesPerDay <= 0 || days > diskFullWarningDays) return [];
  const message = `the disk will be full in ${formatDuration(days * dayMs)}: ${formatBytes(disk.freeBytes)} free, growing by ${formatBytes(disk.bytesPerDay)} a day`;
  const severity = days <= diskFullActionDays ? 'action_required' : 'warning';
  return [{ kind: 'disk space', severity, message, advice, command: null }];
}

/** `collected to 2026-11-29 08:10 UTC, 25 of 27 days complete (all but 2026-11-01 and 2026-11-28), 170,150 new ticks`. */
function describeWell({ status, ended }: Facts): string {
  if (status === null) return 'the job ended without a problem';
  const { reached, ticksPublished, completeness, openDays } = status;
  const { complete, total } = countCompleteDays(completeness);
  const ends = status.runs.flatMap(({ job, summary }) => (summary === null ? [] : [{ job, summary }]));
  const night = ended?.summary ?? (ends.findLast(({ job }) => job === 'nightly') ?? ends.at(-1))?.summary;
  return [
    ...(reached === null && ticksPublished > 0 ? [formatCount(ticksPublished, 'tick')] : []),
    ...(completeness.live === 0 ? ['no live symbols'] : []),
    ...(reached === null ? [] : [`collected to ${formatMoment(reached)}`]),
    ...(total === 0 ? [] : [describeCompleteDays(complete, total, openDays)]),
    // A job that requests no ticks brings none.
    ...(night == null || night.ticks.fetched === 0 ? [] : [`${formatCount(night.ticks.accepted, 'new tick')}`]),
  ].join(', ');
}

/** `2026-11-29 08:10 UTC`, or `2026-11-27` at its midnight. */
export const formatMoment = (ms: number): string =>
  ms % dayMs === 0 ? formatIsoUtc(ms).slice(0, 10) : `${formatIsoUtc(ms).slice(0, 16).replace('T', ' ')} UTC`;
