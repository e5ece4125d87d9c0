import { stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';
import type { RepairReport } from '../../src/archive/integrity/repair.ts';
import type { FailureLine, NightSummary, Summary } from '../../src/archive/journal/run-summary.ts';
import { explainSummary } from '../../src/cli/commands/demo.ts';
import { formatRepair } from '../../src/cli/commands/verify.ts';
import { formatSummary } from '../../src/cli/print-summary.ts';
import { plainStyle } from '../../src/cli/terminal-style.ts';
import type { RunFacts } from '../../src/collector/run/summary.ts';
import { emptyBookCounts, summarize } from '../../src/collector/run/summary.ts';

const textOf = (failures: readonly FailureLine[]): string =>
  formatSummary(
    summarize({
      version: '0',
      job: 'nightly',
      run_id: 'run',
      started_at: 1,
      finished_at: 2,
      requests: 0,
      retries: 0,
      throttled_ms: 0,
      pages: 0,
      recovered: 0,
      generation: 1,
      watermark: null,
      gaps: 0,
      warnings: [],
      failures,
      ticks: { fetched: 0, accepted: 0, duplicates: 0, conflicts: 0, quarantined: 0 },
      symbols: { planned: 0, done: 0, failed: 0, suspended: 0 },
      orderbooks: emptyBookCounts,
      files: [],
      strict: false,
      hasUpstreamResponded: true,
      thrown: undefined,
    }),
    '/lake',
  );

const fall = { symbol: null, from: null, to: null, reason: 'markets fell by 80 %' };
const window = (n: number) => ({ symbol: `S${n}`, from: 0, to: 60_000, reason: 'answered 500' });

test('lists failures of a whole run before windows, and counts all windows', () => {
  const text = textOf([fall, ...Array.from({ length: 30 }, (_, n) => window(n))]);
  expect(text.split('\n').slice(-9)).toEqual([
    'incomplete: markets fell by 80 %',
    '',
    '30 windows could not be fetched; the next run retries:',
    ...[0, 1, 2, 3, 4].map((n) => `  S${n}  1970-01-01T00:00:00Z … 1970-01-01T00:01:00Z  answered 500`),
    '  … and 25 more',
  ]);
});

test('does not promise a retry for lost windows', () => {
  const text = textOf([window(1), { ...window(2), reason: 'lost: 3 of 7 ticks came back' }]);
  expect(text).toContain('\n2 windows could not be fetched:\n');
});

test('mentions no windows if there is only a drop to report', () => {
  expect(textOf([fall])).toMatch(/\nincomplete: markets fell by 80 %$/);
  expect(textOf([fall])).not.toContain('windows');
  expect(textOf([window(1)])).not.toContain('incomplete:');
});

test('uses the singular for one window, and omits ticks if none were requested', () => {
  expect(textOf([window(1)])).toContain('\n1 window could not be fetched');
  expect(textOf([window(1)])).not.toContain('  ticks');
});

const none = { count: 0, names: [] };
const nightFacts: NightSummary = {
  nights: 7,
  ticks: {
    new: { count: 12_403, median: 11_980 },
    late: { count: 21, median: 18.5 },
    conflicts: { count: 0, median: 0 },
  },
  markets: {
    new: { count: 12, names: ['A'] },
    delisted: { count: 3, names: ['KXAPPROVE-26NOV2814-T47.5', 'KXBTC-26NOV2121-T41.5', 'KXRAIN-26NOV22-B1'] },
    resolved: none,
    overdue: { count: 1, names: ['KXOLD'] },
  },
  covered: { symbols: 19_980, gap_minutes: 1 },
  fetched_late: none,
};
const night = (facts: Partial<RunFacts> = {}): Summary => ({
  ...summarize({
    version: '0',
    job: 'nightly',
    run_id: 'run',
    started_at: 0,
    finished_at: 245_000,
    requests: 20_412,
    retries: 12,
    throttled_ms: 12_000,
    pages: 0,
    recovered: 0,
    generation: 1234,
    watermark: 0,
    gaps: 0,
    warnings: [],
    failures: [],
    ticks: { fetched: 60_614, accepted: 12_403, duplicates: 48_211, conflicts: 0, quarantined: 0 },
    symbols: { planned: 20_000, done: 19_980, failed: 20, suspended: 0 },
    orderbooks: emptyBookCounts,
    files: [],
    strict: false,
    hasUpstreamResponded: true,
    thrown: undefined,
    rate: { allowed_per_second: 5, used: 0.981, wait_ms: 4_080_000 },
    markets: 10,
    night: nightFacts,
    ...facts,
  }),
  next_action: 'Look at it: oddslake symbols KXOLD',
});
const linesOf = (summary: Summary, width: number | null, colour = false): string[] =>
  formatSummary(summary, '/lake', { ...plainStyle, width, hasColour: colour }).split('\n');

test('prints a nightly summary with medians, without empty parts', () => {
  expect(linesOf(night(), 80)).toEqual([
    'nightly done after 4 min 5 s',
    '  ticks      12,403 new (median of 7 nights 11,980) · 21 late (median 19)',
    '             48,211 duplicate',
    '  symbols    19,980 of 20,000 done · 20 failed',
    '  markets    10 listed',
    '  changes    12 symbols new · 3 delisted · 1 overdue',
    '             delisted: KXAPPROVE-26NOV2814-T47.5 and 2 more',
    '             overdue: KXOLD',
    '  requests   20,412 · 12 retries · at 98 % of the limit of 5 per second',
    '             throttled for 12.0 s by the service',
    '  published  nothing new, no file changed (generation 1,234)',
    '  covered    all live symbols up to 1970-01-01T00:00Z',
    '             in this night 19,980 symbols without a gap, 1 minute missing in',
    '             others',
    '  archive    /lake',
    '',
    'next: Look at it:',
    '  oddslake symbols KXOLD',
  ]);
});

test('prints rechecks and their results only if there were any', () => {
  const rechecks = {
    requests: 40,
    windows: 12,
    contradicted: 2,
    new_ticks: 31,
    withdrawn_windows: 2,
    reread_windows: 0,
    doubtful_windows: 0,
    lateness_ms: 7_200_000,
    overlap_ms: 10_800_000,
  };
  const lines = linesOf(night({ rechecks }), 80);
  expect(lines).toContain('  rechecks   12 windows · 2 contradicted · 31 new · up to 2 h late');
  expect(linesOf(night({ rechecks: { ...rechecks, windows: 0 } }), 80).join()).not.toContain('rechecks');
});

test('wraps lines to the terminal, except for longer words', () => {
  const reason =
    'markets fell by 80 %: the lists name 12, the median of the last 7 nights is 60 (drops.markets_share_max is 0.5)';
  const long = night({ failures: [{ symbol: null, from: null, to: null, reason }, window(1)], warnings: [reason] });
  const late = {
    ...long,
    night: { ...nightFacts, fetched_late: { count: 30, names: nightFacts.markets.delisted.names } },
  };
  for (const width of [60, 80, 120]) {
    const lines = linesOf(late, width);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(width);
  }
  expect(linesOf(late, null).length).toBeLessThan(linesOf(late, 60).length);
});

test('colours add no information to the text', () => {
  const coloured = linesOf(night({ warnings: ['It is late.'] }), 80, true);
  expect(coloured.join('')).toContain('\u001b[33mdone\u001b[39m');
  expect(coloured.map(stripVTControlCharacters)).toEqual(linesOf(night({ warnings: ['It is late.'] }), 80));
  expect(linesOf(night(), 80).join('')).not.toContain('\u001b');
});

test('compares with a single earlier night, or with none', () => {
  const reported = (nights: number, median: number | null) =>
    linesOf(
      { ...night(), night: { ...nightFacts, nights, ticks: { ...nightFacts.ticks, new: { count: 12_403, median } } } },
      null,
    )[1];
  expect(reported(1, 1234)).toContain('12,403 new (the night before 1,234) · 21 late');
  expect(reported(0, null)).toContain('  12,403 new · ');
});

test('new ticks add up: those of the run, of other runs, and recovered ones', () => {
  const ticks = { fetched: 60, accepted: 12, duplicates: 48, conflicts: 0, quarantined: 0 };
  const line = (count: number, recovered: number): string =>
    linesOf(
      night({
        ticks,
        recovered,
        night: { ...nightFacts, nights: 2, ticks: { ...nightFacts.ticks, new: { count, median: 4.5 } } },
      }),
      null,
    )[1]!;
  expect(line(12, 0)).toContain('12 new (mean of the 2 nights before 4.5) · 21 late (mean 19)');
  expect(line(42, 30)).toContain('since the last night: 12 by this run, 30 recovered of an interrupted run · 21');
  expect(line(50, 30)).toContain(
    '50 new (mean of the 2 nights before 4.5) since the last night: 12 by this run, 8 by other runs, 30 recovered of an',
  );
});

test('says which days are not complete, and what completes them', () => {
  const reasons = [{ reason: 'inferred', symbols: 12, from: 1795211580000, to: 1795213800000 }] as const;
  const day = {
    date: '2026-11-20',
    state: 'provisional',
    reasons,
    reason: 'coverage of the last 37 min of 12 symbols is inferred',
  } as const;
  const lines = linesOf(night({ open_days: [{ ...day, next_action: null }], open_days_count: 1 }), 80);
  const at = lines.findIndex((line) => line.startsWith('  days '));
  expect(lines.slice(at, at + 2).map((line) => line.slice(13))).toEqual([
    '2026-11-20 provisional: coverage of the last 37 min of 12 symbols',
    'is inferred',
  ]);
  expect(lines.slice(at + 2, at + 4).map((line) => line.trim())).toEqual([
    '→ nights confirm recent windows; to confirm all of them:',
    'oddslake backfill --recheck inferred --from 2026-11-20 --to 2026-11-21',
  ]);
});

test('counts one tick in the singular', () => {
  const published = { files: 1, rows: 1, bytes: 10, dates: ['2026-11-20'], dates_count: 1 };
  const of = (added: number, lost: number): string =>
    linesOf({ ...night(), published: { ...published, added, lost } }, null).find((text) => text.includes('published'))!;
  expect(of(1, 1)).toContain('2026-11-20, 1 tick added, 1 tick lost (generation');
  expect(of(2, 0)).toContain('2026-11-20, 2 ticks added (generation');
});

test('says that what is covered is outside damaged files', () => {
  const line = linesOf({ ...night(), damaged_count: 1 }, 80).find((text) => text.startsWith('  covered'));
  expect(line).toBe('  covered    outside 1 damaged file, all live symbols up to 1970-01-01T00:00Z');
});

test('prints the result of a repair first, then what was damaged, then what stays lost', () => {
  const path = 'ticks/date=2026-11-24/part-00.parquet';
  const report = {
    ...{ generation: 5, files: 244, bytes: 460_700, unrecoverable: [], written: [], state: null },
    repaired: [
      { path, kind: 'missing', outcome: 'removed', moved_to: `.oddslake/damaged/4/${path}`, rows: 351, rows_lost: 351 },
      {
        path: 'manifest.json',
        kind: 'checksum mismatch',
        outcome: 'restored',
        moved_to: null,
        rows: null,
        rows_lost: null,
      },
    ],
    lost: [{ dataset: 'ticks', symbol: `A ${'long '.repeat(12)}\u001b[2J`, from: 0, to: 60_000, ticks: 351 }],
  } as const;
  const of = (repaired: RepairReport): string[] =>
    formatSummary(night({ failures: [fall] }), '/lake', { ...plainStyle, width: 80 }, formatRepair(repaired)).split(
      '\n',
    );
  const lines = of(report);
  expect(lines[0]).toBe('nightly done after 4 min 5 s, but incomplete');
  expect(lines.slice(1, 3)).toEqual([
    '  repaired   2 files: 1 removed, 1 restored',
    '             of 244 files, 460.7 kB (generation 5)',
  ]);
  expect(lines.indexOf('The damaged files:')).toBeGreaterThan(lines.indexOf('  archive    /lake'));
  expect(lines.indexOf(`incomplete: ${fall.reason}`)).toBeGreaterThan(lines.indexOf('The damaged files:'));
  for (const line of lines.filter((text) => !text.includes('A long'))) expect(line.length).toBeLessThanOrEqual(80);
  expect(lines.join('')).not.toContain('\u001b');
  const [, nothing] = of({ ...report, repaired: [], lost: [] });
  expect(nothing).toBe('  repaired   nothing: no damage found in 244 files, 460.7 kB');
});

test('escapes control characters of untrusted text', () => {
  const text = linesOf(night({ failures: [{ ...window(1), symbol: 'A\u001b[2J' }] }), null).join('\n');
  expect(text).not.toContain('\u001b');
});

test('a demo explains the lines that look like faults, and only those that its summary has', () => {
  expect(explainSummary(night())).toBe('');
  const late = { ...nightFacts, fetched_late: { count: 2, names: ['A', 'B'] } };
  const text = explainSummary(night({ night: late, warnings: ['A is slow.'] }));
  expect(text).toMatch(/^\nNothing is wrong\./);
  expect(text).toMatch(/ {2}too late {5}a first night asks/);
  expect(text).toMatch(/ {2}warning /);
  expect(text).not.toContain('provisional');
  for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
});
