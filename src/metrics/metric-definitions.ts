/** Help text and label names of a metric. Names and units follow the conventions of Prometheus. */
interface MetricFamily {
  readonly help: string;
  readonly labels: readonly string[];
}

/** The label is `name`, because Prometheus itself sets `job`. */
const defineJobMetric = (help: string, ...more: string[]): MetricFamily => ({ help, labels: ['name', ...more] });
const defineMetric = (help: string): MetricFamily => ({ help, labels: [] });

/**
 * All gauges of jobs and of the archive, by name. They have the same names on every endpoint, so that an alert works
 * with all of them.
 */
export const metricFamilies: Readonly<Record<string, MetricFamily>> = {
  oddslake_build_info: { help: 'Always 1; the label is the version of oddslake', labels: ['version'] },

  oddslake_job_last_run_start_timestamp_seconds: defineJobMetric("Start of the job's last finished run, Unix time"),
  oddslake_job_last_run_end_timestamp_seconds: defineJobMetric("End of the job's last run, Unix time"),
  oddslake_job_last_run_duration_seconds: defineJobMetric("Duration of the job's last run in seconds"),
  oddslake_job_last_success_timestamp_seconds: defineJobMetric('Last time the job ended with exit code 0, Unix time'),
  oddslake_job_last_run_exit_code: defineJobMetric("Exit code of the job's last run; 0: success"),
  oddslake_job_last_run_outcome: defineJobMetric("1 for the outcome of the job's last run, else 0", 'outcome'),
  oddslake_job_last_run_ticks: defineJobMetric("Ticks fetched by the job's last run, by result", 'kind'),
  oddslake_job_last_run_recovered_ticks: defineJobMetric(
    'Ticks that an interrupted run had journaled and the last run published',
  ),
  oddslake_job_last_run_requests: defineJobMetric("Requests sent by the job's last run"),
  oddslake_job_last_run_retries: defineJobMetric('Requests that were retries'),
  oddslake_job_last_run_throttled_seconds: defineJobMetric('Seconds of waiting requested by the server (Retry-After)'),
  oddslake_job_last_run_rate_allowed_requests_per_second: defineJobMetric(
    'Allowed requests per second at the end of the run',
  ),
  oddslake_job_last_run_rate_used_ratio: defineJobMetric(
    'Share of the allowed request rate that was used while requests were pending',
  ),
  oddslake_job_last_run_rate_limit_wait_seconds: defineJobMetric('Seconds that requests waited on the rate limiter'),
  oddslake_job_last_run_symbols_planned: defineJobMetric('Symbols planned for the run'),
  oddslake_job_last_run_symbols: defineJobMetric('Symbols of the run, by result', 'state'),
  oddslake_job_last_run_gaps: defineJobMetric('Windows that could not be fetched'),
  oddslake_job_last_run_failures: defineJobMetric('Failures, including gaps'),
  oddslake_job_last_run_warnings: defineJobMetric('Warnings'),
  oddslake_job_last_run_published_files: defineJobMetric('Files published'),
  oddslake_job_last_run_published_rows: defineJobMetric('Rows of the published files'),
  oddslake_job_last_run_published_bytes: defineJobMetric('Bytes of the published files'),
  oddslake_job_last_run_pushed_generation: defineJobMetric(
    'Generation in the bucket after the push of the run; only for runs that pushed',
  ),

  oddslake_job_last_run_rechecked_windows: defineJobMetric(
    'Settled windows that were fetched again with other bounds; nightly only',
  ),
  oddslake_job_last_run_contradicted_windows: defineJobMetric('Rechecked windows with ticks that were missing before'),
  oddslake_job_last_run_lateness_seconds: defineJobMetric(
    'Greatest measured lateness of ticks in the last 30 days, in seconds',
  ),
  oddslake_job_last_run_overlap_seconds: defineJobMetric('Overlap of the next poll in seconds'),

  oddslake_verdict: { help: '1 for the verdict on the archive and its jobs, else 0', labels: ['state'] },
  oddslake_finding_severity: {
    help: 'Severity of what was found, by kind; 0: nothing, 1: nothing to do, 2: warning, 3: action required',
    labels: ['kind'],
  },
  oddslake_generation: defineMetric('Published generation'),
  oddslake_symbols_suspended: defineMetric('Active symbols that are suspended; the watermark excludes them'),
  oddslake_symbols_not_collected: {
    help: 'Symbols of which nothing is expected: excluded by the settings, or forgotten by a user',
    labels: ['kind'],
  },
  oddslake_watermark_timestamp_seconds: defineMetric(
    'Watermark: every live symbol is covered up to here, except for lost, expired and accepted windows, Unix time',
  ),
  oddslake_reached_timestamp_seconds: defineMetric('Watermark including inferred windows, Unix time'),
  oddslake_archive_state: { help: '1 for the completeness state of the archive, else 0', labels: ['state'] },
  oddslake_dates: { help: 'Past UTC days, by completeness state', labels: ['state'] },
  oddslake_gaps: { help: 'Windows that are not covered, by reason', labels: ['reason'] },
  oddslake_windows_inferred: defineMetric('Windows that are covered by inference only, not proven yet'),
  oddslake_lag_seconds: defineMetric(
    'Lag of the watermark, including inferred windows, in seconds; NaN if there is no watermark',
  ),
  oddslake_archive_readable: defineMetric('1 if manifest and state can be read, else 0'),
  oddslake_damaged_files: defineMetric('Published files that are known to be damaged'),
  oddslake_verified_through_timestamp_seconds: defineMetric(
    'Every published byte has been hashed since this time, Unix time; NaN if some never have been',
  ),
  oddslake_ticks_published: defineMetric('Ticks in the published files'),
  oddslake_ticks_journaled: defineMetric('Ticks in the journal, not published yet'),
  oddslake_cache_bytes: defineMetric('Bytes of verified published files in memory'),
  oddslake_cache_files: defineMetric('Verified published files in memory'),
  oddslake_response_cache_bytes: defineMetric('Bytes of cached pages of the history, with and without compression'),
  oddslake_live_requests: {
    help: 'Requests for current data since the start, by how the live reads served them',
    labels: ['outcome'],
  },
  oddslake_streams_open: defineMetric('Open streams of ticks'),
  oddslake_stream_ticks: defineMetric('Ticks sent by streams since the start'),
  oddslake_streams_ended: { help: 'Streams that the service ended since the start, by reason', labels: ['reason'] },

  oddslake_schedule_job_running: defineJobMetric('1 while the schedule runs the job, else 0'),
  oddslake_schedule_job_running_seconds: defineJobMetric(
    'Seconds since the start of the current run; 0 if there is none',
  ),
  oddslake_schedule_job_next_start_timestamp_seconds: defineJobMetric('Next start of the job, Unix time'),
  oddslake_schedule_job_late: defineJobMetric('1 if the last scheduled run of the job is late, else 0'),
};

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}
