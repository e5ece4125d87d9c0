import { expect, test } from 'vitest';
import { formatGaps, formatStatus } from '../../src/cli/format-archive.ts';
import { plainStyle } from '../../src/cli/terminal-style.ts';
import { createReportData } from '../report/made-gathered.ts';

const provisional = { windows: 0, symbols: 0 };

const judged = { verdict: { state: 'ok', text: 'OK: well', command: null }, findings: [] } as const;
const base: Parameters<typeof formatStatus>[0] = {
  ...createReportData().status,
  ...judged,
  last_runs: [],
  lagging_count: 0,
};
const rowOf = (status: Partial<typeof base>, name: string, isVerbose = false): string | undefined =>
  new RegExp(`^ {2}${name} +(.*)$`, 'm').exec(formatStatus({ ...base, ...status }, plainStyle, isVerbose))?.[1];

test('lists the symbols that lag, and escapes control characters in them', () => {
  const cursors = [
    { symbol: 'a\nb\u001b[2J', cursor: 0 },
    { symbol: 'c', cursor: 1 },
  ];
  const text = formatStatus({ ...base, cursors, cursors_count: 7, lagging_count: 1 });
  expect(text).toMatch(/where their data ends: 1 of 7\n {4}1970-01-01T00:00:00Z {2}a\\nb\\u001b\[2J\n$/);
  expect(formatStatus({ ...base, cursors, cursors_count: 7 })).not.toContain('lag');
});

test('prints the verdict first, and findings last: those that need nothing only with --verbose', () => {
  const verdict = { state: 'warning', text: '1 gap (and 1 more finding)', command: 'oddslake gaps' } as const;
  const finding = { kind: 'gaps', severity: 'warning', message: '1 gap', command: 'oddslake gaps' } as const;
  const more = { ...finding, kind: 'push', message: 'no push', command: null } as const;
  const note = { ...finding, kind: 'provisional', severity: 'info', message: 'nothing to do' } as const;
  const status = { ...base, verdict, findings: [finding, more, note] };
  expect(formatStatus(status)).toMatch(
    /^1 gap \(and 1 more finding\)\nnext: oddslake gaps\n {2}archive [\s\S]*\n\nwarning: no push\n$/,
  );
  expect(formatStatus(status, plainStyle, true)).toMatch(
    /\n\nwarning: no push\nnote: nothing to do\n {2}oddslake gaps\n$/,
  );
});

test('says up to when it is collected and proven without a hole, unless the verdict says so', () => {
  const reached = Date.UTC(2026, 10, 22, 8, 30);
  const of = (text: string, isVerbose = false, watermark = reached) =>
    rowOf({ reached, watermark, lag_ms: 60_000, verdict: { ...judged.verdict, text } }, 'collected', isVerbose);
  const row = 'to 2026-11-22T08:30:00Z, 1 min ago';
  expect(of('1 gap')).toBe(row);
  expect(of('OK: collected to 2026-11-22 08:30 UTC')).toBeUndefined();
  expect(of('OK: collected to 2026-11-22 08:30 UTC', true)).toBe(row);
  expect(of('OK: collected to 2026-11-22 08:30 UTC', false, 0)).toBe(
    `${row}; proven without a hole to 1970-01-01T00:00:00Z`,
  );
});

test('never says that every byte is verified beside known damage', () => {
  const of = (status: Partial<typeof base>) => rowOf(status, 'verified', true);
  expect(of({ verified_through: 0 })).toMatch(/^every published byte since 1970/);
  expect(of({ damaged_count: 2, verified_through: 0 })).toMatch(/^all but 2 damaged files since 1970/);
  expect(of({ damaged_count: 2, verified_through: null })).toBe('not every published byte yet');
});

test('counts the known symbols in parts that add up to them', () => {
  const of = (symbols: typeof base.symbols) => rowOf({ symbols }, 'symbols');
  expect(of({ known: 33, live: 17, suspended: 0 })).toBe('33 known: 17 live, 16 not polled');
  expect(of({ known: 1033, live: 1000, suspended: 2, excluded: 4, forgotten: 7 })).toBe(
    '1,033 known: 1,000 live, 2 suspended, 4 excluded, 7 forgotten, 20 not polled',
  );
  expect(of({ known: 0, live: 0, suspended: 0 })).toBe('0 known: 0 live');
});

test('says how the last runs ended', () => {
  const run = {
    run_id: 'r',
    job: 'nightly',
    started_at: 0,
    finished_at: 60_000,
    exit_code: 7,
    state: 'ended',
  } as const;
  const at = 'nightly, started 1970-01-01T00:00:00Z';
  const of = (last: Partial<(typeof base.last_runs)[number]>) =>
    rowOf({ last_runs: [{ ...run, ...last }] }, 'last runs');
  expect(of({})).toBe(`${at}, ended after 1 min, exit code 7 (the upstream could not be reached)`);
  expect(of({ exit_code: 0 })).toBe(`${at}, ended after 1 min, exit code 0 (done)`);
  expect(of({ finished_at: null, exit_code: null, state: 'running' })).toBe(`${at}, is running`);
  expect(of({ finished_at: null, exit_code: null, state: 'interrupted' })).toBe(`${at}, was interrupted`);
});

test('continues long lines below on a terminal, and breaks no symbol, path or command', () => {
  const [archive, symbol] = [`/a lake/${'deep/'.repeat(14)}end of it`, `KX ${'long name '.repeat(9)}`.trim()];
  const day = {
    date: '2026-11-20',
    state: 'incomplete',
    reasons: [],
    reason: 'x '.repeat(50).trim(),
    next_action: null,
  } as const;
  const openDays = { open_days: [day], open_days_count: 30 };
  const status = { ...base, archive, ...openDays };
  const wrapped = formatStatus(status, { ...plainStyle, width: 80 }, true);
  expect(wrapped).toContain(archive);
  expect(formatStatus(status, plainStyle, true).split('\n').length).toBeLessThan(wrapped.split('\n').length);
  const gap = { symbol, from: 0, to: 1000, reason: 'failed' as const, detail: 'y '.repeat(60).trim() };
  const list = { from: 0, to: 1000, count: 1, gaps: [gap], provisional, ...openDays };
  const gaps = formatGaps(list, { ...plainStyle, width: 80 });
  for (const text of [wrapped, gaps]) {
    expect(text).toMatch(/\n +oddslake sql "SELECT date, reason FROM days WHERE reason IS NOT NULL"\n/);
    for (const line of text.split('\n'))
      if (!line.includes(archive) && !line.includes(symbol)) expect(line.length).toBeLessThanOrEqual(80);
  }
  expect(gaps).toContain(symbol);
  expect(gaps).toMatch(/\n {6}y y/);
  expect(formatGaps(list).split('\n')[0]).toContain(`${symbol}  failed: ${gap.detail}`);
});

test('prints the number of lost ticks of a gap', () => {
  const gaps = [
    { symbol: 'A', from: 0, to: 1000, reason: 'never asked' as const },
    { symbol: 'A', from: 1000, to: 2000, reason: 'lost' as const, ticks: 1234 },
  ];
  const lines = formatGaps({ from: 0, to: 2000, count: 2, gaps, provisional }).split('\n');
  expect(lines[0]).toMatch(/ A {2}never asked$/);
  expect(lines[1]).toMatch(/ A {2}lost: 1,234 published ticks$/);
});

test('prints since when a gap fails, and the last result', () => {
  const gap = { symbol: 'A', from: 0, to: 1000, reason: 'failed' as const, detail: 'HTTP 500', since: 86_400_000 };
  const [line] = formatGaps({ from: 0, to: 1000, count: 1, gaps: [gap], provisional }).split('\n');
  expect(line).toMatch(/ A {2}failed since 1970-01-02T00:00:00Z: HTTP 500$/);
});

test('escapes control characters in symbols', () => {
  const gap = { symbol: 'a\nb\u001b[2J', from: 0, to: 1000, reason: 'never asked' as const };
  expect(formatGaps({ from: 0, to: 1000, count: 1, gaps: [gap], provisional }).split('\n')[0]).toMatch(
    /a\\nb\\u001b\[2J {2}never asked$/,
  );
});
