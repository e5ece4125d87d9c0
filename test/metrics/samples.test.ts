import fc from 'fast-check';
import { expect, test } from 'vitest';
import { outcomes, type Summary } from '../../src/archive/journal/run-summary.ts';
import { UsageError } from '../../src/base/errors.ts';
import { summarizeNotStarted } from '../../src/cli/run-job.ts';
import { emptyFacts, summarize } from '../../src/collector/run/summary.ts';
import { metricFamilies, type Sample } from '../../src/metrics/metric-definitions.ts';
import { formatExposition } from '../../src/metrics/prometheus.ts';
import { toBuildInfoSample, toRunSamples } from '../../src/metrics/samples.ts';
import { checkAsyncProperty } from '../harness/properties.ts';
import { readExposition, sampleOf } from './exposition.ts';

const run: Summary = {
  ...summarize({
    ...emptyFacts,
    ...{ version: '1', job: 'nightly', run_id: 'r1', started_at: 1000_500, finished_at: 1090_750, strict: false },
    ...{ requests: 40, retries: 2, throttled_ms: 1500, recovered: 3, gaps: 5, thrown: undefined },
  }),
  outcome: 'incomplete',
  exit_code: 4,
  ticks: { fetched: 33, accepted: 10, duplicates: 20, conflicts: 1, quarantined: 2 },
  symbols: { planned: 9, done: 8, failed: 1, suspended: 0 },
  published: { files: 4, rows: 30, bytes: 5000, dates: [], dates_count: 0, added: 10, lost: 0 },
  warnings_count: 1,
  failures_count: 6,
  rate: { allowed_per_second: 5, used: 0.75, wait_ms: 250 },
  rechecks: {
    ...{ requests: 0, new_ticks: 0, withdrawn_windows: 0, reread_windows: 0, doubtful_windows: 0 },
    ...{ windows: 20, contradicted: 1, lateness_ms: 5000, overlap_ms: 7500 },
  },
  pushed: {
    ...{ url: 's3://b/p', outcome: 'pushed', generation: 6, sequence: 6, files: 4, bytes: 5000 },
    ...{ uploaded: { files: 4, bytes: 5000 }, reused: 0, removed: 0 },
    requests: { reads: 1, writes: 1, retries: 0, bytes: 1 },
  },
};

test('run metrics are in base units, one family each', async () => {
  const reported = readExposition(await formatExposition([...toRunSamples(run), toBuildInfoSample('1.2.3')]));
  const of = (name: string, labels = '') =>
    sampleOf(reported, `oddslake_job_last_run_${name}`, `name="nightly"${labels}`);
  expect(of('duration_seconds')).toBe(90.25);
  expect(of('end_timestamp_seconds')).toBe(1090.75);
  expect(of('throttled_seconds')).toBe(1.5);
  expect(of('exit_code')).toBe(4);
  expect(sampleOf(reported, 'oddslake_job_last_run_ticks', 'kind="new",name="nightly"')).toBe(10);
  expect(sampleOf(reported, 'oddslake_job_last_run_symbols', 'name="nightly",state="failed"')).toBe(1);
  expect(of('rate_used_ratio')).toBe(0.75);
  expect(of('published_bytes')).toBe(5000);
  expect(of('pushed_generation')).toBe(6);
  const rechecked = ['rechecked_windows', 'contradicted_windows', 'lateness_seconds', 'overlap_seconds'];
  expect(rechecked.map((name) => of(name))).toEqual([20, 1, 5, 7.5]);
  expect(sampleOf(reported, 'oddslake_build_info', 'version="1.2.3"')).toBe(1);
});

test('exactly one outcome is 1', () => {
  for (const outcome of outcomes) {
    const reported = toRunSamples({ ...run, outcome }).filter(({ name }) => name.endsWith('_outcome'));
    expect(reported.filter(({ value }) => value === 1).map(({ labels }) => labels.outcome)).toEqual([outcome]);
    expect(reported).toHaveLength(outcomes.length);
  }
});

test('names and units follow the conventions of Prometheus', () => {
  for (const [name, { help, labels }] of Object.entries(metricFamilies)) {
    expect(name).toMatch(/^oddslake_[a-z]+(_[a-z]+)*$/);
    // Milliseconds, minutes and kilobytes are not base units; a gauge must not end with _total; Prometheus sets job and instance.
    expect(name).not.toMatch(/_(ms|millis\w*|minutes|hours|days|kb|mb|kilobytes|percent|total|count|sum|bucket)(_|$)/);
    expect(help).not.toMatch(/\.$|\n/);
    expect(labels).not.toContain('job');
    expect(labels).not.toContain('instance');
  }
});

test('writes valid text with any labels', async () => {
  const text = fc.string({ unit: 'binary' }).filter((one) => !/[\r\u2028\u2029]/.test(one));
  expect(await formatExposition([])).toBe('');
  const value = fc.double({ noNaN: true, noDefaultInfinity: true });
  await checkAsyncProperty([fc.uniqueArray(text, { minLength: 1, maxLength: 5 }), value], 200, async (names, at) => {
    const samples = names.map(
      (name): Sample => ({ name: 'oddslake_job_last_run_ticks', labels: { name, kind: 'new' }, value: at }),
    );
    const written = await formatExposition(samples);
    const reported = readExposition(written).get('oddslake_job_last_run_ticks')!.values;
    expect([...reported.values()]).toEqual(samples.map((one) => one.value + 0));
  });
});

test('a run without an archive has no counts', () => {
  const failed = summarizeNotStarted('nightly', '1', 3_000_000, new UsageError('no key'), 3_000_001);
  const reported = toRunSamples(failed);
  expect(reported.filter(({ name }) => name.endsWith('_ticks'))).toEqual([]);
  expect(reported).toContainEqual(expect.objectContaining({ name: 'oddslake_job_last_run_exit_code', value: 2 }));
});
