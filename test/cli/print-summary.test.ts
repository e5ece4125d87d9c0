import { stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';
import type { RepairReport } from '../../src/archive/integrity/repair.ts';
import type { Summary } from '../../src/archive/journal/run-summary.ts';
import { formatRepair } from '../../src/cli/commands/verify.ts';
import { formatSummary } from '../../src/cli/print-summary.ts';
import { plainStyle } from '../../src/cli/terminal-style.ts';
import { emptyFacts, type RunFacts, summarize } from '../../src/collector/run/summary.ts';
import type { Finding } from '../../src/contract/finding.ts';

const night = (facts: Partial<RunFacts> = {}): Summary =>
  summarize({
    ...emptyFacts,
    version: '0',
    job: 'nightly',
    run_id: 'run',
    started_at: 0,
    finished_at: 245_000,
    requests: 20_412,
    retries: 12,
    throttled_ms: 12_000,
    generation: 1234,
    ticks: { fetched: 60_614, accepted: 12_403, duplicates: 48_211, conflicts: 0, quarantined: 0 },
    symbols: { planned: 20_000, done: 19_980, failed: 20, suspended: 0 },
    strict: false,
    hasUpstreamResponded: true,
    thrown: undefined,
    rate: { allowed_per_second: 5, used: 0.981, wait_ms: 4_080_000 },
    markets: 10,
    ...facts,
  });
/** All lines, or those that are printed without --verbose. */
const linesOf = (summary: Summary, width: number | null, { isVerbose = true, hasColour = false } = {}): string[] =>
  formatSummary(summary, '/lake', { ...plainStyle, width, hasColour }, { isVerbose }).split('\n');
const lineOf = (summary: Summary, name: string): string =>
  linesOf(summary, null).find((line) => line.startsWith(`  ${name} `))!;

const window = (n: number) => ({ symbol: `S${n}`, from: 0, to: 60_000, reason: 'HTTP 500, 2 attempts' });
const finding: Finding = {
  kind: 'failing symbols',
  severity: 'warning',
  message: '2 symbols failed since 2026-11-22 03:00 UTC: HTTP 500, 2 attempts',
  command: 'oddslake backfill --from 2026-11-22 --to 2026-11-23',
};
const note: Finding = { kind: 'provisional', severity: 'info', message: 'all fetched', command: 'oddslake gaps' };
const problem: Finding = { ...note, kind: 'push', severity: 'action_required', message: 'no', advice: 'do' };

test('a good night takes at most six lines, the verdict first, and says nothing twice', () => {
  const done = { planned: 20_000, done: 20_000, failed: 0, suspended: 0 };
  const files = [{ date: '2026-11-20', rows: 1, bytes: 700 }] as unknown as RunFacts['files'];
  const text = 'OK: collected to 2026-11-29 21:29 UTC, 31 of 33 days complete, 12,403,000 new ticks';
  const summary = {
    ...night({ symbols: done, files, publishedTicks: { added: 12_403, lost: 0 } }),
    ...{ findings: [note], verdict: { state: 'ok', text, command: null } as const },
  };
  expect(linesOf(summary, 80, { isVerbose: false })).toEqual([
    'OK: collected to 2026-11-29 21:29 UTC, 31 of 33 days complete, 12,403,000 new',
    'ticks',
    '  nightly    done after 4 min 5 s · /lake',
    '  ticks      12,403 new (48,211 re-read to check them)',
    '  published  1 file, 700 B, 2026-11-20 (generation 1,234)',
  ]);
});

test('with --verbose, prints all figures and what needs nothing', () => {
  expect(linesOf({ ...night(), findings: [note] }, 80).slice(1)).toEqual([
    '  nightly    done after 4 min 5 s · /lake',
    '  ticks      12,403 new (48,211 re-read to check them)',
    '  symbols    19,980 of 20,000 done · 20 failed',
    '  markets    10 listed',
    '  requests   20,412 · 12 retries · at 98 % of the limit of 5 per second',
    '             throttled for 12.0 s by the service',
    '  published  nothing new, no file changed (generation 1,234)',
    '',
    'note: all fetched',
    '  oddslake gaps',
  ]);
});

test('prints the verdict with its command, then each other finding once', () => {
  const verdict = { state: 'warning', text: 'It failed (and 1 more finding)', command: finding.command } as const;
  const summary = { ...night(), verdict, findings: [finding, problem, note] };
  const lines = linesOf(summary, 80, { isVerbose: false });
  expect(lines.slice(0, 2)).toEqual(['It failed (and 1 more finding)', `next: ${finding.command}`]);
  expect(lines.slice(-3)).toEqual(['', 'problem: no; do', '  oddslake gaps']);
  expect(lines.join('\n')).not.toContain(finding.message);
});

test('with --verbose, lists the windows that were not fetched, and counts all', () => {
  const failures = [{ ...window(0), symbol: null }, ...Array.from({ length: 30 }, (_, n) => window(n))];
  const lines = linesOf(night({ failures }), null);
  const at = lines.indexOf('30 windows not fetched:');
  expect(lines[at + 1]).toBe('  S0  1970-01-01T00:00:00Z … 1970-01-01T00:01:00Z  HTTP 500, 2 attempts');
  expect(lines.slice(at + 20)).toEqual(['  … and 11 more']);
  expect(linesOf(night({ failures }), null, { isVerbose: false }).join()).not.toContain('S3');
});

test('omits ticks if none were requested', () => {
  const others = night({ ticks: emptyFacts.ticks, symbols: emptyFacts.symbols });
  expect(lineOf(others, 'ticks')).toBeUndefined();
  expect(lineOf(others, 'published')).toBeDefined();
});

test('prints spot checks and their results only if there were any', () => {
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
  expect(lineOf(night({ rechecks }), 'spot checks')).toMatch(/10 of 12 agree · 31 new · up to 2 h late$/);
  expect(lineOf(night({ rechecks: { ...rechecks, windows: 0 } }), 'spot checks')).toBeUndefined();
});

test('wraps lines to the terminal, except for longer words', () => {
  const reason =
    'markets: the lists name 12, the median of the last 7 days is 60: no market is marked inactive because of it';
  const failures = [{ symbol: null, from: null, to: null, reason, kind: 'market list' } as const, window(1)];
  const late = night({ failures, warnings: [reason] });
  for (const width of [60, 80, 120]) {
    const lines = linesOf(late, width).filter((line) => !line.includes('oddslake '));
    expect(lines.filter((line) => line.length > width)).toEqual([]);
  }
  expect(linesOf(late, null).length).toBeLessThan(linesOf(late, 60).length);
});

test('colours add no information to the text', () => {
  const summary = night({ warnings: ['It is late.'] });
  const coloured = linesOf(summary, 80, { hasColour: true });
  expect(coloured[0]).toBe('\u001b[33mIt is late\u001b[39m');
  expect(coloured.map(stripVTControlCharacters)).toEqual(linesOf(summary, 80));
  expect(linesOf(night(), 80).join('')).not.toContain('\u001b');
});

test('counts one tick in the singular', () => {
  const published = { files: 1, rows: 1, bytes: 10, dates: ['2026-11-20'], dates_count: 1 };
  const of = (added: number, lost: number): string =>
    lineOf({ ...night(), published: { ...published, added, lost } }, 'published');
  expect(of(1, 1)).toContain('2026-11-20, 1 tick added, 1 tick lost (generation');
  expect(of(2, 0)).toContain('2026-11-20, 2 ticks added (generation');
  expect(of(12_403, 0)).toContain('2026-11-20 (generation');
});

test('prints the result of a repair before the figures of the run, then what was damaged and stays lost', () => {
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
    formatSummary(night(), '/lake', { ...plainStyle, width: 80 }, { details: formatRepair(repaired) }).split('\n');
  const lines = of(report);
  expect(lines.slice(1, 4)).toEqual([
    '  repaired   2 files: 1 removed, 1 restored',
    '             of 244 files, 460.7 kB (generation 5)',
    '  nightly    done after 4 min 5 s · /lake',
  ]);
  expect(lines.indexOf('The damaged files:')).toBeGreaterThan(
    lines.findIndex((line) => line.startsWith('  published')),
  );
  for (const line of lines.filter((text) => !text.includes('A long'))) expect(line.length).toBeLessThanOrEqual(80);
  expect(lines.join('')).not.toContain('\u001b');
  const [, nothing] = of({ ...report, repaired: [], lost: [] });
  expect(nothing).toBe('  repaired   nothing: no damage found in 244 files, 460.7 kB');
});

test('escapes control characters of untrusted text', () => {
  const text = linesOf(night({ failures: [{ ...window(1), symbol: 'A\u001b[2J' }] }), null).join('\n');
  expect(text).toContain('A\\u001b[2J');
  expect(text).not.toContain('\u001b');
});
