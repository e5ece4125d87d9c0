import { expect, test } from 'vitest';
import {
  DamageError,
  DiskFullError,
  exitCodes,
  OddslakeError,
  UpstreamError,
  UsageError,
} from '../../../src/base/errors.ts';
import type { FailureKind, RunFailure } from '../../../src/collector/run/judge-run.ts';
import { emptyFacts, type RunFacts, summarize } from '../../../src/collector/run/summary.ts';
import { InterruptedError } from '../../../src/context/context.ts';
import type { Finding } from '../../../src/contract/finding.ts';

const createSummary = (facts: Partial<RunFacts> = {}) =>
  summarize({
    ...emptyFacts,
    version: '0',
    job: 'nightly',
    run_id: 'run',
    started_at: Date.UTC(2026, 10, 22, 3),
    finished_at: Date.UTC(2026, 10, 22, 4),
    strict: false,
    hasUpstreamResponded: true,
    thrown: undefined,
    argv: ['nightly', '--config', "it's.yaml"],
    ...facts,
  });
const find = (facts: Partial<RunFacts>): readonly Finding[] => createSummary(facts).findings;

const createFailure = (symbol: string | null, reason: string, kind?: FailureKind): RunFailure => ({
  symbol,
  reason,
  ...(kind !== undefined && { kind }),
  from: symbol === null ? null : Date.UTC(2026, 10, 21),
  to: symbol === null ? null : Date.UTC(2026, 10, 21, 1),
});

const upstream = (failure: 'credential' | 'unreachable'): UpstreamError =>
  new UpstreamError('markets', { failure, reason: 'no' });

const rerun = "oddslake nightly --config 'it'\\''s.yaml'";

test('a run without problems has no findings', () => {
  expect(createSummary()).toMatchObject({ findings: [], verdict: { state: 'ok', command: null } });
});

test.each([
  [new DiskFullError('The disk is full.'), 'disk full', rerun],
  [Object.assign(new Error('write'), { code: 'ENOSPC' }), 'disk full', rerun],
  [upstream('credential'), 'credential', rerun],
  [upstream('unreachable'), 'unreachable', rerun],
  [new DamageError('x'), 'damage', 'oddslake verify --repair'],
  [new TypeError('x'), 'error', `${rerun} --log-level debug`],
  [new UsageError('x'), 'settings', null],
] as const)('%s ended the run: %s', (thrown, kind, command) => {
  const summary = createSummary({ thrown, hasUpstreamResponded: false });
  expect(summary.findings).toMatchObject([{ kind, severity: 'action_required', command }]);
  expect(summary.verdict).toMatchObject({ state: 'action_required', command });
  expect(summary.verdict.text).not.toMatch(/\.$/);
});

test('a run that was stopped, or could not publish, is a warning', () => {
  expect(find({ thrown: new InterruptedError('SIGTERM') })).toMatchObject([
    {
      kind: 'interrupted',
      severity: 'warning',
      message: 'the nightly was stopped; what it accepted is kept',
      command: rerun,
    },
  ]);
  expect(find({ thrown: new OddslakeError(exitCodes.busy, 'x') })).toMatchObject([
    { kind: 'busy', severity: 'warning', command: 'oddslake publish' },
  ]);
});

test('failed windows are one finding, also those beyond the 20 that a summary lists', () => {
  const failures = Array.from({ length: 40 }, (_, i) => ({
    ...createFailure(i % 2 === 0 ? 'A' : "B'S", 'HTTP 500'),
    from: Date.UTC(2026, 10, 21, 0, i),
    to: Date.UTC(2026, 10, 21, 0, i + 1),
  }));
  const summary = createSummary({ failures });
  expect(summary.failures).toHaveLength(20);
  expect(summary.findings).toEqual([
    {
      kind: 'failing symbols',
      severity: 'warning',
      message: '2 symbols failed: HTTP 500',
      command: `oddslake backfill --from 2026-11-21T00:00:00Z --to 2026-11-21T00:40:00Z --symbol A --symbol 'B'\\''S'`,
      symbols: { count: 2, names: ['A', "B'S"] },
    },
  ]);
  const mixed = [createFailure('A', 'HTTP 404'), createFailure('A', 'HTTP 500'), createFailure('A', 'HTTP 500')];
  expect(find({ failures: mixed })[0]!.message).toBe('1 symbol failed: A: HTTP 500 (and 1 other reason)');
  const six = ['A', 'B', 'C', 'D', 'E', 'F'].map((symbol) => createFailure(symbol, 'HTTP 500'));
  expect(find({ failures: six })[0]!.command).toMatch(/ --to 2026-11-21T01:00:00Z$/);
});

test.each<[FailureKind, string | null]>([
  ['accepted', 'oddslake gaps'],
  ['expired', 'oddslake gaps'],
  ['lost', 'oddslake verify --repair'],
  ['suspended', 'oddslake symbols retry'],
  ['market list', 'oddslake markets'],
  ['order book', 'oddslake orderbook'],
  ['push', 'oddslake push'],
  ['address', rerun],
  ['source', rerun],
  ['input file', null],
  ['unrecoverable', null],
])('each kind of failure has its command, whatever its text says: %s', (kind, command) => {
  for (const symbol of ['A', null])
    expect(find({ failures: [createFailure(symbol, 'lost: x.', kind)] })).toMatchObject([
      { severity: 'warning', message: symbol === null ? 'lost: x' : '1 symbol: A: lost: x', command },
    ]);
});

test('repeats an import with the flags of the first rejected file', () => {
  const failures = [
    { ...createFailure(null, 'a.csv: x', 'input file'), flags: ['--truncate-time', '--unit s'] },
    { ...createFailure(null, 'b.csv: x', 'input file'), flags: ['--unit ms'] },
  ];
  const argv = ['import', 'a.csv', 'b.csv'];
  expect(find({ failures, job: 'import', argv })[0]!.command).toBe(
    'oddslake import a.csv b.csv --truncate-time --unit s',
  );
});

test('known gaps, unused columns and a few rejected rows need nothing, and many rows are a warning', () => {
  for (const kind of ['known gaps', 'unused columns', 'possibly downsampled'] as const)
    expect(find({ warnings: [{ kind, text: 'expired' }] })).toMatchObject([{ severity: 'info' }]);
  const warnings = [{ kind: 'rejected rows', text: '1 tick was quarantined.' }] as const;
  const reject = (fetched: number) =>
    find({ warnings, ticks: { fetched, accepted: fetched - 1, duplicates: 0, conflicts: 0, quarantined: 1 } });
  expect(reject(100)).toMatchObject([{ severity: 'info', message: '1 tick was quarantined' }]);
  expect(reject(99)).toMatchObject([{ severity: 'warning' }]);
});
