import { expect, test } from 'vitest';
import { getArchiveName, renderArchiveReport } from '../../src/report/archive-page.ts';
import type { ReportData } from '../../src/report/data/report-data.ts';
import { chooseTimeUnit } from '../../src/report/time-plots.ts';
import { rubbish } from '../server/web/lake.ts';
import {
  createFinding,
  createJudgement,
  createReportData,
  createReportDataWithProblems,
  createRun,
} from './made-gathered.ts';

const render = (data: ReportData, version = '1') =>
  renderArchiveReport(data, version, (command) => command.replace('oddslake', '/bin/oddslake'));
const page = (rest: Partial<ReportData> = {}) => render(createReportData(rest), '1.2.3');
const headings = (text: string) => [...text.matchAll(/<h2>(.*?)<\/h2>/g)].map(([, heading]) => heading);

test('shows the state first, then sections with data, then quiet ones in a list', () => {
  const text = page();
  expect(headings(text)).toEqual([
    'Coverage',
    'Ticks and bytes',
    'Busiest symbols',
    'Lag',
    'Runs',
    'Requests',
    'Growth',
    'In brief',
  ]);
  expect(text.indexOf('</span>OK: collected to now</p>')).toBeLessThan(text.indexOf('Last run'));
  for (const name of ['Damage', 'Failing, suspended and late symbols', 'Gaps', 'Lateness', 'Conflicts', 'Quarantine'])
    expect(text).toContain(`<dt>${name}</dt>`);
  expect(text).toContain('will not be full within 10 years');
  expect(text).toContain('Written by oddslake 1.2.3');
});

test('shows every kind of problem, in a fixed order', () => {
  const text = render(createReportDataWithProblems(['A', 'B', 'C', 'D']));
  expect(headings(text)).toEqual([
    'Damage',
    'Failing, suspended and late symbols',
    'Gaps',
    'Coverage',
    'Ticks and bytes',
    'Newly silent symbols',
    'Busiest symbols',
    'Lag',
    'Lateness',
    'Rechecks',
    'Conflicts',
    'Quarantine',
    'Runs',
    'Requests',
    'Growth',
  ]);
  expect(text).toMatch(/the disk will be full on 2026-12-\d\d, in \d+ d/);
  expect(text).toContain('The last run used 80 % of the limit; requests waited 2 min on the rate limit.');
});

test('every plot has a label and units, for wide and narrow pages', () => {
  const text = render(createReportDataWithProblems(['A', 'B'])).replaceAll(/<svg class="spark"/g, '<spark');
  const labels = [
    ...text.matchAll(/<svg [^>]*aria-label="([^"]+)"[^>]*role="img"|<svg [^>]*role="img"[^>]*aria-label="([^"]+)"/g),
  ];
  // Ticks, bytes, coverage, lag, lateness, conflicts, requests, growth.
  expect(labels).toHaveLength(2 * 8);
  expect(text.match(/<svg /g)).toHaveLength(2 * 8);
  for (const unit of ['ticks', 'MB', 'minutes', 'conflicts', 'requests per second'])
    expect(text.includes(`↑ ${unit}`), unit).toBe(true);
});

test('has one main landmark, and labels only on elements with a role', () => {
  const text = render(createReportDataWithProblems(['A', 'B']));
  expect(text.match(/<main>/g)).toHaveLength(1);
  expect(text.indexOf('</main>')).toBeGreaterThan(text.lastIndexOf('</section>'));
  expect(text).not.toMatch(/<g [^>]*aria-label/);
});

test('a symbol with a short gap is not shown as fully covered', () => {
  const text = page();
  expect(text).toContain('99.6 % from 2026-11-09 00:00 to 2026-11-22 09:00');
  // All full hours of a group are one mark, and the last hour is another.
  expect(text.match(/fill="var\(--level-5\)"/g)).toHaveLength(2 * 2);
  expect(text.match(/fill="var\(--level-0\)"/g)!.length).toBeGreaterThanOrEqual(2);
});

test('a step with ticks in damaged files is drawn as damaged, in the plot, its key and its table', () => {
  const { coverage } = createReportData();
  const [row] = coverage.rows;
  const day = (values: readonly number[], value: number) => values.map((ms, i) => (i >= 48 && i < 72 ? value : ms));
  const damaged = { ...row!, coveredMs: day(row!.coveredMs, 0), damagedMs: day(row!.damagedMs, 3_600_000) };
  const text = page({ coverage: { ...coverage, rows: [damaged] } });
  // One mark, wide and narrow.
  expect(text.match(/fill="var\(--bad\)"/g)).toHaveLength(2);
  expect(text).toContain('What is in damaged files does not.');
  expect(text).toContain('<span class="swatch damaged" aria-hidden="true"></span>in damaged files');
  expect(text).toMatch(/<td class=" loss" data-label="In damaged files">1 d<\/td>/);
  expect(page()).not.toMatch(/--bad\)"|in damaged files/);
});

test('uses the singular for one gap of one symbol', () => {
  const gaps = { ...createReportDataWithProblems(['A']).gaps, windows: 1, symbols: 1 };
  const text = page({ gaps });
  expect(text).toContain('1 gap of 1 symbol, ');
  expect(text).toContain('of 1 symbol, ');
  const reason = { reason: 'not a number', count: 1, symbol: null, lastAt: null };
  expect(page({ quarantine: { count: 1, reasons: [reason], reasonsCount: 1, isTruncated: false } })).toContain(
    '1 was quarantined',
  );
});

test('draws no plots for a single run or an empty archive', () => {
  const one = page({ runs: [createRun(3)] });
  expect(one).toContain('The lag was 10 min at the end of the only run.');
  expect(one).toContain(
    'The only run with requests sent 2 requests per second while it was neither idle nor throttled; the limit is 5.',
  );
  const { status, coverage, cadence } = createReportData();
  const empty = page({
    runs: [],
    days: [],
    coverage: { ...coverage, rows: [] },
    cadence: { ...cadence, busiest: [] },
    space: null,
    status: { ...status, generation: 0, upstream: '', lag_ms: null, watermark: null },
    judgement: createJudgement([
      { kind: 'empty', severity: 'info', message: 'nothing yet', command: 'oddslake nightly' },
    ]),
  });
  expect(empty).toContain('</span>Nothing yet</p>\n<p class="next">Next: <code>/bin/oddslake nightly</code>');
  expect(headings(empty)).toEqual([]);
  expect(empty).not.toMatch(/<svg|<dl/);
  expect(empty).not.toMatch(/NaN|null|undefined|Infinity/);
});

test('leads with the name of the archive, the verdict with its command and the other findings', () => {
  const { status } = createReportData();
  const disk = { ...createFinding('full soon'), advice: 'free space', command: null };
  const text = page({
    status: { ...status, archive: '/data/prices/' },
    judgement: createJudgement([createFinding('A failed'), disk, { ...createFinding('B is new'), severity: 'info' }]),
  });
  const order = [
    '<h1>prices</h1>',
    '</span>A failed (and 1 more finding)</p>\n<p class="next">Next: <code>/bin/oddslake backfill</code></p>',
    '</span>full soon; free space ',
    '</span>B is new <code>/bin/oddslake backfill</code>',
    '/data/prices/',
    'Last run',
  ];
  const places = order.map((part) => text.indexOf(part));
  expect(places).not.toContain(-1);
  expect(places).toEqual(places.toSorted((a, b) => a - b));
  expect(text.match(/A failed/g)).toHaveLength(1);
});

test.each([
  ['/data/archive', 'archive'],
  ['s3://lakes/markets/', 'markets'],
  ['C:\\data\\lake', 'lake'],
  ['/', '/'],
])('the archive %s is named %s', (path, name) => expect(getArchiveName(path)).toBe(name));

/** Labels of the plots of a page. */
const plotLabels = (text: string): string[] => [
  ...new Set([...text.matchAll(/<svg [^>]*aria-label="([^":]+)/g)].map(([, label]) => label!)),
];

test('draws a chart from five points on, and a table or a sentence below', () => {
  const { days, shown } = createReportData();
  const of = (count: number) => {
    const last = days.slice(-count).map((day) => ({ ...day, conflicts: 3 }));
    const runs = Array.from({ length: count }, (_, i) => createRun(count - i));
    return page({ days: last, shown, runs });
  };
  const charts = [
    'Ticks per UTC day of their timestamps',
    'Published bytes per day, all datasets',
    'Ticks observed at two prices, per UTC day of their timestamps',
    'Lag of coverage at the end of each run, in minutes',
    'Requests per second of each run, without idle and throttled time (dots), and the rate limit at that time (dashed)',
    'Published bytes of all days up to each day, in MB',
  ];
  expect(plotLabels(of(5))).toEqual(expect.arrayContaining(charts));
  const few = of(4);
  expect(plotLabels(few).filter((label) => charts.includes(label))).toEqual([]);
  expect(few).toContain('aria-label="Days as a table"');
  expect(few.replaceAll(/<\/?span[^>]*>/g, '')).toContain(
    'Ticks observed at two prices: 3 on 2026-11-19, 3 on 2026-11-20',
  );
  expect(few).toContain('The lag was 10 min at the end of the last run, and at most 10 min in 4 runs.');
});

test('the axis of days begins with the first tick, not with the first market list', () => {
  const { days, coverage } = createReportData();
  const rest = { coverage: { ...coverage, rows: [] } };
  const text = page({ days: days.map((day, i) => ({ ...day, ticks: i < 8 ? 0 : day.ticks })), ...rest });
  const bars = /aria-label="Ticks per UTC day[\s\S]*?<\/svg>/.exec(text)![0].match(/<rect /g);
  expect(bars).toHaveLength(6);
  const labels = /aria-label="Ticks per UTC day[\s\S]*?<\/svg>/.exec(text)![0].match(/Nov \d+/g);
  expect(labels![0]).toBe('Nov 17');
});

test('the plots of coverage, ticks and bytes have one time axis, whatever the lengths of names and the first tick', () => {
  const { coverage, days } = createReportData();
  const rows = coverage.rows.map((row, i) => ({ ...row, group: `a long name of a group ${i}` }));
  const text = page({
    coverage: { ...coverage, rows },
    days: days.map((day, i) => ({ ...day, ticks: i < 3 ? 0 : day.ticks })),
  });
  for (const name of ['wide', 'narrow']) {
    const plots = [...text.matchAll(new RegExp(`<div class="${name}">(<svg .*?</svg>)</div>`, 'gs'))].map(
      ([, svg]) => svg!,
    );
    // The labels of a time axis with their places.
    const axes = ['Covered share', 'Ticks per UTC day', 'Published bytes per day'].map((label) => {
      const plot = plots.find((svg) => svg.includes(`aria-label="${label}`))!;
      return [...plot.matchAll(/<text transform="translate\(([\d.]+),[^>]*>(.*?)<\/text>/gs)]
        .map(([, x, date]) => [x, date!.replaceAll(/<[^>]+>/g, '')])
        .filter(([, date]) => date!.startsWith('Nov'));
    });
    expect(axes[0]!.length, name).toBeGreaterThanOrEqual(2);
    expect(axes[1], name).toEqual(axes[0]);
    expect(axes[2], name).toEqual(axes[0]);
  }
});

test('says how many days are not shown', () => {
  const { days, shown } = createReportData();
  expect(page({ shown: { ...shown, from: shown.to - 6 * 86_400_000 } })).toContain(
    'The last 6 of 14 days. The setting report.days shows more.',
  );
  expect(page({ days })).not.toContain('report.days');
});

test.each([
  [20_000, 'seconds'],
  [20 * 60_000, 'minutes'],
  [20 * 3_600_000, 'hours'],
  [20 * 86_400_000, 'days'],
])('draws durations up to %i ms in %s', (ms, unit) => expect(chooseTimeUnit(ms)[0]).toBe(unit));

test('escapes untrusted text in tables, plots and titles', () => {
  const text = render(createReportDataWithProblems(rubbish), '</style><script>alert(1)</script>');
  expect(text).not.toMatch(/<script|<img src=x|<b>bold/);
  expect(text).toContain('&lt;script&gt;globalThis.hit = 1&lt;/script&gt;');
  expect(text).not.toMatch(/NaN|undefined|Infinity/);
});

test('loads nothing and allows no scripts', () => {
  const text = render(createReportDataWithProblems(rubbish));
  expect(text).toContain(`content="default-src 'none'; style-src 'unsafe-inline'; img-src data:"`);
  expect(text.replaceAll(/xmlns(:\w+)?="[^"]*"/g, '')).not.toMatch(/(src|href|url)\s*[=(]\s*["']?\s*(https?:)?\/\//);
});

test('the same data gives the same text for every page of a process', () => {
  const [first, second] = [page(), page()];
  expect(first === second).toBe(true);
});

test('the size of the page is bounded', () => {
  const { coverage, days } = createReportData();
  const steps = 14 * 24;
  const rows = Array.from({ length: 12 }, (_, g) => ({
    group: `group ${g}`,
    symbols: 9,
    lifetimeMs: Array.from({ length: steps }, () => 100),
    // Adjacent hours have different levels.
    coveredMs: Array.from({ length: steps }, (_, i) => [0, 100, 60, 95, 10][i % 5]!),
    damagedMs: Array.from({ length: steps }, () => 0),
  }));
  const many = Array.from({ length: 200 }, (_, i) =>
    createRun(200 - i, { exitCode: 4 }, { error: 'x'.repeat(100_000) }),
  );
  const text = page({ runs: many, coverage: { ...coverage, rows }, days });
  expect(text.length).toBeLessThan(1_500_000);
});

test('links symbols and days to the catalogue if its address is known', () => {
  const hostile = ['<script>&"', 'a#b&c d%', '\u202egnp.exe'];
  const { rules } = createReportData();
  const data = createReportDataWithProblems(hostile);
  const text = render({ ...data, rules: { ...rules, catalogueUrl: 'https://lake.test/?a=1' } });
  for (const symbol of hostile) {
    const [, fragment] = /^(.*)$/.exec(String(new URLSearchParams({ symbol })))!;
    expect(text).toContain(`<a href="https://lake.test/?a=1#${fragment}" rel="noreferrer"><bdi>`);
  }
  expect(text).toMatch(/<a href="https:\/\/lake\.test\/\?a=1#day=2026-11-\d\d" rel="noreferrer">2026-11-\d\d<\/a>/);
  expect(render(data)).not.toContain('<a ');
});

test('names the step of the coverage plot', () => {
  const { coverage } = createReportData();
  const text = page({ coverage: { ...coverage, stepMs: 86_400_000 } });
  expect(text).toContain('Covered share of symbol lifetimes per day, by');
  expect(text).toContain('In the worst day');
});
