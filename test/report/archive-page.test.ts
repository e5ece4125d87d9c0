import { expect, test } from 'vitest';
import { renderArchiveReport } from '../../src/report/archive-page.ts';
import type { ReportData } from '../../src/report/data/report-data.ts';
import { rubbish } from '../server/web/lake.ts';
import { madeGathered, madeRun, madeTroubled } from './made-gathered.ts';

const page = (rest: Partial<ReportData> = {}) => renderArchiveReport(madeGathered(rest), '1.2.3').text;
const headings = (text: string) => [...text.matchAll(/<h2>(.*?)<\/h2>/g)].map(([, heading]) => heading);

test('tells first whether all is well, and shows what there is, the rest in a line each', () => {
  const text = page();
  expect(headings(text)).toEqual([
    'Runs',
    'Ticks and bytes',
    'Coverage',
    'Lag',
    'Busiest symbols',
    'Requests',
    'Growth',
    'All quiet',
  ]);
  expect(text.indexOf('All is well')).toBeLessThan(text.indexOf('Last run'));
  for (const name of ['Gaps', 'Conflicts', 'Quarantine', 'Schema drift', 'Newly silent symbols'])
    expect(text).toContain(`<dt>${name}</dt>`);
  expect(text).toContain('will not be full in the next 10 years');
  expect(text).toContain('Written by oddslake 1.2.3');
});

test('tells of all that can be wrong, in the order in which it is wanted', () => {
  const text = renderArchiveReport(madeTroubled(['A', 'B', 'C', 'D']), '1').text;
  expect(headings(text)).toEqual([
    'Runs',
    'Ticks and bytes',
    'Coverage',
    'Gaps',
    'Rechecks',
    'Lag',
    'Conflicts',
    'Quarantine',
    'Schema drift',
    'Newly silent symbols',
    'Busiest symbols',
    'Requests',
    'Growth',
  ]);
  expect(text).toContain('Something has to be done');
  expect(text).toMatch(/the disk is full on 2026-12-\d\d, in \d+ d/);
  expect(text).toContain('The last run used 80 % of it; requests stood ready and waited for 2 min.');
});

test('every plot says what is seen, for wide and for narrow pages, and has its units', () => {
  const text = renderArchiveReport(madeTroubled(['A', 'B']), '1').text;
  const labels = [
    ...text.matchAll(/<svg [^>]*aria-label="([^"]+)"[^>]*role="img"|<svg [^>]*role="img"[^>]*aria-label="([^"]+)"/g),
  ];
  // Ticks, bytes, coverage, lag, conflicts, requests, growth.
  expect(labels).toHaveLength(2 * 7);
  expect(text.match(/<svg /g)).toHaveLength(2 * 7);
  for (const unit of ['ticks', 'MB', 'minutes', 'conflicts', 'requests a second'])
    expect(text.includes(`↑ ${unit}`), unit).toBe(true);
});

test('a symbol that lacks a moment is never told as whole', () => {
  const text = page();
  expect(text).toContain('99.6 % from 2026-11-09 00:00 to 2026-11-22 09:00');
  // The whole hours of each group are one mark, and the last one another.
  expect(text.match(/fill="var\(--level-5\)"/g)).toHaveLength(2 * 2);
  expect(text.match(/fill="var\(--level-0\)"/g)!.length).toBeGreaterThanOrEqual(2);
});

test('one gap of one symbol is told as one', () => {
  const gaps = { ...madeTroubled(['A']).gaps, windows: 1, symbols: 1 };
  const text = page({ gaps });
  expect(text).toContain('1 in the lives of 1 symbol, ');
  expect(text).toContain('of 1 symbol, ');
  const reason = { reason: 'not a number', count: 1, symbol: null, lastAt: null };
  expect(page({ quarantine: { count: 1, reasons: [reason], reasonsCount: 1, isTruncated: false } })).toContain(
    '1 was set aside as received',
  );
});

test('of a single run and an empty archive there is no plot of nothing', () => {
  const one = page({ runs: [madeRun(3)] });
  expect(one).toContain('The archive lay 10 min behind at the end of its only run.');
  expect(one).toContain(
    'The only run that asked made 2.0 requests a second while it had something to ask and was not held back; 5 are allowed.',
  );
  const { status, coverage, cadence } = madeGathered();
  const empty = page({
    runs: [],
    days: [],
    coverage: { ...coverage, rows: [] },
    cadence: { ...cadence, busiest: [] },
    space: null,
    status: { ...status, generation: 0, upstream: '', lag_ms: null, watermark: null },
  });
  expect(empty).toContain('Nothing has been collected yet');
  expect(empty).not.toContain('<svg');
  expect(empty).not.toMatch(/NaN|null|undefined|Infinity/);
});

test('texts from outside are text, in tables, plots and titles', () => {
  const text = renderArchiveReport(madeTroubled(rubbish), '</style><script>alert(1)</script>').text;
  expect(text).not.toMatch(/<script|<img src=x|<b>bold/);
  expect(text).toContain('&lt;script&gt;globalThis.hit = 1&lt;/script&gt;');
  expect(text).not.toMatch(/NaN|undefined|Infinity/);
});

test('nothing is asked of anywhere, and no script could run', () => {
  const text = renderArchiveReport(madeTroubled(rubbish), '1').text;
  expect(text).toContain(`content="default-src 'none'; style-src 'unsafe-inline'; img-src data:"`);
  expect(text.replaceAll(/xmlns(:\w+)?="[^"]*"/g, '')).not.toMatch(/(src|href|url)\s*[=(]\s*["']?\s*(https?:)?\/\//);
});

test('the same facts give the same text, however many pages a process has written', () => {
  const [first, second] = [page(), page()];
  expect(first === second).toBe(true);
});

test('however much there is, the page stays small', () => {
  const { coverage, days } = madeGathered();
  const steps = 14 * 24;
  const rows = Array.from({ length: 12 }, (_, g) => ({
    group: `group ${g}`,
    symbols: 9,
    lifetimeMs: Array.from({ length: steps }, () => 100),
    // No two hours side by side look alike.
    coveredMs: Array.from({ length: steps }, (_, i) => [0, 100, 60, 95, 10][i % 5]!),
  }));
  const many = Array.from({ length: 200 }, (_, i) => madeRun(200 - i, { exitCode: 4 }, { error: 'x'.repeat(100_000) }));
  const text = page({ runs: many, coverage: { ...coverage, rows }, days });
  expect(text.length).toBeLessThan(1_500_000);
});
