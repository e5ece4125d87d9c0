import { spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { paths } from '../../src/contract/paths.ts';
import { formatExposition } from '../../src/metrics/prometheus.ts';
import { access, folder, jobArgs, sandbox, start, startLongRunning } from '../e2e/lake.ts';
import { runJob } from '../e2e/run-program.ts';
import { waitFor } from '../harness/limits.ts';
import { needsCommands } from '../harness/needs.ts';
import { readExposition } from '../metrics/exposition.ts';

// The parts of deploy/grafana/dashboard.json that the tests check.

interface DataSource {
  readonly type: string;
  readonly uid: string;
}
interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly datasource?: DataSource;
  readonly gridPos: Readonly<Record<'x' | 'y' | 'w' | 'h', number>>;
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
  readonly targets?: readonly Target[];
}
interface Target {
  readonly datasource?: DataSource;
  readonly expr: string;
  readonly legendFormat: string;
}
interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: {
    readonly list: readonly {
      readonly name: string;
      readonly type: string;
      readonly query: string | { query: string };
    }[];
  };
}

const readDashboard = (): Dashboard =>
  JSON.parse(readFileSync(new URL('../../deploy/grafana/dashboard.json', import.meta.url), 'utf8')) as Dashboard;

const listTargets = ({ panels }: Dashboard): Target[] => panels.flatMap(({ targets = [] }) => targets);

/** Replaces the variables of Grafana as it does for all instances. */
const replaceVariables = (expression: string): string =>
  expression.replaceAll(/\$(?:instance|mountpoint)\b/g, '.*').replaceAll('$__rate_interval', '5m');

// The parts of PromQL that the tests of dashboards and alerts compare with the metrics. promtool checks the syntax.

/** A metric that an expression selects. */
interface Selector {
  readonly metric: string;
  readonly matchers: readonly { readonly label: string; readonly operator: string; readonly value: string }[];
}

const selectorPattern = /\b((?:oddslake|process|nodejs|node)_\w+)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?/g;
const matcherPattern = /(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"/g;

const listSelectors = (expression: string): Selector[] =>
  [...expression.matchAll(selectorPattern)].map(([, metric, matchers = '']) => ({
    metric: metric!,
    matchers: [...matchers.matchAll(matcherPattern)].map(([, label, operator, value]) => ({
      label: label!,
      operator: operator!,
      value: value!,
    })),
  }));

/** The labels of `by`, `on` and similar clauses. */
const listGroupingLabels = (expression: string): string[] =>
  [...expression.matchAll(/\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g)].flatMap(([, list]) =>
    list!.split(',').flatMap((name) => name.trim() || []),
  );

/** Values that were seen, by label, by metric. */
type SeenMetrics = ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>;

/** Reads texts in the Prometheus format. Each one is scraped from a target of its own. */
function collectMetrics(texts: readonly string[]): SeenMetrics {
  const seen = new Map<string, Map<string, Set<string>>>();
  for (const line of texts.join('\n').split('\n')) {
    const [, metric, labels = ''] = /^(\w+)(?:\{(.*)\})? \S+$/.exec(line) ?? [];
    if (metric === undefined) continue;
    const values = seen.get(metric) ?? new Map<string, Set<string>>();
    seen.set(metric, values);
    for (const [, label, , value] of labels.matchAll(matcherPattern)) {
      const known = values.get(label!) ?? new Set();
      values.set(label!, known.add(value!));
    }
  }
  return seen;
}

/** Labels that Prometheus adds. */
const targetLabels = new Set(['instance', 'job']);

/**
 * What an expression names and the metrics do not have: metrics, labels, and values of a matcher for which there would never be a
 * series.
 */
function findUnknownParts(expression: string, seen: SeenMetrics): string[] {
  const selectors = listSelectors(expression);
  if (selectors.length === 0) return [`no metric in ${expression}`];
  const unknown = selectors.flatMap(({ metric, matchers }) => {
    const labels = seen.get(metric);
    if (labels === undefined) return [metric];
    return matchers.flatMap(({ label, operator, value }) => {
      if (targetLabels.has(label) || value.startsWith('$')) return [];
      const values = labels.get(label);
      if (values === undefined) return [`${metric}{${label}}`];
      const wanted = operator.endsWith('~') ? splitAlternatives(value) : [value];
      return wanted
        .filter((one) => ![...values].some((known) => matches(known, one, operator)))
        .map((one) => `${metric}{${label}="${one}"}`);
    });
  });
  const labels = new Set(selectors.flatMap(({ metric }) => [...(seen.get(metric)?.keys() ?? [])]));
  const groupings = listGroupingLabels(expression).filter((label) => !targetLabels.has(label) && !labels.has(label));
  return [...unknown, ...groupings.map((label) => `by (${label})`)];
}

const matches = (known: string, wanted: string, operator: string): boolean =>
  operator.endsWith('~') ? new RegExp(`^(?:${wanted})$`).test(known) : known === wanted;

/** The alternatives of a regular expression such as `a|b`; one with parentheses is one alternative. */
const splitAlternatives = (pattern: string): string[] => (/[()]/.test(pattern) ? [pattern] : pattern.split('|'));

const root = new URL('../../', import.meta.url).pathname;

function promtool(cwd: string, ...args: string[]) {
  const { status, stdout, stderr } = spawnSync('promtool', args, { cwd, encoding: 'utf8' });
  return { status, output: stdout + stderr };
}

describe('Prometheus', needsCommands('promtool'), () => {
  test('accepts the sample configuration and the alerts', () => {
    const at = folder();
    for (const name of ['prometheus.yml', 'prometheus-alerts.yml'])
      copyFileSync(join(root, 'deploy', name), join(at, name));
    const checked = promtool(at, 'check', 'config', 'prometheus.yml');
    expect(checked.status, checked.output).toBe(0);
    expect(checked.output).toContain('9 rules found');
  });

  test('fires every alert when it has to, and none for a healthy archive', () => {
    const at = folder();
    copyFileSync(join(root, 'deploy/prometheus-alerts.yml'), join(at, 'prometheus-alerts.yml'));
    const text = readFileSync(join(root, 'test/deploy/alerts.promtool.yml'), 'utf8');
    writeFileSync(join(at, 'tests.yml'), text);
    const tested = promtool(at, 'test', 'rules', 'tests.yml');
    expect(tested.status, tested.output).toBe(0);
    for (const [, alert] of readFileSync(join(at, 'prometheus-alerts.yml'), 'utf8').matchAll(/alert: (\w+)/g)) {
      expect(text, 'an alert without a test that it fires').toMatch(new RegExp(`labels: .*"${alert}"`));
      expect(text, 'an alert without a test that it does not fire').toContain(`alertname: ${alert} }`);
    }
  });

  test('accepts every expression of the dashboard', () => {
    const at = folder();
    const expressions = listTargets(readDashboard()).map(({ expr }) => replaceVariables(expr));
    const rules = expressions.map((expr, i) => ({ record: `panel:${i}`, expr }));
    writeFileSync(join(at, 'panels.yml'), JSON.stringify({ groups: [{ name: 'panels', rules }] }));
    const checked = promtool(at, 'check', 'rules', 'panels.yml');
    expect(checked.status, checked.output).toBe(0);
    expect(checked.output).toContain(`${expressions.length} rules found`);
  });
});

describe('the dashboard', () => {
  const dashboard = readDashboard();
  const panels = dashboard.panels.filter(({ type }) => type !== 'row');

  test('shows the verdict and the lag first, and says what each panel is', () => {
    expect(panels.slice(0, 2).map(({ title }) => title)).toEqual(['Verdict', 'Lag']);
    expect(dashboard.panels.filter(({ type }) => type === 'row').map(({ title }) => title)).toEqual([
      'Verdict',
      'Nights',
      'Coverage',
      'Publishing and disk',
      'Service',
    ]);
    for (const { title, description, fieldConfig } of panels) {
      expect(description, title).toMatch(/\.$/);
      expect(fieldConfig?.defaults.unit, title).toEqual(expect.any(String));
    }
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
  });

  test('has no panel over another or outside the grid', () => {
    const taken = new Map<string, string>();
    for (const { title, gridPos } of dashboard.panels)
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++)
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(x, title).toBeLessThan(24);
          expect(taken.get(`${x} ${y}`), title).toBeUndefined();
          taken.set(`${x} ${y}`, title);
        }
  });

  test('asks the data source and the machines that are chosen at its top', () => {
    expect(dashboard.templating.list.map(({ name, type }) => [name, type])).toEqual([
      ['datasource', 'datasource'],
      ['instance', 'query'],
      ['mountpoint', 'query'],
    ]);
    const byDatasource = ({ datasource }: Pick<Panel, 'datasource'>) =>
      datasource?.type === 'prometheus' && datasource.uid === ['$', '{datasource}'].join('');
    expect(panels.filter((panel) => !byDatasource(panel))).toEqual([]);
    for (const target of listTargets(dashboard)) {
      expect(byDatasource(target), target.expr).toBe(true);
      expect(replaceVariables(target.expr), 'an unknown variable').not.toContain('$');
      // Each selector has the machine; those of the node exporter have the file system.
      for (const [, metric, matchers] of target.expr.matchAll(/\b((?:oddslake|node)_\w+)\{([^}]*)\}/g))
        expect(matchers, metric).toContain(metric!.startsWith('node') ? '=~"$mountpoint"' : 'instance=~"$instance"');
    }
  });

  test('is found by the provisioning files', () => {
    const read = (path: string): unknown =>
      parse(readFileSync(join(root, 'deploy/grafana/provisioning', path), 'utf8'));
    expect(read('datasources/oddslake.yaml')).toMatchObject({ apiVersion: 1, datasources: [{ type: 'prometheus' }] });
    expect(read('dashboards/oddslake.yaml')).toMatchObject({
      apiVersion: 1,
      providers: [{ type: 'file', options: { path: expect.stringMatching(/^\//) } }],
    });
  });
});

test('the comparison of expressions with metrics finds unknown names, labels and values', () => {
  const seen = collectMetrics([
    'oddslake_gaps{reason="failed"} 1\noddslake_gaps{reason="never asked"} 0\noddslake_generation 3\n# HELP oddslake_x y\n',
  ]);
  const find = (expression: string): string[] => findUnknownParts(expression, seen);
  expect(find('sum by (instance, reason) (oddslake_gaps{reason=~"failed|never asked",instance=~"$instance"})')).toEqual(
    [],
  );
  expect(find('oddslake_gap - oddslake_generation')).toEqual(['oddslake_gap']);
  expect(find('oddslake_generation{state="x"}')).toEqual(['oddslake_generation{state}']);
  expect(find('oddslake_gaps{reason=~"failed|never"}')).toEqual(['oddslake_gaps{reason="never"}']);
  expect(find('max by (state) (oddslake_gaps)')).toEqual(['by (state)']);
  expect(find('vector(1)')).toEqual(['no metric in vector(1)']);
});

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

/** Scrapes a schedule and a service over one archive. */
async function scrapeAll(): Promise<SeenMetrics> {
  const [box, output] = [await sandbox({ seed: 3, markets: 4, ticksPerDay: 50 }), folder()];
  const night = await runJob('nightly', box.url, output);
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
    const texts = [await scrape(health), await scrape(url)];
    for (const text of texts) readExposition(text);
    return collectMetrics([...texts, await pushes, nodeExporter]);
  } finally {
    for (const { child, ended } of [schedule, service]) {
      child.kill('SIGTERM');
      await ended;
    }
  }
}

test('dashboard and alerts name only metrics, labels and values that a schedule and a service have', async () => {
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
