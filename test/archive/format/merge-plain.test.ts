import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type MergedPart, mergePart } from '../../../src/archive/format/merge.ts';
import { createMergeScratch, sortTicksInPlace } from '../../../src/archive/format/merge-order.ts';
import type { PrecedenceWindow } from '../../../src/archive/format/precedence.ts';
import { type KnownPrecedence, precedenceRanks } from '../../../src/archive/format/precedence.ts';
import { emptyPart, type TickChunk } from '../../../src/archive/format/tick-columns.ts';
import { plainMergePart } from './plain-merge.ts';
import { rowsOf } from './publishing.ts';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`merge against the plain one: SEED=${seed}`);

/** Ranges around what is copied by a loop and what by a view. */
const timeMax = 150;
const symbols = ['A', 'B', '\u{e000}', '😀'];
const prices = [0, -0, 0.25, 0.5, 0.1 + 0.2];
const rank = fc.oneof(
  { weight: 3, arbitrary: fc.constant(precedenceRanks.poll) },
  fc.constantFrom(...Object.values(precedenceRanks)),
);
const standing = fc.record({ rank, observedAt: fc.nat(4) });

const unknownStanding = { rank: precedenceRanks.poll, observedAt: Number.NEGATIVE_INFINITY };

/** A page of a window, so that neighbours overlap, with gaps; then perhaps turned round, mixed up or with repeats. */
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
  .record({ symbol: fc.constantFrom(...symbols), page, standing, runId: fc.constantFrom('one', 'two', 'three') })
  .map(
    ({ symbol, page: rows, standing: how, runId }): TickChunk => ({
      symbol,
      runId,
      ...how,
      t: Float64Array.from(rows, ({ t }) => t),
      p: Float64Array.from(rows, ({ p }) => p),
    }),
  );

const chunks = fc.array(chunk, { maxLength: 12 });

/** Stretches, some of a single key, cut where they would meet. */
const known = fc
  .record({
    stretches: fc.array(
      fc.tuple(
        fc.constantFrom(...symbols),
        fc.nat(timeMax),
        fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 40 })),
        standing,
      ),
      { maxLength: 30 },
    ),
    standIns: fc.array(fc.oneof(standing, fc.constant(unknownStanding)), { minLength: 1, maxLength: 4 }),
  })
  .map(({ stretches, standIns }): KnownPrecedence => {
    const bySymbol = new Map<string, PrecedenceWindow[]>();
    for (const [symbol, from, length, how] of stretches.toSorted((a, b) => a[1] - b[1])) {
      const list = bySymbol.get(symbol) ?? [];
      bySymbol.set(symbol, list);
      const start = Math.max(from, list.at(-1)?.to ?? 0);
      list.push({ symbol, from: start, to: start + length, ...how });
    }
    return {
      getWindows: (symbol) => bySymbol.get(symbol) ?? [],
      inferPrecedence: (_, t) => standIns[t % standIns.length]!,
    };
  });

/** All that a merge says, in an order that does not depend on which run was met first. */
const told = ({ columns, tallies, added, ...rest }: MergedPart) => ({
  ...rest,
  symbols: columns.symbols,
  offsets: [...columns.offsets],
  // toEqual tells 0 from -0.
  t: [...columns.t],
  p: [...columns.p],
  tallies: [...tallies].sort(),
  added: [...added].sort(),
});

const nobodyKnows: KnownPrecedence = {
  getWindows: () => [],
  inferPrecedence: () => ({ rank: precedenceRanks.poll, observedAt: 2 }),
};

describe('a merge in whole runs', () => {
  test('says to the last bit what one key by key does, of any chunks, old rows and standings', () => {
    fc.assert(
      fc.property(chunks, chunks, known, (before, fresh, standings) => {
        const old = plainMergePart(emptyPart, before, nobodyKnows).columns;
        expect(told(mergePart(old, fresh, standings))).toEqual(told(plainMergePart(old, fresh, standings)));
      }),
      { seed, numRuns: 500 },
    );
  });

  test('does so of pages that follow one another and overlap, in any order', () => {
    const pages = fc
      .record({
        starts: fc.array(fc.nat(2000), { minLength: 1, maxLength: 20 }),
        length: fc.integer({ min: 1, max: 400 }),
        sorted: fc.boolean(),
        how: standing,
        correction: fc.integer({ min: 2, max: 50 }),
      })
      .map(({ starts, length, sorted, how, correction }) =>
        (sorted ? starts.toSorted((a, b) => a - b) : starts).map(
          (start, i): TickChunk => ({
            symbol: 'A',
            runId: 'run',
            rank: how.rank,
            observedAt: how.observedAt + i,
            t: Float64Array.from({ length }, (_, k) => start + k),
            p: Float64Array.from({ length }, (_, k) => ((start + k) % correction === 0 ? i : 0.5)),
          }),
        ),
      );
    fc.assert(
      fc.property(pages, pages, (before, fresh) => {
        const first = mergePart(emptyPart, before, nobodyKnows);
        expect(told(first)).toEqual(told(plainMergePart(emptyPart, before, nobodyKnows)));
        const { columns } = first;
        expect(told(mergePart(columns, fresh, nobodyKnows))).toEqual(told(plainMergePart(columns, fresh, nobodyKnows)));
      }),
      { seed, numRuns: 300 },
    );
  });

  test('leaves what it was given as it was', () => {
    fc.assert(
      fc.property(chunks, chunks, known, (before, fresh, standings) => {
        const old = mergePart(emptyPart, before, nobodyKnows).columns;
        const rows = rowsOf(old);
        const ticks = fresh.map(({ t, p }) => [[...t], [...p]]);
        mergePart(old, fresh, standings);
        expect(rowsOf(old)).toEqual(rows);
        expect(fresh.map(({ t, p }) => [[...t], [...p]])).toEqual(ticks);
      }),
      { seed, numRuns: 300 },
    );
  });

  test('looks at no symbol that nothing came for', () => {
    const of = (symbol: string): TickChunk => ({
      symbol,
      rank: precedenceRanks.poll,
      observedAt: 0,
      runId: 'run',
      t: Float64Array.from({ length: 100 }, (_, i) => i),
      p: new Float64Array(100),
    });
    const old = mergePart(emptyPart, symbols.map(of), nobodyKnows).columns;
    const asked: string[] = [];
    const stretches = (symbol: string): PrecedenceWindow[] => {
      asked.push(symbol);
      return [];
    };
    const { columns, isChanged } = mergePart(old, [of('B')], { ...nobodyKnows, getWindows: stretches });
    expect(asked).toEqual(['B']);
    expect(isChanged).toBe(false);
    expect(rowsOf(columns)).toEqual(rowsOf(old));
  });
});

describe('ordering by time', () => {
  const columns = (times: readonly number[]) => ({
    t: Float64Array.from(times),
    p: Float64Array.from(times, (_, i) => i),
    source: Uint32Array.from(times, (_, i) => i % 7),
  });

  test('is stable, whatever the runs', () => {
    const runs = fc.array(
      fc
        .tuple(fc.array(fc.nat(60), { maxLength: 60 }), fc.constantFrom('rising', 'falling', 'any'))
        .map(([times, order]) =>
          order === 'any' ? times : times.toSorted((a, b) => (order === 'rising' ? a - b : b - a)),
        ),
      { maxLength: 9 },
    );
    fc.assert(
      fc.property(runs, (lists) => {
        const times = lists.flat();
        const ticks = columns(times);
        sortTicksInPlace(ticks, createMergeScratch());
        const order = times.map((_, i) => i).sort((a, b) => times[a]! - times[b]! || a - b);
        expect([...ticks.p]).toEqual(order);
        expect([...ticks.t]).toEqual(order.map((i) => times[i]));
        expect([...ticks.source]).toEqual(order.map((i) => i % 7));
      }),
      { seed, numRuns: 400 },
    );
  });

  test('needs no room aside for what is in order, and as much as overlaps for what overlaps', () => {
    const aside = createMergeScratch();
    sortTicksInPlace(columns(Array.from({ length: 5000 }, (_, i) => i)), aside);
    sortTicksInPlace(columns(Array.from({ length: 5000 }, (_, i) => -i)), aside);
    expect(aside.ticks.t.length).toBe(0);
    sortTicksInPlace(columns(Array.from({ length: 5000 }, (_, i) => (i < 2500 ? i : i - 50))), aside);
    expect(aside.ticks.t.length).toBeGreaterThan(0);
    expect(aside.ticks.t.length).toBeLessThanOrEqual(100);
  });
});
