import { describe, expect, test } from 'vitest';
import { computeCompleteness } from '../../../src/archive/completeness/completeness.ts';
import {
  computeCut,
  decideByRules,
  decideForget,
  decideWatch,
} from '../../../src/archive/completeness/symbol-selection.ts';
import type { CoveredWindow, Evidence } from '../../../src/archive/format/coverage.ts';
import type { SymbolFacts } from '../../../src/archive/format/market.ts';
import {
  parseManifestSelection,
  type SymbolSelection,
  toManifestSelection,
  type UnselectedWindow,
} from '../../../src/archive/format/selection.ts';
import { dayMs } from '../../../src/base/window.ts';
import { factsOf } from '../format/facts.ts';

const never = Number.POSITIVE_INFINITY;
const ever = Number.NEGATIVE_INFINITY;
const hour = dayMs / 24;
const nowMs = 10 * dayMs + 12 * hour;

const covered = (from: number, to: number, evidence: Evidence = 'confirmed', fetchedAt = to): CoveredWindow => ({
  from,
  to,
  fetchedAt,
  origin: 'poll',
  evidence,
});
const given = (...coverage: CoveredWindow[]) => ({ coverage, nowMs });
const noRules = { include: [], exclude: [] };
const excludeKalshi = { include: [], exclude: ['venue:kalshi'] };
const kalshi = factsOf({ source: 'kalshi', polledFrom: 0 });
const open = (from: number, kind: UnselectedWindow['kind'], reason: string | null = null): UnselectedWindow => ({
  from,
  to: never,
  kind,
  reason,
  decidedAt: nowMs,
});
/** The facts after a decision. */
const applied = (facts: SymbolFacts, decision: SymbolSelection | null): SymbolFacts => {
  if (decision === null) return facts;
  const { watchedAt: _, unselected: __, ...rest } = facts;
  return { ...rest, ...decision };
};

describe('the lifetime of a symbol that is not collected any more ends', () => {
  test('where its coverage is proven', () => {
    expect(computeCut(given(covered(0, 10 * dayMs, 'stated', nowMs)))).toBe(10 * dayMs);
    const inferred = covered(9 * dayMs, 10 * dayMs, 'inferred', nowMs);
    expect(computeCut(given(covered(0, 9 * dayMs, 'stated', nowMs), inferred))).toBe(9 * dayMs);
    // A hole before stays expected.
    const parts = [covered(0, dayMs, 'stated', nowMs), covered(2 * dayMs, 3 * dayMs, 'stated', nowMs)];
    expect(computeCut(given(...parts))).toBe(3 * dayMs);
  });

  test('where it is covered, if nothing is proven', () => {
    expect(computeCut(given(covered(0, 9 * dayMs, 'inferred', nowMs)))).toBe(9 * dayMs);
  });

  test('before it began, if nothing is covered', () => {
    expect(computeCut(given())).toBe(ever);
  });

  test('at the latest now, whatever a wrong clock has recorded', () => {
    expect(computeCut(given(covered(0, 20 * dayMs, 'stated', 21 * dayMs)))).toBe(nowMs);
  });
});

describe('forget', () => {
  test('cuts the lifetime, and keeps reason and time', () => {
    const decision = decideForget(kalshi, 'too thin', given(covered(0, 10 * dayMs, 'stated', nowMs)));
    expect(decision).toEqual({ unselected: [open(10 * dayMs, 'forgotten', 'too thin')] });
  });

  test('before the first tick leaves nothing expected', () => {
    expect(decideForget(kalshi, null, given())).toEqual({ unselected: [open(ever, 'forgotten')] });
  });

  test('again changes nothing, unless the reason differs', () => {
    const facts = { ...kalshi, unselected: [{ ...open(dayMs, 'forgotten', 'thin'), decidedAt: 5 }] };
    expect(decideForget(facts, null, given())).toBeNull();
    expect(decideForget(facts, 'thin', given())).toBeNull();
    expect(decideForget(facts, 'dull', given())?.unselected).toEqual([{ ...facts.unselected[0]!, reason: 'dull' }]);
  });

  test('of an excluded symbol keeps since when it is not collected', () => {
    const facts = { ...kalshi, unselected: [{ ...open(dayMs, 'excluded'), decidedAt: 5 }] };
    const next = decideForget(facts, null, given())!;
    expect(next.unselected).toEqual([{ ...facts.unselected[0]!, kind: 'forgotten' }]);
    // Other settings do not bring it back.
    expect(decideByRules(applied(facts, next), noRules, false, given())).toBeNull();
  });

  test('of a watched symbol ends the watch', () => {
    expect(decideForget({ ...kalshi, watchedAt: 3 }, null, given())).toEqual({ unselected: [open(ever, 'forgotten')] });
  });

  test('of a suspended symbol ends its suspension for every count', () => {
    const suspended = { ...kalshi, suspendedAt: 5 * dayMs, ticks: 1 };
    const coverage = [covered(0, 4 * dayMs, 'stated', nowMs)];
    const facts = applied(suspended, decideForget(suspended, null, given(...coverage)));
    expect(judge([suspended], coverage).counts).toMatchObject({ suspended: 1 });
    const judged = judge([facts], coverage);
    expect(judged.counts).toMatchObject({ suspended: 0, forgotten: 1, live: 0 });
    expect(judged.days.get(3 * dayMs)?.state).toBe('complete');
    expect(judged.days.get(4 * dayMs)?.state).toBe('empty');
  });
});

describe('watch', () => {
  test('resumes a forgotten symbol now, and what lies between is not owed', () => {
    const forgotten = applied(kalshi, { unselected: [{ ...open(dayMs, 'forgotten'), decidedAt: 2 * dayMs }] });
    const decision = decideWatch(forgotten, true, given(covered(0, dayMs)))!;
    expect(decision).toEqual({ unselected: [{ ...forgotten.unselected![0]!, to: nowMs }], watchedAt: nowMs });
    const again = decideForget(applied(forgotten, decision), null, given(covered(0, dayMs)))!;
    // Nothing was collected since, so that the windows adjoin.
    expect(again.unselected!.map(({ from, to }) => [from, to])).toEqual([
      [dayMs, nowMs],
      [nowMs, never],
    ]);
  });

  test('again changes nothing', () => {
    expect(decideWatch({ ...kalshi, watchedAt: 3 }, true, given())).toBeNull();
  });

  test('of a symbol that is collected only keeps settings from leaving it out', () => {
    const decision = decideWatch(kalshi, true, given(covered(0, dayMs)));
    expect(decision).toEqual({ watchedAt: nowMs });
    expect(decideByRules(applied(kalshi, decision), excludeKalshi, false, given())).toBeNull();
  });

  test('of an excluded symbol starts its lifetime now', () => {
    const excluded = applied(kalshi, decideByRules(kalshi, excludeKalshi, false, given()));
    const decision = decideWatch(excluded, true, given());
    expect(decision).toMatchObject({ unselected: [{ from: ever, to: nowMs, kind: 'excluded' }], watchedAt: nowMs });
  });

  test('of a symbol that no list names starts its lifetime now, or after what was imported of it', () => {
    const unknown = factsOf({ listed: false, firstSeen: nowMs });
    expect(decideWatch(unknown, false, given())).toMatchObject({
      unselected: [{ from: ever, to: nowMs, kind: 'unlisted' }],
    });
    const imported = { ...unknown, firstTick: dayMs, lastTick: 2 * dayMs, ticks: 5 };
    expect(decideWatch(imported, false, given())?.unselected).toMatchObject([{ from: 2 * dayMs + 1, to: nowMs }]);
    // One that was polled by name goes on from there.
    expect(decideWatch({ ...unknown, polledFrom: dayMs }, false, given())).toEqual({ watchedAt: nowMs });
  });

  test('with a clock that was set back leaves no window without length', () => {
    const forgotten = applied(kalshi, { unselected: [open(nowMs + dayMs, 'forgotten')] });
    expect(decideWatch(forgotten, true, given())).toEqual({ unselected: [], watchedAt: nowMs });
  });
});

describe('settings', () => {
  test('leave out a symbol that they do not select, once, and take it in again', () => {
    const coverage = covered(0, 10 * dayMs, 'stated', nowMs);
    const out = decideByRules(kalshi, excludeKalshi, false, given(coverage))!;
    expect(out).toEqual({ unselected: [open(10 * dayMs, 'excluded')] });
    expect(decideByRules(applied(kalshi, out), excludeKalshi, false, given(coverage))).toBeNull();
    const back = decideByRules(applied(kalshi, out), noRules, false, { ...given(coverage), nowMs: 11 * dayMs })!;
    expect(back.unselected).toMatchObject([{ from: 10 * dayMs, to: 11 * dayMs }]);
  });

  test('change nothing about a symbol that they select', () => {
    expect(decideByRules(kalshi, noRules, false, given())).toBeNull();
    expect(decideByRules(kalshi, { include: ['venue:kalshi'], exclude: [] }, false, given())).toBeNull();
  });

  test('do not affect a symbol that `symbols` names, unless a user forgot it', () => {
    expect(decideByRules(kalshi, excludeKalshi, true, given())).toBeNull();
    const excluded = applied(kalshi, { unselected: [open(dayMs, 'excluded')] });
    expect(decideByRules(excluded, excludeKalshi, true, given())?.unselected).toMatchObject([{ to: nowMs }]);
    const forgotten = applied(kalshi, { unselected: [open(dayMs, 'forgotten')] });
    expect(decideByRules(forgotten, noRules, true, given())).toBeNull();
    expect(judge([forgotten], [covered(0, dayMs)], new Set(['S']))).toMatchObject({ live: [], watermark: null });
  });
});

/** The completeness of symbols named S, T, …, of which the first has coverage, at `nowMs`. */
const judge = (symbols: SymbolFacts[], coverage: CoveredWindow[], namedSymbols: ReadonlySet<string> | null = null) =>
  computeCompleteness(
    {
      symbols,
      coverage: new Map([['S', coverage]]),
      namedSymbols,
      owed: new Map([['S', [{ from: 4 * dayMs, to: 6 * dayMs, kind: 'failed', reason: 'HTTP 500', since: 0 }]]]),
      nowMs,
      lifetimeRules: { lookbackMs: 0, lingerMs: dayMs },
    },
    { days: [...Array(10).keys()].map((n) => n * dayMs), window: { from: 0, to: nowMs } },
  );

describe('completeness', () => {
  const coverage = [covered(0, 4 * dayMs + 6 * hour, 'stated', nowMs)];
  const failing = factsOf({ opensAt: 0, polledFrom: 0, ticks: 1 });

  test('expects a symbol until it is forgotten, and changes no day before', () => {
    const before = judge([failing], coverage);
    expect(before.gaps.map(({ reason }) => reason)).toEqual(['failed', 'never asked']);
    expect(before.watermark).toBe(4 * dayMs + 6 * hour);
    const forgotten = applied(failing, decideForget(failing, null, given(...coverage)));
    const now = judge([forgotten], coverage);
    for (const day of [0, 1, 2, 3].map((n) => n * dayMs)) expect(now.days.get(day)).toEqual(before.days.get(day));
    expect(now.days.get(4 * dayMs)).toMatchObject({ state: 'complete', expected: 1, covered: 1 });
    expect(now.days.get(5 * dayMs)).toMatchObject({ state: 'empty' });
    expect(now).toMatchObject({ gaps: [], live: [], watermark: null, reached: null });
    expect(now.counts).toMatchObject({ state: 'complete', forgotten: 1, live: 0 });
    expect(now.counts).not.toHaveProperty('excluded');
  });

  test('goes on from the time at which a forgotten symbol is watched', () => {
    const forgotten = applied(failing, decideForget(failing, null, given(...coverage)));
    const watched = applied(forgotten, decideWatch(forgotten, true, { ...given(...coverage), nowMs: 8 * dayMs }));
    const found = judge([watched], coverage);
    expect(found.gaps).toEqual([{ symbol: 'S', from: 8 * dayMs, to: nowMs, reason: 'never asked' }]);
    expect(found.watermark).toBe(8 * dayMs);
    expect([4, 5, 7, 8].map((n) => found.days.get(n * dayMs)?.state)).toEqual([
      'complete',
      'empty',
      'empty',
      'incomplete',
    ]);
    expect(found.counts).not.toHaveProperty('forgotten');
    // The poll continues there, at once.
    const polled = judge([watched], [...coverage, covered(8 * dayMs, nowMs, 'stated')]);
    expect(polled).toMatchObject({ gaps: [], watermark: nowMs });
  });

  test('does not count what is lost of a forgotten symbol as forgotten', () => {
    const forgotten = applied(failing, decideForget(failing, null, given(...coverage)));
    const lost = [{ dataset: 'ticks', symbol: 'S', from: 7 * dayMs, to: 7 * dayMs + hour, ticks: 3 }];
    const { gaps } = computeCompleteness(
      {
        symbols: [forgotten],
        coverage: new Map([['S', coverage]]),
        namedSymbols: null,
        lost,
        nowMs,
        lifetimeRules: { lookbackMs: 0, lingerMs: dayMs },
      },
      { window: { from: 0, to: nowMs } },
    );
    expect(gaps).toMatchObject([{ reason: 'lost', from: 7 * dayMs }]);
  });

  test('counts an excluded symbol only as long as the lists call it active', () => {
    const excluded = applied(failing, { unselected: [open(dayMs, 'excluded')] });
    expect(judge([excluded], []).counts).toMatchObject({ excluded: 1 });
    expect(judge([{ ...excluded, inactiveSince: 5 }], []).counts).not.toHaveProperty('excluded');
  });
});

test('the manifest lists decisions in few bytes, and gives them back', () => {
  expect(toManifestSelection(new Map())).toEqual({});
  const selections = new Map<string, SymbolSelection>([
    ['A', { unselected: [open(ever, 'excluded')] }],
    ['B', { unselected: [open(ever, 'excluded')] }],
    [
      'C',
      { unselected: [{ ...open(3, 'forgotten', 'thin'), to: 5, decidedAt: 4 }, open(7, 'forgotten')], watchedAt: 5 },
    ],
    ['D', { unselected: [], watchedAt: 9 }],
  ]);
  const { selection } = toManifestSelection(selections);
  expect(selection!.not_collected).toEqual([
    { kind: 'forgotten', from: 3, to: 5, decided_at: 4, reason: 'thin', symbols: ['C'] },
    { kind: 'excluded', from: null, to: null, decided_at: nowMs, symbols: ['A', 'B'] },
    { kind: 'forgotten', from: 7, to: null, decided_at: nowMs, symbols: ['C'] },
  ]);
  const stored = JSON.parse(JSON.stringify({ selection })) as { selection: NonNullable<typeof selection> };
  expect(parseManifestSelection(stored)).toEqual(selections);
  expect(toManifestSelection(parseManifestSelection(stored))).toEqual({ selection });
});
