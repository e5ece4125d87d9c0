import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { mergePart } from '../../../src/archive/format/merge.ts';
import { precedenceRanks } from '../../../src/archive/format/precedence.ts';
import { emptyPart, type TickChunk } from '../../../src/archive/format/tick-columns.ts';
import { emptyTicks } from '../../../src/base/ticks.ts';
import { checkProperty } from '../../harness/properties.ts';
import { type Observation, publish, publishPlainly, rowsOf, winners } from './publishing.ts';

const symbols = ['A', '\u{e000}', '😀'];
const prices = [0, -0, 0.25, 0.5, 0.1 + 0.2, 5e-324];
const size = 10;

/**
 * A response or file brings any rows of its window, in any order, some more than once, at prices that may differ
 * between responses: pages may be truncated anywhere, and replicas may lag. Its coverage may have been fetched at
 * another time.
 */
const anyObservation = fc.record({
  symbol: fc.nat(symbols.length - 1),
  from: fc.nat(size - 1),
  length: fc.integer({ min: 1, max: size }),
  observedAt: fc.integer({ min: 0, max: 5 }),
  run: fc.constantFrom('one', 'two'),
  rank: fc.oneof(
    { weight: 4, arbitrary: fc.constant(precedenceRanks.poll) },
    fc.constantFrom(precedenceRanks.import, precedenceRanks.preferred),
  ),
  hasRow: fc.array(fc.boolean(), { minLength: size, maxLength: size }),
  covered: fc.option(fc.integer({ min: 0, max: 5 })),
  price: fc.array(fc.constantFrom(...prices), { minLength: size, maxLength: size }),
  again: fc.array(fc.record({ t: fc.nat(size - 1), p: fc.constantFrom(...prices) }), { maxLength: 2 }),
  reversed: fc.boolean(),
});

const anyObservations = fc.array(anyObservation, { minLength: 1, maxLength: 9 }).map((list) =>
  list.map((o): Observation => {
    const symbol = symbols[o.symbol]!;
    const to = Math.min(size, o.from + o.length);
    const isThere = (t: number) => o.from <= t && t < to && o.hasRow[t]!;
    const rows = o.price.map((p, t) => ({ t, p })).filter(({ t }) => isThere(t));
    rows.push(...o.again.filter(({ t }) => isThere(t)));
    if (o.reversed) rows.reverse();
    const covers = {
      from: o.from,
      to,
      fetchedAt: o.covered ?? 0,
      origin: o.rank === precedenceRanks.poll ? ('poll' as const) : ('import' as const),
      evidence: 'confirmed' as const,
    };
    return {
      symbol,
      t: Float64Array.from(rows, (row) => row.t),
      p: Float64Array.from(rows, (row) => row.p),
      rank: o.rank,
      observedAt: o.observedAt,
      runId: o.run,
      covers: o.covered === null ? null : covers,
    };
  }),
);

/** The same observations in another order, split into batches. */
const regrouped = anyObservations.chain((list) =>
  fc
    .tuple(
      fc.shuffledSubarray(list, { minLength: list.length, maxLength: list.length }),
      fc.array(fc.boolean(), { minLength: list.length, maxLength: list.length }),
    )
    .map(([shuffled, cuts]) => {
      const batches: Observation[][] = [[]];
      shuffled.forEach((observation, i) => {
        if (cuts[i]) batches.push([]);
        batches.at(-1)!.push(observation);
      });
      return { list, batches };
    }),
);

const chunk = (
  symbol: string,
  ticks: readonly (readonly [number, number])[],
  more: Partial<TickChunk> = {},
): TickChunk => ({
  symbol,
  t: Float64Array.from(ticks, ([t]) => t),
  p: Float64Array.from(ticks, ([, p]) => p),
  rank: precedenceRanks.poll,
  observedAt: 100,
  runId: 'run',
  ...more,
});
const unknown = {
  getWindows: () => [],
  inferPrecedence: () => ({ rank: precedenceRanks.poll, observedAt: 0 }),
};

describe('merging', () => {
  test('gives the same columns, bit for bit, in any order and batching', () => {
    checkProperty([regrouped], 1000, ({ list, batches }) => {
      const unique = publish([list]).columns;
      const repeated = publish(batches).columns;
      expect(repeated.symbols).toEqual(unique.symbols);
      expect([...repeated.offsets]).toEqual([...unique.offsets]);
      // toEqual distinguishes 0 from -0.
      expect(rowsOf(repeated)).toEqual(rowsOf(unique));
    });
  });

  test('keeps for each key the greatest rank, then the latest observation, then the greater price; of a response the last one', () => {
    checkProperty([regrouped], 500, ({ list, batches }) => {
      const { columns } = publish(batches);
      const kept = rowsOf(columns);
      const model = [...winners(list)].flatMap(([symbol, ticks]) => [...ticks].map(([t, { p }]) => ({ symbol, t, p })));
      const inOrder = model.sort((a, b) => symbols.indexOf(a.symbol) - symbols.indexOf(b.symbol) || a.t - b.t);
      expect(kept).toEqual(inOrder);
      expect(columns.symbols).toEqual([...new Set(kept.map(({ symbol }) => symbol))]);
    });
  });

  test('counts each tick once, as accepted, duplicate or conflict', () => {
    checkProperty([regrouped], 500, ({ list, batches }) => {
      const { columns, tallies, added } = publish(batches);
      const all = [...tallies.values()];
      const sum = (of: 'accepted' | 'duplicates' | 'conflicts') => all.reduce((n, tally) => n + tally[of], 0);
      expect(sum('accepted')).toBe(columns.t.length);
      expect(added).toBe(columns.t.length);
      for (const [runId, { accepted, duplicates, conflicts }] of tallies) {
        const given = list.filter((o) => o.runId === runId).reduce((n, o) => n + o.t.length, 0);
        expect(accepted + duplicates + conflicts).toBe(given);
      }
    });
  });

  test('lists every losing price in the conflicts, and no other', () => {
    checkProperty([regrouped], 500, ({ list, batches }) => {
      const { conflicts } = publish(batches);
      const seen = new Set(list.flatMap((o) => [...o.t].map((t, i) => `${o.symbol} ${t} ${o.p[i]! + 0}`)));
      const lost = new Set(conflicts.map(({ symbol, t, dropped }) => `${symbol} ${t} ${dropped}`));
      for (const { symbol, t, kept, dropped } of conflicts) {
        expect(dropped).not.toBe(kept);
        expect(seen).toContain(`${symbol} ${t} ${dropped}`);
      }
      for (const [symbol, ticks] of winners(list)) {
        for (const [t, { p }] of ticks) {
          for (const key of seen) {
            if (key.startsWith(`${symbol} ${t} `) && key !== `${symbol} ${t} ${p}`) expect(lost).toContain(key);
          }
        }
      }
    });
  });

  test('reports a change only if there is one', () => {
    checkProperty([anyObservations, anyObservations], 500, (first, second) => {
      const old = publish([first]).columns;
      const { columns, isChanged, added } = mergePart(old, second, unknown);
      const unchanged = JSON.stringify(rowsOf(columns)) === JSON.stringify(rowsOf(old));
      expect(isChanged).toBe(!unchanged);
      const newRows = second.filter((o) => o.t.length > 0).map(({ symbol }) => symbol);
      expect(new Set(added.keys())).toEqual(new Set(newRows));
    });
  });

  test('counts and reports as the rule does key by key, though precedence is stored in windows', () => {
    checkProperty([regrouped], 1000, ({ batches }) => {
      const { conflicts, tallies } = publish(batches);
      const model = publishPlainly(batches);
      const reported = conflicts.map((c) => `${c.symbol} ${c.t} ${c.kept} ${c.dropped} ${c.seenAt}`);
      expect([...new Set(reported)].sort()).toEqual(model.conflicts);
      expect([...tallies].sort()).toEqual([...model.tallies].sort());
    });
  });

  test('stores an import as one precedence window, and a polled key inside it as another', () => {
    const file = {
      ...chunk(
        'A',
        [
          [1, 0.5],
          [3, 0.5],
          [5, 0.5],
        ],
        { rank: precedenceRanks.import },
      ),
      covers: null,
    };
    const late = { ...chunk('A', [[4, 0.5]]), covers: null };
    expect(publish([[file]]).stretches).toBe(1);
    expect(publish([[file], [file]]).stretches).toBe(1);
    // Before, at and after it.
    expect(publish([[file], [late]]).stretches).toBe(3);
    expect(publish([[late], [file]]).stretches).toBe(3);
  });

  test('changes nothing for a response without ticks', () => {
    const empty = { ...chunk('B', []), ...emptyTicks };
    const old = mergePart(emptyPart, [chunk('A', [[1, 0.5]])], unknown).columns;
    expect(mergePart(emptyPart, [empty], unknown)).toMatchObject({ columns: emptyPart, isChanged: false });
    expect(mergePart(old, [empty], unknown)).toMatchObject({ columns: old, isChanged: false, added: new Map() });
  });

  test('keeps -0 as 0, and every other price as received', () => {
    const { columns } = mergePart(
      emptyPart,
      [
        chunk('A', [
          [1, -0],
          [2, 5e-324],
          [3, 0.1 + 0.2],
        ]),
      ],
      unknown,
    );
    expect([...columns.p]).toEqual([0, 5e-324, 0.1 + 0.2]);
    expect(Object.is(columns.p[0], 0)).toBe(true);
  });

  test('treats 0 and -0 as one price', () => {
    const old = mergePart(emptyPart, [chunk('A', [[1, 0]])], unknown).columns;
    const { isChanged, tallies } = mergePart(old, [chunk('A', [[1, -0]])], unknown);
    expect(isChanged).toBe(false);
    expect(tallies.get('run')).toEqual({ accepted: 0, duplicates: 1, conflicts: 0 });
  });

  test('keeps a polled price over an import, but not over a preferred one', () => {
    const old = mergePart(emptyPart, [chunk('A', [[1, 0.5]])], unknown).columns;
    const imported = chunk('A', [[1, 0.6]], { rank: precedenceRanks.import, observedAt: 999 });
    const preferred = chunk('A', [[1, 0.7]], { rank: precedenceRanks.preferred, observedAt: -5 });
    expect([...mergePart(old, [imported], unknown).columns.p]).toEqual([0.5]);
    expect([...mergePart(old, [preferred, imported], unknown).columns.p]).toEqual([0.7]);
  });

  test('records no known precedence again, for many keys or one', () => {
    for (const times of [[1, 3, 5], [1]]) {
      const rows = times.map((t) => [t, 0.5] as const);
      const file = chunk('A', rows, { rank: precedenceRanks.import });
      const first = mergePart(emptyPart, [file], unknown);
      expect(first.precedence).toHaveLength(1);
      const known = { ...unknown, getWindows: () => first.precedence };
      const { precedence, isChanged } = mergePart(first.columns, [file], known);
      expect({ stretches: precedence, changed: isChanged }).toEqual({ stretches: [], changed: false });
    }
  });

  test('keeps a price that was imported and then polled over a later import', () => {
    const file = (p: number, observedAt: number) => {
      const rows = [1, 2].map((t) => [t, p] as const);
      return { ...chunk('A', rows, { rank: precedenceRanks.import, observedAt }), covers: null };
    };
    const polled = {
      ...chunk('A', [[1, 0.5]]),
      covers: { from: 1, to: 2, fetchedAt: 100, origin: 'poll' as const, evidence: 'confirmed' as const },
    };
    const { columns } = publish([[file(0.5, 10)], [polled], [file(0.6, 999)]]);
    expect([...columns.p]).toEqual([0.5, 0.6]);
  });

  test('does not treat a polled price among imported ones as imported, even if the import repeats it', () => {
    const polled = {
      ...chunk('A', [[2, 0.5]]),
      covers: { from: 2, to: 3, fetchedAt: 100, origin: 'poll' as const, evidence: 'confirmed' as const },
    };
    const file = (observedAt: number, p: number, ...times: number[]) => {
      const rows = times.map((t) => [t, p] as const);
      return { ...chunk('A', rows, { rank: precedenceRanks.import, observedAt }), covers: null };
    };
    const { columns } = publish([[polled], [file(10, 0.5, 1, 3), polled], [file(999, 0.6, 2)]]);
    expect([...columns.p]).toEqual([0.5, 0.5, 0.5]);
  });

  test('infers no precedence if that of each published tick was recorded', () => {
    const first = mergePart(emptyPart, [chunk('A', [[1, 0.5]])], unknown);
    const strict = { getWindows: () => first.precedence, inferPrecedence: () => expect.fail('requested a stand-in') };
    const { tallies } = mergePart(
      first.columns,
      [
        chunk('A', [
          [1, 0.5],
          [2, 0.5],
        ]),
      ],
      strict,
    );
    expect(tallies.get('run')).toEqual({ accepted: 1, duplicates: 1, conflicts: 0 });
  });
});
