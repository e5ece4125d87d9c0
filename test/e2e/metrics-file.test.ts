import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readExposition, sampleOf } from '../metrics/exposition.ts';
import { jobHere, runHere } from './here.ts';
import { access, fixedDay, fixedNow, folder, jobArgs, run, sandbox } from './lake.ts';

const input = { seed: 5, nowMs: fixedNow, markets: 4, ticksPerDay: 50 };

/** Parses the file as strictly as Prometheus. */
function readMetrics(path: string) {
  const families = readExposition(readFileSync(path, 'utf8'));
  return {
    families,
    of: (name: string, job: string, labels = '') =>
      sampleOf(families, `oddslake_job_${name}`, `${labels}${labels && ','}name="${job}"`),
    jobs: () => [...families.get('oddslake_job_last_run_exit_code')!.values.keys()],
  };
}

test('every run writes its metrics to the file, complete and readable by all, and keeps those of other jobs', async () => {
  const [box, output, at] = [await sandbox(input), folder(), folder()];
  const path = join(at, 'oddslake.prom');
  const flags = ['--set', `metrics.textfile=${path}`];
  let succeeded: number | undefined;
  const before = process.umask(0o077);
  try {
    const night = await jobHere('nightly', box.url, output, '--date', fixedDay, ...flags);
    expect(night.code, night.stderr).toBe(0);
    expect(statSync(path).mode & 0o777).toBe(0o644);
    const first = readMetrics(path);
    expect(first.of('last_run_ticks', 'nightly', 'kind="new"')).toBe(night.summary.ticks.accepted);
    expect(first.of('last_run_published_bytes', 'nightly')).toBe(night.summary.published.bytes);
    expect(first.of('last_run_end_timestamp_seconds', 'nightly')).toBe(night.summary.finished_at / 1000);
    succeeded = night.summary.finished_at / 1000;
    expect(sampleOf(first.families, 'oddslake_reached_timestamp_seconds')).toBe(night.summary.reached! / 1000);

    expect((await runHere(['verify', '--output', output, ...flags])).code).toBe(0);
    const window = ['--from', '2025-06-10', '--to', '2025-06-11'];
    expect((await jobHere('backfill', box.url, output, ...window, ...flags)).code).toBe(0);
    const rows = join(at, 'rows.csv');
    writeFileSync(rows, 'symbol,t,p\nA,1749600000000,0.5\n');
    expect((await runHere(['import', rows, '--output', output, '--json', ...flags])).code).toBe(0);
    box.set({ key: 'another' });
    expect((await jobHere('nightly', box.url, output, ...flags)).code).toBe(3);
  } finally {
    process.umask(before);
  }
  const last = readMetrics(path);
  expect(last.jobs().sort()).toEqual(['backfill', 'import', 'nightly', 'verify'].map((name) => `name="${name}"`));
  expect(last.of('last_run_exit_code', 'nightly')).toBe(3);
  expect(sampleOf(last.families, 'oddslake_job_last_run_outcome', 'name="nightly",outcome="credential"')).toBe(1);
  expect(last.of('last_success_timestamp_seconds', 'nightly')).toBe(succeeded);
  expect(last.of('last_run_exit_code', 'verify')).toBe(0);
  expect(readdirSync(at).sort()).toEqual(['oddslake.prom', 'rows.csv']);
});

test('without state or archive, the file keeps the metrics of earlier jobs', async () => {
  const [box, output] = [await sandbox(input), folder()];
  const path = join(folder(), 'oddslake.prom');
  const flags = ['--set', `metrics.textfile=${path}`];
  expect((await jobHere('nightly', box.url, output, '--date', fixedDay, ...flags)).code).toBe(0);
  const night = readMetrics(path);
  rmSync(join(output, '.oddslake'), { recursive: true });
  expect((await jobHere('publish', box.url, output, ...flags)).code).toBe(0);
  expect(readMetrics(path).of('last_run_requests', 'nightly')).toBe(night.of('last_run_requests', 'nightly'));
  const nowhere = join(folder(), 'none');
  expect((await runHere(['publish', '--output', nowhere, '--json', ...flags])).code).toBe(2);
  expect(existsSync(nowhere)).toBe(false);
  const after = readMetrics(path);
  expect(after.of('last_run_exit_code', 'publish')).toBe(2);
  expect(after.of('last_run_exit_code', 'nightly')).toBe(0);
  expect(sampleOf(after.families, 'oddslake_generation')).toBe(sampleOf(night.families, 'oddslake_generation'));
});

test('the metrics of concurrent runs are all in the file', async () => {
  const [box, output] = [await sandbox(input), folder()];
  const path = join(folder(), 'oddslake.prom');
  const flags = ['--set', `metrics.textfile=${path}`];
  expect((await jobHere('nightly', box.url, output, '--date', fixedDay, ...flags)).code).toBe(0);
  const names = ['markets', 'ticks', 'publish', 'verify'];
  const results = await Promise.all(
    names.map((name) =>
      run(
        name === 'verify' ? ['verify', '--output', output, ...flags] : jobArgs(name, output, ...flags),
        access(box.url),
      ),
    ),
  );
  expect(results.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
  expect(readMetrics(path).jobs().sort()).toEqual([...names, 'nightly'].map((name) => `name="${name}"`).sort());
});

test('an unwritable path is a warning and changes no exit code', async () => {
  const [box, output] = [await sandbox(input), folder()];
  const results = await jobHere(
    'nightly',
    box.url,
    output,
    '--date',
    fixedDay,
    '--set',
    'metrics.textfile=/no/such/x.prom',
  );
  expect(results.code).toBe(0);
  expect(results.stderr).toMatch(/"level":"warn".*the metrics file failed/);
  const place = folder();
  mkdirSync(join(place, 'x.prom'));
  chmodSync(place, 0o755);
  expect((await jobHere('publish', box.url, output, '--set', `metrics.textfile=${place}/x.prom`)).code).toBe(0);
  expect(readdirSync(place)).toEqual(['x.prom']);
});

test('a file name that the node exporter would skip is rejected', async () => {
  const results = await runHere(['publish', '--output', folder(), '--set', 'metrics.textfile=/var/lib/oddslake.txt']);
  expect(results.code).toBe(2);
  expect(results.stderr).toMatch(/metrics\.textfile is .*expected a path that ends with \.prom/);
});
