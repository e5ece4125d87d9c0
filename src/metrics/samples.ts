import { outcomes, type Summary } from '../archive/journal/run-summary.ts';
import type { ArchiveStatus } from '../archive/read/archive-status.ts';
import { type Facts, type Judgement, judge } from '../archive/read/judge.ts';
import { archiveStates, type CompletenessCounts } from '../contract/completeness-counts.ts';
import { dayStates, gapReasons } from '../contract/day-reasons.ts';
import { findingKinds, severities } from '../contract/finding.ts';
import type { Sample } from './metric-definitions.ts';

/** Returns the samples of an archive and of what the judge finds. If it cannot be read, `archive_readable` is 0 and the figures are NaN. */
export const toArchiveSamples = (facts: Facts): Sample[] => [
  ...toStatusSamples(facts.status, facts.nowMs),
  ...toFindingSamples(judge(facts)),
];

const verdictStates = ['ok', 'warning', 'action_required'] as const;

/** Each kind has a sample, so that one that is over returns to 0 and does not disappear. */
const toFindingSamples = ({ verdict, findings }: Judgement): Sample[] => [
  ...verdictStates.map((state) => one('verdict', Number(verdict.state === state), { state })),
  ...findingKinds.map((kind) => {
    const found = findings.find((finding) => finding.kind === kind);
    return one('finding_severity', found === undefined ? 0 : severities.indexOf(found.severity) + 1, { kind });
  }),
];

const one = (name: string, value: number | null | undefined, labels: Sample['labels'] = {}): Sample => ({
  name: `oddslake_${name}`,
  labels,
  value: value ?? Number.NaN,
});

const toSeconds = (ms: number | null | undefined): number => (typeof ms === 'number' ? ms / 1000 : Number.NaN);

function toStatusSamples(now: ArchiveStatus | null, nowMs: number): Sample[] {
  const reached = now?.reached ?? null;
  return [
    one('archive_readable', Number(now !== null)),
    one('generation', now?.generation),
    one('watermark_timestamp_seconds', toSeconds(now?.watermark)),
    one('reached_timestamp_seconds', toSeconds(reached)),
    one('lag_seconds', reached === null ? null : Math.max(0, nowMs - reached) / 1000),
    one('ticks_published', now?.ticksPublished),
    one('ticks_journaled', now?.ticksJournaled),
    one('verified_through_timestamp_seconds', toSeconds(now?.verifiedThrough)),
    ...toCompletenessSamples(now?.completeness ?? null),
  ];
}

/** Returns the samples of the completeness counts; all are NaN if the counts are null. */
function toCompletenessSamples(completeness: CompletenessCounts | null): Sample[] {
  return [
    ...archiveStates.map((state) =>
      one('archive_state', completeness && Number(completeness.state === state), { state }),
    ),
    ...dayStates.map((state) => one('dates', completeness?.days[state], { state })),
    ...gapReasons.map((reason) => one('gaps', completeness?.gaps[reason], { reason })),
    one('windows_inferred', completeness?.inferred_windows),
    one('symbols_suspended', completeness?.suspended),
    ...(['excluded', 'forgotten'] as const).map((kind) =>
      one('symbols_not_collected', completeness && (completeness[kind] ?? 0), { kind }),
    ),
    one('damaged_files', completeness?.damaged.files),
  ];
}

/** Returns the samples of a job's last run. Omits values that its summary does not have. */
export function toRunSamples(run: Summary): Sample[] {
  const some = (name: string, value: number | undefined, more: Sample['labels'] = {}): Sample[] =>
    Number.isFinite(value) ? [one(`job_last_run_${name}`, value, { name: run.job, ...more })] : [];
  const { ticks, symbols, published, rate, rechecks } = run;
  // A run without an archive has no counts; 0 would be misleading.
  const work = (): Sample[] => [
    ...some('ticks', ticks.accepted, { kind: 'new' }),
    ...some('ticks', ticks.duplicates, { kind: 'duplicate' }),
    ...some('ticks', ticks.conflicts, { kind: 'conflicting' }),
    ...some('ticks', ticks.quarantined, { kind: 'quarantined' }),
    ...some('recovered_ticks', run.recovered),
    ...some('requests', run.requests),
    ...some('retries', run.retries),
    ...some('throttled_seconds', run.throttled_ms / 1000),
    ...some('rate_allowed_requests_per_second', rate?.allowed_per_second),
    ...some('rate_used_ratio', rate?.used),
    ...some('rate_limit_wait_seconds', rate && rate.wait_ms / 1000),
    ...some('symbols_planned', symbols.planned),
    ...(['done', 'failed', 'suspended'] as const).flatMap((state) => some('symbols', symbols[state], { state })),
    ...some('gaps', run.gaps),
    ...some('failures', run.failures_count),
    ...some('warnings', run.warnings_count),
    ...some('published_files', published.files),
    ...some('published_rows', published.rows),
    ...some('published_bytes', published.bytes),
    ...some('rechecked_windows', rechecks?.windows),
    ...some('contradicted_windows', rechecks?.contradicted),
    ...some('lateness_seconds', rechecks && rechecks.lateness_ms / 1000),
    ...some('overlap_seconds', rechecks && rechecks.overlap_ms / 1000),
  ];
  return [
    ...some('start_timestamp_seconds', run.started_at / 1000),
    ...some('end_timestamp_seconds', run.finished_at / 1000),
    ...some('duration_seconds', (run.finished_at - run.started_at) / 1000),
    ...some('exit_code', run.exit_code),
    // Each outcome has a sample, so that a past one returns to 0 and does not disappear.
    ...outcomes.flatMap((outcome) => some('outcome', Number(run.outcome === outcome), { outcome })),
    ...some('pushed_generation', run.pushed?.generation),
    ...(run.run_id === null ? [] : work()),
  ];
}

/** Returns the sample for the last exit with code 0; none if `atMs` is null. */
export const toSuccessSamples = (job: string, atMs: number | null): Sample[] =>
  atMs === null ? [] : [one('job_last_success_timestamp_seconds', atMs / 1000, { name: job })];

export const toBuildInfoSample = (version: string): Sample => one('build_info', 1, { version });
