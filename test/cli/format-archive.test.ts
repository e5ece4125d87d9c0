import { expect, test } from 'vitest';
import { formatGaps, formatStatus } from '../../src/cli/format-archive.ts';
import { plainStyle } from '../../src/cli/terminal-style.ts';
import { createReportData } from '../report/made-gathered.ts';

const provisional = { windows: 0, symbols: 0 };

test('escapes control characters in symbols', () => {
  const { status } = createReportData();
  const text = formatStatus({ ...status, cursors: [{ symbol: 'a\nb\u001b[2J', cursor: 0 }], cursors_count: 1 });
  expect(text).toMatch(/ 1970-01-01T00:00:00Z {2}a\\nb\\u001b\[2J\n$/);
});

test('never says that every byte is verified, or every symbol covered, beside known damage', () => {
  const { status } = createReportData();
  const damaged = { ...status, damaged_count: 2, verified_through: 0 };
  expect(formatStatus({ ...status, verified_through: 0 })).toMatch(/verified {3}every published byte since 1970.*\n/);
  expect(formatStatus(damaged)).toMatch(/verified {3}all but 2 damaged files since 1970.*\n/);
  expect(formatStatus(damaged)).toMatch(/covered {4}outside 2 damaged files, all live symbols up to 20/);
  expect(formatStatus({ ...damaged, verified_through: null })).toMatch(/verified {3}not every published byte yet\n/);
});

test('counts the known symbols in parts that add up to them', () => {
  const { status } = createReportData();
  const of = (symbols: typeof status.symbols): string =>
    /\n {2}symbols {4}(.*)\n/.exec(formatStatus({ ...status, symbols }))![1]!;
  expect(of({ known: 33, live: 17, suspended: 0 })).toBe('33 known: 17 live, 16 not polled');
  expect(of({ known: 1033, live: 1000, suspended: 2, excluded: 4, forgotten: 7 })).toBe(
    '1,033 known: 1,000 live, 2 suspended, 4 excluded, 7 forgotten, 20 not polled',
  );
  expect(of({ known: 0, live: 0, suspended: 0 })).toBe('0 known: 0 live');
});

test('says how the last run ended, and how to go on', () => {
  const { status } = createReportData();
  const run = {
    run_id: 'r',
    job: 'nightly',
    started_at: 0,
    finished_at: 60_000,
    exit_code: 7,
    state: 'ended',
  } as const;
  const of = (last: Partial<NonNullable<typeof status.last_run>>): string =>
    /last run {3}(.*\n( {13}.*\n)*)/.exec(formatStatus({ ...status, last_run: { ...run, ...last } }))![1]!;
  expect(of({})).toMatch(
    /ended after 1 min, exit code 7 \(the upstream could not be reached\)\n .*→ .* then run it again/,
  );
  expect(of({ exit_code: 0 })).toMatch(/exit code 0 \(done\)\n$/);
  expect(of({ exit_code: 4 })).toContain('→ the next run fetches what is missing; to list it: oddslake gaps');
  expect(of({ finished_at: null, exit_code: null, state: 'running' })).toMatch(/, is running\n$/);
  const interrupted = of({ finished_at: null, exit_code: null, state: 'interrupted' });
  expect(interrupted).toMatch(
    /was interrupted before its end\n .*→ what it accepted is kept; the next run recovers it/,
  );
});

test('continues long lines below on a terminal, and breaks no symbol, path or command', () => {
  const { status } = createReportData();
  const [archive, symbol] = [`/a lake/${'deep/'.repeat(14)}end of it`, `KX ${'long name '.repeat(9)}`.trim()];
  const day = {
    date: '2026-11-20',
    state: 'incomplete',
    reasons: [],
    reason: 'x '.repeat(50).trim(),
    next_action: null,
  } as const;
  const reasons = [{ reason: 'inferred', symbols: 2, from: 0, to: 1 }] as const;
  const openDays = { open_days: [{ ...day, reasons }], open_days_count: 30 };
  const wrapped = formatStatus({ ...status, archive, ...openDays }, { ...plainStyle, width: 80 });
  const plain = formatStatus({ ...status, archive, ...openDays });
  expect(wrapped).toContain(archive);
  expect(plain.split('\n').length).toBeLessThan(wrapped.split('\n').length);
  const gap = { symbol, from: 0, to: 1000, reason: 'failed' as const, detail: 'y '.repeat(60).trim() };
  const list = { from: 0, to: 1000, count: 1, gaps: [gap], provisional, ...openDays };
  const gaps = formatGaps(list, { ...plainStyle, width: 80 });
  const command = 'oddslake backfill --recheck inferred --from 2026-11-20 --to 2026-11-21';
  for (const text of [wrapped, gaps]) {
    expect(text).toMatch(new RegExp(`\\n +${command}\\n`));
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
  const gap = { symbol: 'A', from: 0, to: 1000, reason: 'failed' as const, detail: 'answered 500', since: 86_400_000 };
  const [line] = formatGaps({ from: 0, to: 1000, count: 1, gaps: [gap], provisional }).split('\n');
  expect(line).toMatch(/ A {2}failed since 1970-01-02T00:00:00Z: answered 500$/);
});

test('escapes control characters in symbols', () => {
  const gap = { symbol: 'a\nb\u001b[2J', from: 0, to: 1000, reason: 'never asked' as const };
  expect(formatGaps({ from: 0, to: 1000, count: 1, gaps: [gap], provisional }).split('\n')[0]).toMatch(
    /a\\nb\\u001b\[2J {2}never asked$/,
  );
});
