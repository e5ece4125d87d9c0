import type { CompletenessCounts } from '../contract/completeness-counts.ts';
import { toCompletenessSamples } from './archive-metrics.ts';
import type { Sample } from './metric-definitions.ts';

/** The part of a stored summary that the metrics of a job's last run use. Times are epoch milliseconds. */
export interface LastRun {
  readonly job: string;
  readonly run_id: string | null;
  readonly outcome: string;
  readonly exit_code: number;
  readonly started_at: number;
  readonly finished_at: number;
  readonly requests: number;
  readonly retries: number;
  readonly throttled_ms: number;
  readonly ticks: Readonly<Record<'accepted' | 'duplicates' | 'conflicts' | 'quarantined', number>>;
  readonly recovered: number;
  readonly symbols: Readonly<Record<'planned' | 'done' | 'failed' | 'suspended', number>>;
  readonly published: Readonly<Record<'files' | 'rows' | 'bytes', number>>;
  readonly gaps: number;
  readonly warnings_count: number;
  readonly failures_count: number;
  readonly schema_drift_count: number;
  readonly generation: number;
  readonly watermark: number | null;
  /** The watermark including inferred windows; absent in a run of an older version. */
  readonly reached?: number | null;
  /** Completeness of the archive; absent in a run of an older version. */
  readonly completeness?: CompletenessCounts;
  /** Absent in a run of an older version. */
  readonly damaged_count?: number;
  readonly rate?: { readonly allowed_per_second: number; readonly used: number; readonly wait_ms: number };
  readonly night?: {
    readonly ticks: { readonly late: { readonly count: number } };
    readonly markets: Readonly<Record<(typeof marketChangeKinds)[number], { readonly count: number }>>;
    readonly covered: { readonly gap_minutes: number };
    readonly fetched_late: { readonly count: number };
  };
  readonly rechecks?: Readonly<Record<'windows' | 'contradicted' | 'lateness_ms' | 'overlap_ms', number>>;
}

const marketChangeKinds = ['new', 'delisted', 'resolved', 'overdue'] as const;

/** All outcomes. Each has a sample, so that a past outcome returns to 0 and does not disappear. */
export const outcomes = [
  'done',
  'failed',
  'usage',
  'credential',
  'incomplete',
  'busy',
  'damaged',
  'unreachable',
  'interrupted',
] as const;

const metricPrefix = 'oddslake_job_last_run_';

/** Returns the samples of a job's last run. Omits values that an older version did not store. */
export function toRunSamples(run: LastRun): Sample[] {
  const one = (name: string, value: number | undefined, more: Record<string, string> = {}): Sample[] =>
    Number.isFinite(value) ? [{ name: metricPrefix + name, labels: { name: run.job, ...more }, value: value! }] : [];
  const { ticks, symbols, published, rate, night, rechecks } = run;
  // A run without an archive has no counts; 0 would be misleading.
  const work = (): Sample[] => [
    ...one('ticks', ticks.accepted, { kind: 'new' }),
    ...one('ticks', ticks.duplicates, { kind: 'duplicate' }),
    ...one('ticks', ticks.conflicts, { kind: 'conflicting' }),
    ...one('ticks', ticks.quarantined, { kind: 'quarantined' }),
    ...one('recovered_ticks', run.recovered),
    ...one('requests', run.requests),
    ...one('retries', run.retries),
    ...one('throttled_seconds', run.throttled_ms / 1000),
    ...one('rate_allowed_requests_per_second', rate?.allowed_per_second),
    ...one('rate_used_ratio', rate?.used),
    ...one('rate_limit_wait_seconds', rate && rate.wait_ms / 1000),
    ...one('symbols_planned', symbols.planned),
    ...(['done', 'failed', 'suspended'] as const).flatMap((state) => one('symbols', symbols[state], { state })),
    ...one('gaps', run.gaps),
    ...one('failures', run.failures_count),
    ...one('warnings', run.warnings_count),
    ...one('schema_drifts', run.schema_drift_count),
    ...one('published_files', published.files),
    ...one('published_rows', published.rows),
    ...one('published_bytes', published.bytes),
    ...one('late_ticks', night?.ticks.late.count),
    ...marketChangeKinds.flatMap((change) => one('markets', night?.markets[change].count, { change })),
    ...one('gap_seconds', night && night.covered.gap_minutes * 60),
    ...one('symbols_fetched_late', night?.fetched_late.count),
    ...one('rechecked_windows', rechecks?.windows),
    ...one('contradicted_windows', rechecks?.contradicted),
    ...one('lateness_seconds', rechecks && rechecks.lateness_ms / 1000),
    ...one('overlap_seconds', rechecks && rechecks.overlap_ms / 1000),
  ];
  return [
    ...one('start_timestamp_seconds', run.started_at / 1000),
    ...one('end_timestamp_seconds', run.finished_at / 1000),
    ...one('duration_seconds', (run.finished_at - run.started_at) / 1000),
    ...one('exit_code', run.exit_code),
    ...outcomes.flatMap((outcome) => one('outcome', Number(run.outcome === outcome), { outcome })),
    ...(run.run_id === null ? [] : work()),
  ];
}

/** Returns the sample for the last exit with code 0; none if `atMs` is null. */
export const toSuccessSamples = (job: string, atMs: number | null): Sample[] =>
  atMs === null
    ? []
    : [{ name: 'oddslake_job_last_success_timestamp_seconds', labels: { name: job }, value: atMs / 1000 }];

/** Returns the samples of the archive at the end of the latest of these runs; none if no run opened it. */
export function toArchiveSamples(runs: readonly LastRun[]): Sample[] {
  const [latest] = runs.filter((run) => run.run_id !== null).sort((a, b) => b.finished_at - a.finished_at);
  if (latest === undefined) return [];
  const { generation, watermark, reached = watermark, damaged_count, symbols, completeness } = latest;
  const seconds = (name: string, ms: number | null): Sample[] =>
    ms === null ? [] : [{ name: `oddslake_${name}_timestamp_seconds`, labels: {}, value: ms / 1000 }];
  // Older versions did not suspend symbols.
  const older = [
    ...(damaged_count === undefined ? [] : [{ name: 'oddslake_damaged_files', labels: {}, value: damaged_count }]),
    { name: 'oddslake_symbols_suspended', labels: {}, value: symbols.suspended ?? 0 },
  ];
  return [
    { name: 'oddslake_generation', labels: {}, value: generation },
    ...(completeness === undefined ? older : toCompletenessSamples(completeness)),
    ...seconds('watermark', watermark),
    ...seconds('reached', reached),
  ];
}

export const toBuildInfoSample = (version: string): Sample => ({
  name: 'oddslake_build_info',
  labels: { version },
  value: 1,
});
