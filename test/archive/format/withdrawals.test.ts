import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  type CoveredWindow,
  isProven,
  joinForPublishing,
  overlayCoverage,
  withdrawCoverage,
} from '../../../src/archive/format/coverage.ts';
import {
  findWithdrawn,
  overlayWithdrawals,
  type PublishedWithdrawal,
  removeOlderClaims,
} from '../../../src/archive/format/withdrawals.ts';
import { dayMs, isWithin, overlaps } from '../../../src/base/window.ts';
import { evidenceKinds } from '../../../src/contract/raw-page.ts';
import { checkProperty } from '../../harness/properties.ts';

const withdrawal = fc
  .tuple(fc.constantFrom('A', 'B', null), fc.nat(3), fc.nat(20), fc.integer({ min: 1, max: 10 }), fc.nat(5))
  .map(([symbol, day, from, length, at]): PublishedWithdrawal => {
    const start = day * dayMs + from;
    return { symbol, from: start, to: start + length, at };
  });

/** The last withdrawal of a moment that concerns a symbol; undefined if there is none. */
const findLast = (list: readonly PublishedWithdrawal[], symbol: string | null, t: number): number | undefined =>
  list
    .filter((one) => one.symbol === symbol && isWithin(t, one))
    .reduce<number | undefined>((last, { at }) => Math.max(last ?? at, at), undefined);

test('each moment keeps its last withdrawal, in whatever order they come', () => {
  checkProperty([fc.array(withdrawal, { maxLength: 12 })], 200, (list) => {
    const overlaid = overlayWithdrawals(list);
    expect(overlayWithdrawals(list.toReversed())).toEqual(overlaid);
    expect(overlayWithdrawals([...overlaid, ...list])).toEqual(overlaid);
    for (const { from } of list)
      for (const t of [from - 1, from, from + 4])
        for (const symbol of ['A', 'B', null]) expect(findLast(overlaid, symbol, t)).toBe(findLast(list, symbol, t));
  });
});

test('a long list rejects more, never less', () => {
  checkProperty([fc.array(withdrawal, { maxLength: 12 }), fc.nat(3)], 200, (list, countMax) => {
    const bounded = overlayWithdrawals(list, new Map(), countMax);
    expect(bounded.filter(({ symbol }) => symbol !== null).length).toBeLessThanOrEqual(countMax);
    expect(overlayWithdrawals(list.toReversed(), new Map(), countMax)).toEqual(bounded);
    for (const { from, symbol } of list) {
      const last = [symbol, null].map((name) => findLast(bounded, name, from) ?? -1);
      expect(Math.max(...last)).toBeGreaterThanOrEqual(findLast(list, symbol, from)!);
    }
  });
});

const proof = { from: 0, to: 20, fetchedAt: 5, origin: 'poll', evidence: 'stated' } as const;

test('what was fetched later stays, and what this archive knows is not withdrawn again', () => {
  expect(findWithdrawn([proof], [{ from: 5, to: 30, at: 5 }], [])).toEqual([{ from: 5, to: 20 }]);
  expect(findWithdrawn([proof], [{ from: 5, to: 30, at: 4 }], [])).toEqual([]);
  const known = { from: 5, to: 10 };
  expect(findWithdrawn([proof], [{ from: 5, to: 30, at: 6 }], [{ ...known, at: 6 }])).toEqual([{ from: 10, to: 20 }]);
  expect(findWithdrawn([proof], [{ from: 5, to: 30, at: 6 }], [{ ...known, at: 5 }])).toEqual([{ from: 5, to: 20 }]);
});

test('a long list first drops what was proven again later, not what was inferred or proven before', () => {
  const bound = (at: number, covered: CoveredWindow = proof) =>
    overlayWithdrawals([{ symbol: 'A', from: 10, to: 30, at }], new Map([['A', [covered]]]), 0);
  const day = { symbol: null, from: 0, to: dayMs };
  expect(bound(5, { ...proof, to: 30 })).toEqual([]);
  expect(bound(5)).toEqual([{ ...day, at: 5 }]);
  expect(bound(6, { ...proof, to: 30 })).toEqual([{ ...day, at: 6 }]);
  expect(bound(5, { ...proof, to: 30, evidence: 'inferred' })).toEqual([{ ...day, at: 5 }]);
  // A short list keeps it: another archive may still have older proof.
  const listed: PublishedWithdrawal[] = [{ symbol: 'A', from: 10, to: 20, at: 5 }];
  expect(overlayWithdrawals(listed, new Map([['A', [proof]]]))).toEqual(listed);
});

/** What an archive publishes of one symbol and day. */
interface Published {
  readonly coverage: readonly CoveredWindow[];
  readonly withdrawn: readonly PublishedWithdrawal[];
}

const hour = fc
  .tuple(fc.nat(9), fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 6 }))
  .map(([from, length, at]) => ({ from, to: from + length, at }));
const step = fc.oneof(
  fc.record({ kind: fc.constant('response' as const), hour, evidence: fc.constantFrom(...evidenceKinds) }),
  fc.record({ kind: fc.constant('withdrawal' as const), hour, claims: fc.boolean() }),
);

/** The publishes of an archive, whose clock does not go back, one for each step. */
function publishSteps(steps: readonly (typeof step extends fc.Arbitrary<infer T> ? T : never)[]): Published {
  let coverage: readonly CoveredWindow[] = [];
  let withdrawn: readonly PublishedWithdrawal[] = [];
  for (const one of steps.toSorted((a, b) => a.hour.at - b.hour.at)) {
    const { at: fetchedAt, ...window } = one.hour;
    const covered = { ...window, fetchedAt, origin: 'poll' as const };
    if (one.kind === 'withdrawal') withdrawn = overlayWithdrawals([...withdrawn, { symbol: 'A', ...one.hour }]);
    const fresh: CoveredWindow[] =
      one.kind === 'response'
        ? [{ ...covered, evidence: one.evidence }]
        : one.claims
          ? [{ ...covered, fetchedAt: 0, evidence: 'inferred' }]
          : [];
    const kept = one.kind === 'withdrawal' ? withdrawCoverage(coverage, [window]) : coverage;
    coverage = joinForPublishing(overlayCoverage([...kept, ...fresh]), withdrawn);
  }
  return { coverage, withdrawn };
}

function unite(a: Published, b: Published): Published {
  const outlast = (own: Published, other: Published): CoveredWindow[] =>
    own.coverage.flatMap((window) =>
      withdrawCoverage([window], findWithdrawn([window], other.withdrawn, own.withdrawn)),
    );
  const withdrawn = overlayWithdrawals([...a.withdrawn, ...b.withdrawn]);
  return {
    coverage: joinForPublishing(overlayCoverage([...outlast(a, b), ...outlast(b, a)]), withdrawn, true),
    withdrawn,
  };
}

test('three archives unite to the same proof in any order, and lose none that is later than all withdrawals', () => {
  const history = fc.array(step, { maxLength: 6 }).map(publishSteps);
  checkProperty([history, history, history], 500, (a, b, c) => {
    const whole = unite(unite(a, b), c);
    const provenOf = ({ coverage, withdrawn }: Published) => ({ withdrawn, proven: coverage.filter(isProven) });
    for (const other of [unite(a, unite(b, c)), unite(unite(c, b), a), unite(unite(a, c), b), unite(whole, b)])
      expect(provenOf(other)).toEqual(provenOf(whole));
    expect(unite(a, a)).toEqual(a);
    expect(unite(whole, whole)).toEqual(whole);
    // What was fetched after a withdrawal is not published as if it had been fetched before.
    for (const { coverage, withdrawn } of [a, b, c])
      for (const one of withdrawn)
        for (const window of coverage.filter((covered) => isProven(covered) && overlaps(covered, one)))
          expect(window.fetchedAt).toBeGreaterThanOrEqual(one.at);
    for (const window of [a, b, c].flatMap(({ coverage }) => coverage).filter(isProven))
      for (let t = window.from; t < window.to; t++) {
        const last = findLast(whole.withdrawn, 'A', t) ?? 0;
        if (window.fetchedAt > last) expect(whole.coverage.filter(isProven).some((one) => isWithin(t, one))).toBe(true);
      }
  });
});

test('claims of responses from before a withdrawal are removed, of a whole day for every symbol too', () => {
  const claim = { from: 0, to: 30, fetchedAt: 50, evidence: 'confirmed' } as const;
  const withdrawn = Map.groupBy(
    [
      { symbol: 'A', from: 10, to: 20, at: 60 },
      { symbol: 'A', from: 20, to: 25, at: 50 },
      { symbol: null, from: 25, to: 40, at: 60 },
    ],
    ({ symbol }) => symbol,
  );
  const claimedOf = (symbol: string) => removeOlderClaims([claim], symbol, withdrawn).map(({ from, to }) => [from, to]);
  expect(claimedOf('A')).toEqual([
    [0, 10],
    [20, 25],
  ]);
  expect(claimedOf('B')).toEqual([[0, 25]]);
});
