import { describe, expect, test } from 'vitest';
import type { PublishedFile } from '../../../src/archive/format/manifest.ts';
import { DamageError, exitCodes, OddslakeError, UpstreamError, UsageError } from '../../../src/base/errors.ts';
import { formatErrorMessage } from '../../../src/collector/run/error-message.ts';
import { emptyBookCounts, type RunFacts, summarize } from '../../../src/collector/run/summary.ts';
import { InterruptedError } from '../../../src/context/context.ts';

const facts = (rest: Partial<RunFacts> = {}): RunFacts => ({
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
  failures: [],
  ticks: { fetched: 0, accepted: 0, duplicates: 0, conflicts: 0, quarantined: 0 },
  symbols: { planned: 0, done: 0, failed: 0, suspended: 0 },
  orderbooks: emptyBookCounts,
  files: [],
  strict: false,
  hasUpstreamResponded: true,
  thrown: undefined,
  ...rest,
});
const damaged = { path: 'ticks/a', kind: 'missing', foundAt: 0, runId: 'run' } as const;
const failure = { symbol: 'AAA', from: 1, to: 2, reason: 'HTTP 404' };
const upstream = (kind: 'credential' | 'unreachable' | 'transient' | 'refused') =>
  new UpstreamError('ticks', { failure: kind, reason: 'because' });

describe('the exit code of a run', () => {
  test.each<[string, Partial<RunFacts>, number, string]>([
    ['all done', {}, 0, 'done'],
    ['warnings', { warnings: ['so'] }, 0, 'done'],
    ['warnings, with --strict', { warnings: ['so'], strict: true }, 4, 'incomplete'],
    ['a window that could not be fetched', { failures: [failure] }, 4, 'incomplete'],
    ['a bug', { thrown: new TypeError('x is not a function') }, 1, 'failed'],
    ['bad usage', { thrown: new UsageError('no') }, 2, 'usage'],
    ['a refused key', { thrown: upstream('credential') }, 3, 'credential'],
    ['nobody there at all', { thrown: upstream('unreachable'), hasUpstreamResponded: false }, 7, 'unreachable'],
    ['nobody there any more', { thrown: upstream('unreachable') }, 4, 'incomplete'],
    ['an upstream that fails', { thrown: upstream('transient') }, 4, 'incomplete'],
    ['another writer', { thrown: new OddslakeError(exitCodes.busy, 'busy') }, 5, 'busy'],
    ['damage, failures beside it', { thrown: new DamageError('bad'), failures: [failure] }, 6, 'damaged'],
    ['damage that is known, failures beside it', { damage: [damaged], failures: [failure] }, 6, 'damaged'],
    ['damage that is known, and nothing else', { damage: [damaged] }, 6, 'damaged'],
    [
      'damage that is known, and an upstream that fails',
      { damage: [damaged], thrown: upstream('transient') },
      6,
      'damaged',
    ],
    ['damage that is known, and a refused key', { damage: [damaged], thrown: upstream('credential') }, 3, 'credential'],
    ['Ctrl-C', { thrown: new InterruptedError('SIGINT') }, 130, 'interrupted'],
    ['SIGTERM', { thrown: new InterruptedError('SIGTERM') }, 143, 'interrupted'],
    ['something thrown that is no error', { thrown: 'text' }, 1, 'failed'],
  ])('after %s', (_, rest, code, outcome) => {
    const summary = summarize(facts(rest));
    expect(summary).toMatchObject({ exit_code: code, outcome });
    const known = '1 file damaged: ticks/a (missing); to repair: oddslake verify --repair';
    const errors = rest.thrown === undefined ? [] : [formatErrorMessage(rest.thrown)];
    const messages = rest.damage === undefined || code !== 6 ? errors : [...errors, known];
    expect(summary.error).toBe(messages.length === 0 ? null : messages.join('; '));
  });
});

test('omits the kind and the flags of a failure', () => {
  const summary = summarize(facts({ failures: [{ ...failure, kind: 'lost', flags: ['--x'] }] }));
  expect(summary.failures).toEqual([failure]);
});

test('truncates lists at 20 entries and keeps their lengths', () => {
  const many = Array.from({ length: 31 }, (_, i) => `2026-01-${String(i + 1).padStart(2, '0')}`);
  const file = (date: string): PublishedFile => ({
    path: `ticks/date=${date}/part-00.parquet`,
    date,
    rows: 2,
    bytes: 10,
    sha256: '',
    t_min: 1,
    t_max: 2,
    symbols: 1,
    symbol_from: 'A',
    symbol_to: 'Z',
    generation: 1,
  });
  const summary = summarize(
    facts({
      warnings: many,
      failures: many.map((reason) => ({ ...failure, reason })),
      files: [...many.map(file), ...many.map(file), { ...file('x'), date: null }],
    }),
  );
  expect(summary.warnings).toEqual(many.slice(0, 20));
  expect(summary.failures).toHaveLength(20);
  expect(summary).toMatchObject({ warnings_count: 31, failures_count: 31 });
  expect(summary.published).toEqual({
    files: 63,
    rows: 126,
    bytes: 630,
    dates: many.slice(0, 20),
    dates_count: 31,
    added: 0,
    lost: 0,
  });
});

test('errors of the upstream name the setting to check', () => {
  expect(formatErrorMessage(upstream('credential'))).toMatch(/rejected the API key \(because\).*ODDSLAKE_API_KEY/);
  expect(formatErrorMessage(upstream('unreachable'))).toMatch(/could not be reached \(because\).*ODDSLAKE_BASE_URL/);
  expect(formatErrorMessage(upstream('credential'), true)).toMatch(
    /^The other oddslake rejected.* ODDSLAKE_FROM_API_KEY or/,
  );
  expect(formatErrorMessage(upstream('unreachable'), true)).toMatch(/^The other oddslake could not.*--from-url/);
  const other = facts({ thrown: upstream('unreachable'), usesOtherUpstream: true });
  expect(summarize(other).error).toBe(formatErrorMessage(upstream('unreachable'), true));
  expect(formatErrorMessage(new UsageError('Say what.'))).toBe('Say what.');
});
