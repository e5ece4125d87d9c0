import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { readClosedSymbols } from '../../src/archive/journal/closed-symbols.ts';
import { retractCoverage } from '../../src/archive/journal/coverage-store.ts';
import { acceptWindows, recordLost, recordOwed } from '../../src/archive/journal/gap-records.ts';
import { recordSelections } from '../../src/archive/journal/selection-store.ts';
import { clearState } from '../../src/archive/journal/state.ts';
import { readAllSymbols, recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import { closeFinalSymbols, readCurrentState } from '../../src/archive/known-state.ts';
import { computeCompletenessOf, readStatus } from '../../src/archive/read/status.ts';
import { checkAsyncProperty } from '../harness/properties.ts';
import { share } from '../harness/share.ts';
import { answer, append, day0, dayMs, hourMs, judged, market, opened, publishedRows, publishNow } from './scratch.ts';

/** Long after the lives of all symbols. */
const later = day0 + 60 * dayMs;
const resolved = (symbol: string, day: number, rest = {}) =>
  market(symbol, { isActive: false, opensAt: day, resolvedAt: day + dayMs, outcome: 1, ...rest });
const countClosed = (archive: Archive): number => readClosedSymbols(archive.state.db, Number.POSITIVE_INFINITY).count;

/** A symbol that lived for a day, and is covered by proof. */
function addDead(archive: Archive, symbol: string, day = day0): void {
  recordMarkets(archive.state.db, [resolved(symbol, day)], day + dayMs, false);
  append(archive, answer(symbol, [[day + hourMs, 0.5]], { windows: [{ from: day, to: day + dayMs }] }));
}

/** What an archive says of itself, at a time. */
function describeArchive(archive: Archive, nowMs: number): object {
  const { archive: _, last_runs: __, published, ...status } = readStatus(archive, judged, nowMs);
  const { days, watermark, reached, completeness, lost, accepted } = archive.readManifest();
  const rows = publishedRows(archive.layout.root, 'symbols');
  return { status, ticks: published.ticks, days, watermark, reached, completeness, lost, accepted, rows };
}

/** What is judged without regard to what is closed. */
const describeUnclosed = (archive: Archive, nowMs: number) => {
  const { final: _, ...all } = computeCompletenessOf(
    archive,
    readCurrentState(archive, judged, nowMs, readAllSymbols(archive.state.db)),
    nowMs,
  );
  return all;
};
const describeJudged = (archive: Archive, nowMs: number) => {
  const { final: _, ...all } = computeCompletenessOf(archive, readCurrentState(archive, judged, nowMs), nowMs);
  return all;
};

/** What happens to one of few symbols, at one of few times. */
const anyStep = fc.record({
  kind: fc.constantFrom(
    ...([
      'live',
      'die',
      'delist',
      'cover',
      'cover',
      'cover',
      'infer',
      'late',
      'withdraw',
      'publish',
      'publish',
    ] as const),
    ...(['owe', 'lose', 'accept', 'forget', 'watch', 'list', 'wait'] as const),
  ),
  symbol: fc.constantFrom('A', 'B', 'C', '🚀'),
  day: fc.integer({ min: 0, max: 3 }),
  hour: fc.integer({ min: 0, max: 23 }),
});
type Step = typeof anyStep extends fc.Arbitrary<infer S> ? S : never;

/** Applies a step to an archive. @returns the time after it */
async function apply(archive: Archive, { kind, symbol, day, hour }: Step, nowMs: number): Promise<number> {
  const { db } = archive.state;
  const from = day0 + day * dayMs;
  const t = from + hour * hourMs;
  const window = { symbol, from: t, to: t + hourMs };
  const at = { observedAt: nowMs, windows: [] };
  const claim = { from, to: from + dayMs + hour * hourMs, fetchedAt: nowMs };
  if (kind === 'live') recordMarkets(db, [market(symbol, { opensAt: from })], nowMs, false);
  if (kind === 'die') recordMarkets(db, [resolved(symbol, from)], nowMs, false);
  if (kind === 'list')
    recordMarkets(
      db,
      [{ ...market(symbol), isActive: false, resolvedAt: day === 0 ? nowMs + dayMs : null }],
      nowMs,
      false,
    );
  if (kind === 'delist') recordMarkets(db, [market('other')], nowMs, true);
  if (kind === 'cover') append(archive, answer(symbol, [[t, 0.5]], { ...at, windows: [claim] }));
  if (kind === 'infer') append(archive, answer(symbol, [], { ...at, covered: [{ ...claim, evidence: 'inferred' }] }));
  if (kind === 'late') append(archive, answer(symbol, [[t + 1, 0.25]], { ...at, windows: [] }));
  if (kind === 'withdraw') append(archive, answer(symbol, [], { ...at, withdrawn: [window] }));
  if (kind === 'owe')
    recordOwed(db, [{ symbol, covered: [], failures: [{ ...window, kind: 'failed', reason: 'HTTP 500' }] }], nowMs);
  if (kind === 'lose') recordLost(db, [{ dataset: 'ticks', ...window, ticks: 1 }], nowMs);
  if (kind === 'accept') acceptWindows(db, [{ ...window, reason: 'so be it', acceptedAt: nowMs, reportedAt: null }]);
  if (kind === 'forget')
    recordSelections(
      db,
      new Map([
        [
          symbol,
          {
            unselected: [{ from: t, to: Number.POSITIVE_INFINITY, kind: 'forgotten', reason: null, decidedAt: nowMs }],
          },
        ],
      ]),
    );
  if (kind === 'watch') recordSelections(db, new Map([[symbol, { watchedAt: nowMs }]]));
  if (kind === 'publish') await publishNow(archive, nowMs, 'run', { candles: [], judges: hour % 2 === 0 });
  return nowMs + (kind === 'wait' ? 8 * dayMs : hourMs);
}

describe('an archive whose final symbols are closed', () => {
  test('says in each state what one without closed symbols says', async () => {
    let closed = 0;
    await checkAsyncProperty([fc.array(anyStep, { minLength: 5, maxLength: 40 })], share * 60, async (steps) => {
      const [closing, plain] = [opened(), opened()];
      let nowMs = day0 + 10 * dayMs;
      for (const archive of [closing, plain]) for (const symbol of ['A', 'B']) addDead(archive, symbol);
      for (const step of [
        { ...steps[0]!, kind: 'publish' as const },
        ...steps,
        { ...steps[0]!, kind: 'publish' as const },
      ]) {
        await apply(plain, step, nowMs);
        nowMs = await apply(closing, step, nowMs);
        if (step.hour % 3 !== 0) closeFinalSymbols(closing, judged, nowMs);
        closed = Math.max(closed, countClosed(closing));
        expect(describeArchive(closing, nowMs)).toEqual(describeArchive(plain, nowMs));
        expect(describeJudged(closing, nowMs)).toEqual(describeUnclosed(closing, nowMs));
      }
      closing.close();
      plain.close();
    });
    expect(closed).toBeGreaterThan(1);
  });

  test('counts a closed symbol that lived on several days on each of them', async () => {
    const archive = opened();
    const from = day0 + hourMs;
    recordMarkets(archive.state.db, [resolved('A', from, { resolvedAt: day0 + 3 * dayMs })], day0 + 3 * dayMs, false);
    append(archive, answer('A', [[from, 0.5]], { windows: [{ from, to: day0 + 3 * dayMs }] }));
    await publishNow(archive, later);
    closeFinalSymbols(archive, judged, later);
    expect(countClosed(archive)).toBe(1);
    const { manifest } = await publishNow(archive, later, 'run', { judges: true });
    const complete = { state: 'complete', expected: 1, covered: 1, missing: [], exceptions: 0 };
    expect(manifest.days).toEqual({ '2026-06-01': complete, '2026-06-02': complete, '2026-06-03': complete });
  });

  const changes: Readonly<Record<string, (archive: Archive) => void>> = {
    'a late tick': (archive) => append(archive, answer('A', [[day0 + 2 * hourMs, 0.1]], { windows: [] })),
    'more coverage': (archive) =>
      append(archive, answer('A', [], { windows: [{ from: day0 - dayMs, to: day0 }], observedAt: later })),
    'a withdrawal': (archive) => append(archive, answer('A', [], { withdrawn: [{ from: day0, to: day0 + hourMs }] })),
    'a changed record': ({ state }) =>
      recordMarkets(state.db, [resolved('A', day0, { resolvedAt: day0 + 2 * dayMs })], later, false),
    'a listing as active': ({ state }) => recordMarkets(state.db, [market('A', { opensAt: day0 })], later, false),
    'a failed request': ({ state }) =>
      recordOwed(
        state.db,
        [{ symbol: 'A', covered: [], failures: [{ from: 0, to: 1, kind: 'failed', reason: 'HTTP 500' }] }],
        later,
      ),
    'a loss': ({ state }) =>
      recordLost(state.db, [{ dataset: 'ticks', symbol: 'A', from: day0, to: day0 + 1, ticks: 1 }], later),
    'coverage that a repair takes back': ({ state }) => retractCoverage(state.db, 'A', [{ from: day0, to: day0 + 1 }]),
    'a user who watches it': ({ state }) => recordSelections(state.db, new Map([['A', { watchedAt: later }]])),
  };
  test.for(Object.keys(changes))('opens a symbol again by %s', async (name) => {
    const archive = opened();
    addDead(archive, 'A');
    addDead(archive, 'B');
    await publishNow(archive, later);
    closeFinalSymbols(archive, judged, later);
    expect(countClosed(archive)).toBe(2);
    changes[name]!(archive);
    expect(countClosed(archive)).toBe(1);
    expect(describeJudged(archive, later)).toEqual(describeUnclosed(archive, later));
  });

  test('opens a symbol again that a list names after its planned resolution', async () => {
    const archive = opened();
    addDead(archive, 'A');
    const planned = resolved('A', day0, { outcome: null, resolvedAt: later + 1 });
    recordMarkets(archive.state.db, [planned], day0 + dayMs, false);
    archive.state.db.run('update symbols set outcome = null, resolved_at = ?', later + 1);
    await publishNow(archive, later);
    closeFinalSymbols(archive, judged, later);
    expect(countClosed(archive)).toBe(1);
    recordMarkets(archive.state.db, [planned], later + 2, false);
    expect(countClosed(archive)).toBe(0);
    expect(describeJudged(archive, later + 3)).toEqual(describeUnclosed(archive, later + 3));
  });

  test('keeps a symbol closed that a list only names again', async () => {
    const archive = opened();
    addDead(archive, 'A');
    await publishNow(archive, later);
    closeFinalSymbols(archive, judged, later);
    recordMarkets(archive.state.db, [resolved('A', day0)], later, true);
    expect(countClosed(archive)).toBe(1);
    await publishNow(archive, later, 'run', { judges: true });
    expect(publishedRows(archive.layout.root, 'symbols')[0]![11]).toBe(later);
  });

  test('closes nothing that lacks proof, may still be polled, or has journaled data', async () => {
    const archive = opened();
    const day = { from: day0, to: day0 + dayMs };
    for (const symbol of ['gap', 'inferred', 'journaled'])
      recordMarkets(archive.state.db, [resolved(symbol, day0)], day.to, false);
    append(archive, answer('gap', [[day0, 0.5]]));
    append(archive, answer('inferred', [], { covered: [{ ...day, fetchedAt: later, evidence: 'inferred' }] }));
    await publishNow(archive, later);
    append(archive, answer('journaled', [], { windows: [day] }));
    addDead(archive, 'young', later - 2 * dayMs);
    closeFinalSymbols(archive, judged, later);
    expect(countClosed(archive)).toBe(0);
    await publishNow(archive, later);
    closeFinalSymbols(archive, judged, later);
    expect(countClosed(archive)).toBe(1);
  });

  test('counts nothing as closed after the state is cleared to be rebuilt, whose deletions fire the same triggers', async () => {
    const archive = opened();
    const { db } = archive.state;
    for (const symbol of ['A', 'B']) addDead(archive, symbol);
    await publishNow(archive, later);
    closeFinalSymbols(archive, judged, later);
    expect(countClosed(archive)).toBe(2);
    db.transaction(() => clearState(db));
    expect(readClosedSymbols(db, Number.POSITIVE_INFINITY)).toEqual({ count: 0, newest: null, changes: new Map() });
  });

  test('leaves a symbol open whose last tick lies beyond its coverage, so that the time that is covered last is not its own', async () => {
    const archive = opened();
    const noon = day0 + 12 * hourMs;
    recordMarkets(archive.state.db, [market('live', { opensAt: day0 })], day0, false);
    append(archive, answer('live', [[day0, 0.5]], { windows: [{ from: day0, to: noon }] }));
    recordMarkets(archive.state.db, [{ ...market('X'), isActive: false, opensAt: day0 }], day0, false);
    const excluded = {
      from: day0,
      to: Number.POSITIVE_INFINITY,
      kind: 'excluded',
      reason: null,
      decidedAt: day0,
    } as const;
    recordSelections(archive.state.db, new Map([['X', { unselected: [excluded] }]]));
    append(archive, answer('X', [[noon + 3 * hourMs, 0.5]], { windows: [] }));
    const nowMs = noon + 4 * hourMs;
    await publishNow(archive, nowMs);
    closeFinalSymbols(archive, judged, nowMs);
    expect(describeJudged(archive, nowMs).days.get(day0)).toMatchObject({ expected: 1, covered: 1 });
    expect(describeJudged(archive, nowMs)).toEqual(describeUnclosed(archive, nowMs));
  });

  test('reads all symbols when the lifetime rules change, and the next night reopens the closed ones', async () => {
    const archive = opened();
    addDead(archive, 'A');
    await publishNow(archive, later);
    closeFinalSymbols(archive, judged, later);
    const others = { ...judged, lifetimeRules: { ...judged.lifetimeRules, lingerMs: 90 * dayMs } };
    expect(readCurrentState(archive, others, later)).toMatchObject({ symbols: [{ symbol: 'A' }], closed: undefined });
    expect(readCurrentState(archive, judged, later)).toMatchObject({ symbols: [], closed: { count: 1 } });
    closeFinalSymbols(archive, others, later);
    expect(countClosed(archive)).toBe(0);
  });
});
