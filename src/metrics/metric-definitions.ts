/** What a metric is about: its help, and the names of its labels. Names and units follow Prometheus' rules. */
export interface MetricFamily {
  readonly help: string;
  readonly labels: readonly string[];
}

/** By `name`, as `job` is a label of Prometheus' own. */
const defineJobMetric = (help: string, ...more: string[]): MetricFamily => ({ help, labels: ['name', ...more] });
const defineMetric = (help: string): MetricFamily => ({ help, labels: [] });

/** Every gauge of jobs and archive, by its name: the same wherever it is told, so that one rule fits all of them. */
export const metricFamilies: Readonly<Record<string, MetricFamily>> = {
  oddslake_build_info: { help: '1, with the version of oddslake that wrote this', labels: ['version'] },

  oddslake_job_last_run_start_timestamp_seconds: defineJobMetric(
    "When the job's last run that has ended began, Unix time",
  ),
  oddslake_job_last_run_end_timestamp_seconds: defineJobMetric("When the job's last run ended, Unix time"),
  oddslake_job_last_run_duration_seconds: defineJobMetric("Seconds that the job's last run took"),
  oddslake_job_last_success_timestamp_seconds: defineJobMetric('When the job last ended with exit code 0, Unix time'),
  oddslake_job_last_run_exit_code: defineJobMetric("The exit code of the job's last run; 0: all is done"),
  oddslake_job_last_run_outcome: defineJobMetric("1 for what the job's last run came to, else 0", 'outcome'),
  oddslake_job_last_run_ticks: defineJobMetric("Ticks fetched by the job's last run, by what became of them", 'kind'),
  oddslake_job_last_run_recovered_ticks: defineJobMetric(
    'Ticks that an earlier, broken run had journaled, and the last run published',
  ),
  oddslake_job_last_run_requests: defineJobMetric("Requests that the job's last run made"),
  oddslake_job_last_run_retries: defineJobMetric('Those of its requests that were made again'),
  oddslake_job_last_run_throttled_seconds: defineJobMetric('Seconds for which the service held it back'),
  oddslake_job_last_run_rate_allowed_requests_per_second: defineJobMetric(
    'Requests a second that were allowed when it ended',
  ),
  oddslake_job_last_run_rate_used_ratio: defineJobMetric(
    'Share of the allowed requests that were made, while there was something to ask',
  ),
  oddslake_job_last_run_rate_limit_wait_seconds: defineJobMetric(
    'Seconds for which requests stood ready and waited for their turn',
  ),
  oddslake_job_last_run_symbols_planned: defineJobMetric('Symbols that it set out to poll'),
  oddslake_job_last_run_symbols: defineJobMetric('Symbols of it, by what became of them', 'state'),
  oddslake_job_last_run_gaps: defineJobMetric('Windows that it could not fetch'),
  oddslake_job_last_run_failures: defineJobMetric('Its failures, the gaps included'),
  oddslake_job_last_run_warnings: defineJobMetric('Its warnings'),
  oddslake_job_last_run_schema_drifts: defineJobMetric("Fields of the service's answers that are not what they were"),
  oddslake_job_last_run_published_files: defineJobMetric('Files that it published'),
  oddslake_job_last_run_published_rows: defineJobMetric('Rows of the files that it published'),
  oddslake_job_last_run_published_bytes: defineJobMetric('Bytes of the files that it published'),

  oddslake_job_last_run_late_ticks: defineJobMetric('Ticks that came after their window was covered; of nightly'),
  oddslake_job_last_run_markets: defineJobMetric(
    'Markets, by what the lists say of them against the night before',
    'change',
  ),
  oddslake_job_last_run_gap_seconds: defineJobMetric(
    'Seconds of the lives of symbols, since the night before, that nothing covers',
  ),
  oddslake_job_last_run_symbols_fetched_late: defineJobMetric(
    'Symbols fetched so late that the service may have thinned their past',
  ),
  oddslake_job_last_run_rechecked_windows: defineJobMetric(
    'Settled windows that were read again with other bounds; of nightly',
  ),
  oddslake_job_last_run_contradicted_windows: defineJobMetric('Those of them that brought ticks which were missing'),
  oddslake_job_last_run_lateness_seconds: defineJobMetric('How late ticks came at least in the last 30 days'),
  oddslake_job_last_run_overlap_seconds: defineJobMetric('How far before its cursor the next poll reads again'),

  oddslake_generation: defineMetric('The published generation'),
  oddslake_symbols_suspended: defineMetric('Active symbols that are suspended: the watermark leaves them out'),
  oddslake_watermark_timestamp_seconds: defineMetric(
    'Up to where every live symbol is covered by proven windows but for what is lost, expired or accepted, Unix time',
  ),
  oddslake_reached_timestamp_seconds: defineMetric('The same with windows that only inference speaks for, Unix time'),
  oddslake_archive_state: { help: '1 for how whole the archive is, else 0', labels: ['state'] },
  oddslake_days: { help: 'UTC days that are over, by how whole they are', labels: ['state'] },
  oddslake_gaps: { help: 'Windows that are not covered, by reason', labels: ['reason'] },
  oddslake_windows_inferred: defineMetric('Windows that are covered by inference alone, and owed a confirmation'),
  oddslake_lag_seconds: defineMetric(
    'Seconds that what is covered without a gap lies behind now, inferred windows included; NaN where there is none',
  ),
  oddslake_archive_readable: defineMetric('1 where manifest and state can be read, else 0'),
  oddslake_damaged_files: defineMetric('Files that are known not to be as published'),
  oddslake_verified_through_timestamp_seconds: defineMetric(
    'Since when every published byte has been hashed, Unix time; NaN where some never were',
  ),
  oddslake_ticks_published: defineMetric('Ticks in the published files'),
  oddslake_ticks_journaled: defineMetric('Ticks accepted and not published yet'),
  oddslake_cache_bytes: defineMetric('Bytes of published files, checked, that are in memory'),
  oddslake_cache_files: defineMetric('Published files, checked, that are in memory'),

  oddslake_schedule_job_running: defineJobMetric('1 while the schedule has a run of the job under way, else 0'),
  oddslake_schedule_job_running_seconds: defineJobMetric(
    'Seconds for which that run is under way; 0 where there is none',
  ),
  oddslake_schedule_job_next_start_timestamp_seconds: defineJobMetric(
    'When the schedule starts the job next, Unix time',
  ),
  oddslake_schedule_job_late: defineJobMetric('1 where no run of the job has ended in time, else 0'),
};

/** One value of a metric. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}
