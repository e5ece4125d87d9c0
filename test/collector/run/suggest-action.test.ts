import { expect, test } from 'vitest';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import {
  DamageError,
  DiskFullError,
  exitCodes,
  OddslakeError,
  UpstreamError,
  UsageError,
} from '../../../src/base/errors.ts';
import { quoteShellWord } from '../../../src/base/shell-quote.ts';
import { type ActionFacts, suggestNextAction } from '../../../src/collector/run/suggest-action.ts';
import {
  emptyBookCounts,
  type FailureKind,
  type RunFacts,
  type RunFailure,
  summarize,
} from '../../../src/collector/run/summary.ts';
import { InterruptedError } from '../../../src/context/context.ts';

const createSummary = (facts: Partial<RunFacts> = {}): Summary =>
  summarize({
    version: '0',
    job: 'nightly',
    run_id: 'run',
    started_at: Date.UTC(2026, 10, 22, 3),
    finished_at: 2,
    requests: 0,
    retries: 0,
    throttled_ms: 0,
    pages: 0,
    recovered: 0,
    generation: 1,
    watermark: null,
    gaps: 0,
    ticks: { fetched: 0, accepted: 0, duplicates: 0, conflicts: 0, quarantined: 0 },
    symbols: { planned: 0, done: 0, failed: 0, suspended: 0 },
    orderbooks: emptyBookCounts,
    warnings: [],
    failures: [],
    files: [],
    strict: false,
    hasUpstreamResponded: true,
    thrown: undefined,
    ...facts,
  });

const facts: ActionFacts = {
  thrown: undefined,
  failures: [],
  flags: ' --output lake',
  argv: null,
  quarantinePath: 'lake/.oddslake/quarantine/generation-000001.ndjson.gz',
};

const suggestAfterError = (thrown: unknown, rest: Partial<RunFacts> = {}): string | null =>
  suggestNextAction(createSummary({ thrown, ...rest }), { ...facts, thrown });

const createFailure = (symbol: string | null, reason: string, kind?: FailureKind): RunFailure => ({
  symbol,
  reason,
  ...(kind !== undefined && { kind }),
  from: symbol === null ? null : Date.UTC(2026, 10, 21),
  to: symbol === null ? null : Date.UTC(2026, 10, 21, 1),
});

const upstream = (failure: 'credential' | 'unreachable'): UpstreamError =>
  new UpstreamError('markets', { failure, reason: 'no' });

test('suggests nothing after a run without problems', () => {
  expect(suggestNextAction(createSummary(), facts)).toBeNull();
});

test('suggests an action for the error that ended a run', () => {
  expect(suggestAfterError(new DiskFullError('The disk is full.'))).toBe(
    'Free disk space, then run it again: oddslake nightly --output lake',
  );
  expect(suggestAfterError(Object.assign(new Error('write'), { code: 'ENOSPC' }))).toBe(
    'Free disk space, then run it again: oddslake nightly --output lake',
  );
  expect(suggestAfterError(upstream('credential'))).toBe(
    'Set a valid API key, then run it again: oddslake nightly --output lake',
  );
  expect(suggestAfterError(upstream('unreachable'), { hasUpstreamResponded: false })).toMatch(
    /can be reached.*: oddslake nightly --output lake$/,
  );
  expect(suggestAfterError(new DamageError('x'))).toBe('Repair the archive: oddslake verify --repair --output lake');
  expect(suggestAfterError(new OddslakeError(exitCodes.busy, 'x'))).toMatch(/: oddslake publish --output lake$/);
  expect(suggestAfterError(new InterruptedError('SIGTERM'))).toBe('Resume the run: oddslake nightly --output lake');
  expect(suggestAfterError(new TypeError('x'))).toMatch(/: oddslake nightly --output lake --log-level debug$/);
  expect(suggestAfterError(new UsageError('x'))).toBeNull();
});

test('suggests a backfill of the missing windows', () => {
  const one = [createFailure('A', 'answered 500')];
  expect(suggestNextAction(createSummary({ failures: one }), { ...facts, failures: one })).toBe(
    'Fetch the missing windows: oddslake backfill --from 2026-11-21T00:00:00Z --to 2026-11-21T01:00:00Z --symbol A --output lake',
  );
  const two = [...one, createFailure("B'S", 'answered 500')];
  expect(suggestNextAction(createSummary({ failures: two, job: 'backfill' }), { ...facts, failures: two })).toBe(
    `Fetch the missing windows: oddslake backfill --from 2026-11-21T00:00:00Z --to 2026-11-21T01:00:00Z --symbol A --symbol 'B'\\''S' --output lake`,
  );
  const six = ['A', 'B', 'C', 'D', 'E', 'F'].map((symbol) => createFailure(symbol, 'answered 500'));
  expect(suggestNextAction(createSummary({ failures: six }), { ...facts, failures: six })).toBe(
    'Fetch the missing windows: oddslake backfill --from 2026-11-21T00:00:00Z --to 2026-11-21T01:00:00Z --output lake',
  );
});

test('includes windows beyond the 20 that a summary lists', () => {
  const failures = Array.from({ length: 40 }, (_, i) => ({
    ...createFailure('A', 'answered 500'),
    from: Date.UTC(2026, 10, 21, 0, i),
    to: Date.UTC(2026, 10, 21, 0, i + 1),
  }));
  const summary = createSummary({ failures });
  expect(summary.failures).toHaveLength(20);
  expect(suggestNextAction(summary, { ...facts, failures })).toMatch(
    / --from 2026-11-21T00:00:00Z --to 2026-11-21T00:40:00Z --symbol A --output lake$/,
  );
});

test('suggests a command for each kind of failure, missing windows first', () => {
  const next = (failures: readonly RunFailure[]) =>
    suggestNextAction(createSummary({ failures }), { ...facts, failures });
  for (const kind of ['lost', 'accepted', 'expired'] as const)
    expect(next([createFailure('A', 'x', kind)])).toBe('List the remaining gaps: oddslake gaps --output lake');
  for (const symbol of ['A', null])
    expect(next([createFailure(symbol, 'x', 'suspended')])).toBe(
      'Request the suspended symbols now: oddslake symbols retry --output lake',
    );
  expect(next([createFailure(null, 'ticks fell by 90 %', 'sharp drop')])).toMatch(
    /: oddslake backfill --force --from 2026-11-21 --to 2026-11-23 --output lake$/,
  );
  expect(next([createFailure(null, 'x', 'market list')])).toMatch(/: oddslake markets --output lake$/);
  expect(next([createFailure('A', 'x', 'order book')])).toMatch(/: oddslake orderbook/);
  const both = [createFailure(null, 'ticks fell by 90 %', 'sharp drop'), createFailure('A', 'answered 500')];
  expect(next(both)).toMatch(/^Fetch the missing windows/);
});

test('decides by the kind of a failure, not by its text', () => {
  const next = (failures: readonly RunFailure[]): string | null =>
    suggestNextAction(createSummary({ failures }), { ...facts, failures });
  for (const prefix of ['lost', 'suspended', 'accepted as a gap', 'expired', 'order book'])
    expect(next([createFailure('A', `${prefix}: x`)])).toMatch(/^Fetch the missing windows/);
  expect(next([createFailure(null, 'markets.csv: x')])).toBeNull();
});

test('repeats an import with the flags of the first rejected file', () => {
  const failures = [
    { ...createFailure(null, 'a.csv: x'), flags: ['--truncate-time', '--unit s'] },
    { ...createFailure(null, 'b.csv: x'), flags: ['--unit ms'] },
  ];
  const argv = ['import', 'a.csv', 'b.csv'];
  expect(suggestNextAction(createSummary({ failures, job: 'import' }), { ...facts, failures, argv })).toBe(
    'Import the files again with the missing flags: oddslake import a.csv b.csv --truncate-time --unit s',
  );
});

test('points at rejected rows', () => {
  const ticks = { fetched: 3, accepted: 0, duplicates: 0, conflicts: 0, quarantined: 3 };
  expect(suggestNextAction(createSummary({ ticks }), facts)).toBe(
    'Inspect the rejected rows: gzip -dc lake/.oddslake/quarantine/generation-000001.ndjson.gz | head',
  );
});

test('quotes words with special characters for a shell', () => {
  expect(quoteShellWord('KXBTC-26DEC0204-T28')).toBe('KXBTC-26DEC0204-T28');
  expect(quoteShellWord("it's $HOME")).toBe(`'it'\\''s $HOME'`);
});
