import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { paths } from '../../src/contract/paths.ts';
import { formatExposition } from '../../src/metrics/prometheus.ts';
import { jobHere } from '../e2e/here.ts';
import { access, folder, jobArgs, sandbox, start, startLongRunning } from '../e2e/lake.ts';
import { waitFor } from '../harness/limits.ts';
import { readExposition } from '../metrics/exposition.ts';
import { listTargets, readDashboard } from './dashboard.ts';
import { collectMetrics, findUnknownParts, type SeenMetrics } from './promql.ts';

/** What the node exporter exposes of file systems; its other metrics are not used. */
const nodeExporter = ['avail', 'size']
  .map(
    (kind) => `node_filesystem_${kind}_bytes{device="/dev/sda1",fstype="ext4",mountpoint="/var/lib/oddslake"} 1e+12\n`,
  )
  .join('');

/** Metrics of pushes: test/e2e/bucket-jobs.test.ts finds them on the port of a schedule with a bucket. */
const pushes = formatExposition(
  ['end_timestamp_seconds', 'exit_code', 'pushed_generation'].map((name) => ({
    name: `oddslake_job_last_run_${name}`,
    labels: { name: 'push' },
    value: 1,
  })),
);

/** Scrapes a metrics file, a schedule and a service over one archive. */
async function scrapeAll(): Promise<SeenMetrics> {
  const [box, output] = [await sandbox({ seed: 3, markets: 4, ticksPerDay: 50 }), folder()];
  const textfile = join(folder(), 'oddslake.prom');
  const night = await jobHere('nightly', box.url, output, '--set', `metrics.textfile=${textfile}`);
  expect(night.code, night.stderr).toBe(0);

  const schedule = start(jobArgs('schedule', output, '--set', 'schedule.port=0'), access(box.url));
  let logged = '';
  schedule.child.stderr!.on('data', (text: string) => {
    logged += text;
  });
  const service = await startLongRunning(['serve', '--output', output, '--json', '--set', 'service.port=0']);
  try {
    const health = await waitFor(
      () => /"url":"([^"]+)","msg":"serving health and metrics/.exec(logged)?.[1],
      'the port',
    );
    const { url } = JSON.parse(service.first) as { url: string };
    // A metric of a route begins with its first request, here one that is refused.
    for (const path of ['', paths.ticks, paths.ticksStream, paths.exportFiles, '/api/v1/nothing'])
      await (await fetch(url + path)).arrayBuffer();
    const scrape = async (base: string) => await (await fetch(`${base}/metrics`)).text();
    const texts = [readFileSync(textfile, 'utf8'), await scrape(health), await scrape(url)];
    for (const text of texts) readExposition(text);
    return collectMetrics([...texts, await pushes, nodeExporter]);
  } finally {
    for (const { child, ended } of [schedule, service]) {
      child.kill('SIGTERM');
      await ended;
    }
  }
}

test('dashboard and alerts name only metrics, labels and values that a schedule, a service and a metrics file have', async () => {
  const seen = await scrapeAll();
  const dashboard = readDashboard();
  const { groups } = parse(readFileSync(new URL('../../deploy/prometheus-alerts.yml', import.meta.url), 'utf8')) as {
    groups: { rules: { expr: string }[] }[];
  };
  const expressions = [
    ...listTargets(dashboard).map(({ expr }) => expr),
    ...groups.flatMap(({ rules }) => rules.map(({ expr }) => expr)),
  ];
  expect(expressions.length).toBeGreaterThan(60);
  // A healthy service has no response of 5xx.
  const rare = /^oddslake_http_requests_total\{status="5\.\."\}$/;
  const unknown = expressions.flatMap((expr) => findUnknownParts(expr, seen)).filter((part) => !rare.test(part));
  expect(unknown).toEqual([]);

  // Legends show labels that the series have, and the variables of the dashboard find their values.
  for (const { expr, legendFormat } of listTargets(dashboard))
    for (const [, label] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
      const grouped = /^(?:sum|max|min|topk|histogram_quantile)\b/.test(expr);
      expect(expr, legendFormat).toMatch(grouped ? new RegExp(`by \\([^)]*\\b${label}\\b`) : /\{/);
    }
  for (const { query } of dashboard.templating.list) {
    const [, metric, label] =
      /^label_values\((\w+), (\w+)\)$/.exec(typeof query === 'string' ? query : query.query) ?? [];
    if (metric === undefined) continue;
    expect(seen.has(metric), metric).toBe(true);
    if (label !== 'instance') expect([...seen.get(metric)!.keys()]).toContain(label);
  }
});
