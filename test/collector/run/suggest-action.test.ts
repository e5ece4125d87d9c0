import { expect, test } from 'vitest';
import {
  DamageError,
  DiskFullError,
  exitCodes,
  OddslakeError,
  UpstreamError,
  UsageError,
} from '../../../src/base/errors.ts';
import { type ActionFacts, quoteShellWord, suggestNextAction } from '../../../src/collector/run/suggest-action.ts';
import {
  emptyBookCounts,
  type FailureLine,
  type RunFacts,
  type Summary,
  summarize,
} from '../../../src/collector/run/summary.ts';
import { InterruptedError } from '../../../src/context/context.ts';

const summaryOf = (facts: Partial<RunFacts> = {}): Summary =>
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
  hasSharpDrop: false,
  longOverdueSymbols: [],
  flags: ' --output lake',
  argv: null,
  quarantinePath: 'lake/.oddslake/quarantine/generation-000001.ndjson.gz',
};

const after = (thrown: unknown, rest: Partial<RunFacts> = {}): string | null =>
  suggestNextAction(summaryOf({ thrown, ...rest }), { ...facts, thrown });

const at = (symbol: string | null, reason: string): FailureLine => ({
  symbol,
  reason,
  from: symbol === null ? null : Date.UTC(2026, 10, 21),
  to: symbol === null ? null : Date.UTC(2026, 10, 21, 1),
});

const upstream = (failure: 'credential' | 'unreachable'): UpstreamError =>
  new UpstreamError('markets', { failure, reason: 'no' });

test('nothing is to be done after a run without a flaw', () => {
  expect(suggestNextAction(summaryOf(), facts)).toBeNull();
});

test('what ended a run decides on what to do', () => {
  expect(after(new DiskFullError('The disk is full.'))).toBe(
    'Free some space on the disk, then run it again: oddslake nightly --output lake',
  );
  expect(after(upstream('credential'))).toBe(
    'Set a key that the service takes, then run it again: oddslake nightly --output lake',
  );
  expect(after(upstream('unreachable'), { hasUpstreamResponded: false })).toMatch(
    /can be reached.*: oddslake nightly --output lake$/,
  );
  expect(after(new DamageError('x'))).toBe('Mend the archive: oddslake verify --repair --output lake');
  expect(after(new OddslakeError(exitCodes.busy, 'x'))).toMatch(/: oddslake publish --output lake$/);
  expect(after(new InterruptedError('SIGTERM'))).toBe('Go on where this run stopped: oddslake nightly --output lake');
  expect(after(new TypeError('x'))).toMatch(/: oddslake nightly --output lake --log-level debug$/);
  expect(after(new UsageError('x'))).toBeNull();
});

test('windows that are missing are asked for by a backfill of just those', () => {
  const one = [at('A', 'answered 500')];
  expect(suggestNextAction(summaryOf({ failures: one }), { ...facts, failures: one })).toBe(
    'The next run asks again for what is missing, or now: oddslake backfill --from 2026-11-21T00:00:00Z --to 2026-11-21T01:00:00Z --symbol A --output lake',
  );
  const two = [...one, at("B'S", 'answered 500')];
  expect(suggestNextAction(summaryOf({ failures: two, job: 'backfill' }), { ...facts, failures: two })).toBe(
    'Ask again for what is missing: oddslake backfill --from 2026-11-21T00:00:00Z --to 2026-11-21T01:00:00Z --output lake',
  );
});

test('the windows that a summary has no room for are asked for, too', () => {
  const failures = Array.from({ length: 40 }, (_, i) => ({
    ...at('A', 'answered 500'),
    from: Date.UTC(2026, 10, 21, 0, i),
    to: Date.UTC(2026, 10, 21, 0, i + 1),
  }));
  const summary = summaryOf({ failures });
  expect(summary.failures).toHaveLength(20);
  expect(suggestNextAction(summary, { ...facts, failures })).toMatch(
    / --from 2026-11-21T00:00:00Z --to 2026-11-21T00:40:00Z --symbol A --output lake$/,
  );
});

test('the rest of what is incomplete has its command, what is missing first', () => {
  const next = (failures: readonly FailureLine[], rest: Partial<RunFacts> = {}, more: Partial<ActionFacts> = {}) =>
    suggestNextAction(summaryOf({ failures, ...rest }), { ...facts, failures, ...more });
  expect(next([at('A', 'lost: 3 of 7 ticks came back')])).toBe('See what stays lost: oddslake gaps --output lake');
  expect(next([at(null, 'ticks fell by 90 %')], {}, { hasSharpDrop: true })).toMatch(
    /: oddslake backfill --force --from 2026-11-21 --to 2026-11-23 --output lake$/,
  );
  expect(next([at(null, 'markets: answered 500')])).toMatch(/: oddslake markets --output lake$/);
  expect(next([at('A', 'order book: x')], { orderbooks: { ...emptyBookCounts, failed: 1 } })).toMatch(
    /: oddslake orderbook/,
  );
  expect(next([at(null, 'ticks fell by 90 %'), at('A', 'answered 500')], {}, { hasSharpDrop: true })).toMatch(
    /--symbol|--from/,
  );
});

test('what is worth a look: many conflicts, then what was set aside, then what is overdue', () => {
  const none = { count: 0, names: [] };
  const night = (conflicts: number, median: number | null): Partial<RunFacts> => ({
    night: {
      nights: 7,
      ticks: { new: { count: 1, median: 1 }, late: { count: 0, median: 0 }, conflicts: { count: conflicts, median } },
      markets: { new: none, delisted: none, resolved: none, overdue: none },
      covered: { symbols: 1, gap_minutes: 0 },
      fetched_late: none,
    },
  });
  const aside = { ticks: { fetched: 3, accepted: 0, duplicates: 0, conflicts: 0, quarantined: 3 } };
  const late = { ...facts, longOverdueSymbols: ['A B'] };
  expect(suggestNextAction(summaryOf({ ...night(400, 100), ...aside }), late)).toMatch(
    /conflicts: oddslake sql ".*" --output lake$/,
  );
  for (const [count, median] of [
    [300, 100],
    [99, 0],
    [400, null],
  ] as const)
    expect(suggestNextAction(summaryOf({ ...night(count, median), ...aside }), late)).toBe(
      'See what was set aside, and why: gzip -dc lake/.oddslake/quarantine/generation-000001.ndjson.gz | head',
    );
  expect(suggestNextAction(summaryOf(night(0, 0)), late)).toMatch(/: oddslake symbols 'A B' --output lake$/);
});

test('a word that a shell would take apart is quoted', () => {
  expect(quoteShellWord('KXBTC-26DEC0204-T28')).toBe('KXBTC-26DEC0204-T28');
  expect(quoteShellWord("it's $HOME")).toBe(`'it'\\''s $HOME'`);
});
