import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type MergedPart, mergePart } from '../../../src/archive/format/merge.ts';
import { createMergeScratch, sortTicksInPlace } from '../../../src/archive/format/merge-order.ts';
import type { PrecedenceWindow } from '../../../src/archive/format/precedence.ts';
import { type KnownPrecedence, precedenceRanks } from '../../../src/archive/format/precedence.ts';
import { emptyPart, type TickChunk } from '../../../src/archive/format/tick-columns.ts';
import { expectSame } from '../../harness/expect-same.ts';
import { checkProperty } from '../../harness/properties.ts';
import { plainMergePart } from './plain-merge.ts';
import { rowsOf } from './publishing.ts';

/** Lengths around the limit between copying by a loop and by a view. */
const timeMax = 150;
const symbols = ['A', 'B', '\u{e000}', '😀'];
const prices = [0, -0, 0.25, 0.5, 0.1 + 0.2];
const rank = fc.oneof(
  { weight: 3, arbitrary: fc.constant(precedenceRanks.poll) },
  fc.constantFrom(...Object.values(precedenceRanks)),
);
const arbitraryPrecedence = fc.record({ rank, observedAt: fc.nat(4) });

const unknownPrecedence = { rank: precedenceRanks.poll, observedAt: Number.NEGATIVE_INFINITY };

/** A page of a window that overlaps its neighbours, with gaps; sometimes reversed, shuffled or with duplicates. */
const page = fc
  .record({
    from: fc.nat(timeMax),
    length: fc.oneof(fc.nat(8), fc.nat(timeMax)),
    step: fc.constantFrom(1, 1, 2, 7),
    price: fc.array(fc.constantFrom(...prices), { minLength: 1, maxLength: 5 }),
    order: fc.constantFrom('rising', 'rising', 'rising', 'falling', 'mixed', 'twice'),
  })
  .map(({ from, length, step, price, order }) => {
    const rows = Array.from({ length }, (_, i) => ({ t: from + i * step, p: price[i % price.length]! }));
    if (order === 'falling') rows.reverse();
    if (order === 'mixed') rows.sort((a, b) => ((a.t * 7919) % 31) - ((b.t * 7919) % 31));
    if (order === 'twice') rows.push(...rows.filter(({ t }) => t % 3 === 0).map(({ t, p }) => ({ t, p: p / 2 })));
    return rows;
  });

const chunk = fc
  .record({
    symbol: fc.constantFrom(...symbols),
    page,
    standing: arbitraryPrecedence,
    runId: fc.constantFrom('one', 'two', 'three'),
  })
  .map(
    ({ symbol, page: rows, standing: variant, runId }): TickChunk => ({
      symbol,
      runId,
      ...variant,
      t: Float64Array.from(rows, ({ t }) => t),
      p: Float64Array.from(rows, ({ p }) => p),
    }),
  );

const chunks = fc.array(chunk, { maxLength: 12 });

/** Precedence windows, some of a single key, clipped so that they do not overlap. */
const known = fc
  .record({
    stretches: fc.array(
      fc.tuple(
        fc.constantFrom(...symbols),
        fc.nat(timeMax),
        fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 40 })),
        arbitraryPrecedence,
      ),
      { maxLength: 30 },
    ),
    standIns: fc.array(fc.oneof(arbitraryPrecedence, fc.constant(unknownPrecedence)), { minLength: 1, maxLength: 4 }),
  })
  .map(({ stretches: windows, standIns: inferred }): KnownPrecedence => {
    const bySymbol = new Map<string, PrecedenceWindow[]>();
    for (const [symbol, from, length, variant] of windows.toSorted((a, b) => a[1] - b[1])) {
      const list = bySymbol.get(symbol) ?? [];
      bySymbol.set(symbol, list);
      const start = Math.max(from, list.at(-1)?.to ?? 0);
      list.push({ symbol, from: start, to: start + length, ...variant });
    }
    return {
      getWindows: (symbol) => bySymbol.get(symbol) ?? [],
      inferPrecedence: (_, t) => inferred[t % inferred.length]!,
    };
  });

/** The result of a merge, in an order that does not depend on which run comes first. */
const resultOf = ({ columns, tallies, added, ...rest }: MergedPart) => ({
  ...rest,
  symbols: columns.symbols,
  offsets: [...columns.offsets],
  // toEqual distinguishes 0 from -0.
  t: [...columns.t],
  p: [...columns.p],
  tallies: [...tallies].sort(),
  added: [...added].sort(),
});

const noPrecedence: KnownPrecedence = {
  getWindows: () => [],
  inferPrecedence: () => ({ rank: precedenceRanks.poll, observedAt: 2 }),
};

describe('a merge in runs', () => {
  test('equals the merge key by key for any chunks, old rows and precedence', () => {
    checkProperty([chunks, chunks, known], 500, (before, fresh, precedence) => {
      const old = plainMergePart(emptyPart, before, noPrecedence).columns;
      expect(resultOf(mergePart(old, fresh, precedence))).toEqual(resultOf(plainMergePart(old, fresh, precedence)));
    });
  });

  test('equals it for overlapping pages in any order', () => {
    const pages = fc
      .record({
        starts: fc.array(fc.nat(2000), { minLength: 1, maxLength: 20 }),
        length: fc.integer({ min: 1, max: 400 }),
        sorted: fc.boolean(),
        how: arbitraryPrecedence,
        correction: fc.integer({ min: 2, max: 50 }),
      })
      .map(({ starts, length, sorted, how: variant, correction }) =>
        (sorted ? starts.toSorted((a, b) => a - b) : starts).map(
          (start, i): TickChunk => ({
            symbol: 'A',
            runId: 'run',
            rank: variant.rank,
            observedAt: variant.observedAt + i,
            t: Float64Array.from({ length }, (_, k) => start + k),
            p: Float64Array.from({ length }, (_, k) => ((start + k) % correction === 0 ? i : 0.5)),
          }),
        ),
      );
    checkProperty([pages, pages], 300, (before, fresh) => {
      const first = mergePart(emptyPart, before, noPrecedence);
      expect(resultOf(first)).toEqual(resultOf(plainMergePart(emptyPart, before, noPrecedence)));
      const { columns } = first;
      expect(resultOf(mergePart(columns, fresh, noPrecedence))).toEqual(
        resultOf(plainMergePart(columns, fresh, noPrecedence)),
      );
    });
  });

  test('does not modify its input', () => {
    checkProperty([chunks, chunks, known], 300, (before, fresh, precedence) => {
      const old = mergePart(emptyPart, before, noPrecedence).columns;
      const rows = rowsOf(old);
      const ticks = fresh.map(({ t, p }) => [[...t], [...p]]);
      mergePart(old, fresh, precedence);
      expectSame(rowsOf(old), rows);
      expect(fresh.map(({ t, p }) => [[...t], [...p]])).toEqual(ticks);
    });
  });

  test('reads no symbol without new ticks', () => {
    const of = (symbol: string): TickChunk => ({
      symbol,
      rank: precedenceRanks.poll,
      observedAt: 0,
      runId: 'run',
      t: Float64Array.from({ length: 100 }, (_, i) => i),
      p: new Float64Array(100),
    });
    const old = mergePart(emptyPart, symbols.map(of), noPrecedence).columns;
    const requested: string[] = [];
    const windows = (symbol: string): PrecedenceWindow[] => {
      requested.push(symbol);
      return [];
    };
    const { columns, isChanged } = mergePart(old, [of('B')], { ...noPrecedence, getWindows: windows });
    expect(requested).toEqual(['B']);
    expect(isChanged).toBe(false);
    expectSame(rowsOf(columns), rowsOf(old));
  });
});

describe('sorting by time', () => {
  const columns = (times: readonly number[]) => ({
    t: Float64Array.from(times),
    p: Float64Array.from(times, (_, i) => i),
    source: Uint32Array.from(times, (_, i) => i % 7),
  });

  test('is stable for any runs', () => {
    const runs = fc.array(
      fc
        .tuple(fc.array(fc.nat(60), { maxLength: 60 }), fc.constantFrom('rising', 'falling', 'any'))
        .map(([times, order]) =>
          order === 'any' ? times : times.toSorted((a, b) => (order === 'rising' ? a - b : b - a)),
        ),
      { maxLength: 9 },
    );
    checkProperty([runs], 400, (lists) => {
      const times = lists.flat();
      const ticks = columns(times);
      sortTicksInPlace(ticks, createMergeScratch());
      const order = times.map((_, i) => i).sort((a, b) => times[a]! - times[b]! || a - b);
      expect([...ticks.p]).toEqual(order);
      expect([...ticks.t]).toEqual(order.map((i) => times[i]));
      expect([...ticks.source]).toEqual(order.map((i) => i % 7));
    });
  });

  test('needs no buffer for sorted input, and only the overlap for overlapping pages', () => {
    const scratch = createMergeScratch();
    sortTicksInPlace(columns(Array.from({ length: 5000 }, (_, i) => i)), scratch);
    sortTicksInPlace(columns(Array.from({ length: 5000 }, (_, i) => -i)), scratch);
    expect(scratch.ticks.t.length).toBe(0);
    sortTicksInPlace(columns(Array.from({ length: 5000 }, (_, i) => (i < 2500 ? i : i - 50))), scratch);
    expect(scratch.ticks.t.length).toBeGreaterThan(0);
    expect(scratch.ticks.t.length).toBeLessThanOrEqual(100);
  });
});
