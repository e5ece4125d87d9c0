import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type MergedSeries, mergeSeries } from '../../../src/archive/format/merge-series.ts';
import type { KnownPrecedence } from '../../../src/archive/format/precedence.ts';
import { createEmptySeries, type SeriesChunk } from '../../../src/archive/format/series.ts';
import { encodeTexts } from '../../../src/archive/format/text-columns.ts';
import { checkProperty } from '../../harness/properties.ts';
import { share } from '../../harness/share.ts';
import { listTexts } from '../texts.ts';

// Rows without a repeated identifier are merged in another way than the others. `trades.test.ts` has the plain model of both.

interface Row {
  readonly symbol: string;
  readonly id: string;
  readonly t: number;
  readonly price: number;
  readonly aggressor: string | null;
  /** 0 is published before the others are merged. */
  readonly chunk: number;
}

const observations = [
  { runId: 'before', rank: 1, observedAt: 5 },
  { runId: 'one', rank: 0, observedAt: 5 },
  { runId: 'two', rank: 1, observedAt: 3 },
  { runId: 'one', rank: 1, observedAt: 7 },
];

const anyId = fc.oneof(fc.nat(2000).map(String), fc.string({ unit: 'grapheme', maxLength: 3 }));
const anyRows = fc.uniqueArray(anyId, { maxLength: 40 }).chain((ids) =>
  fc.tuple(
    ...ids.map((id) =>
      fc.record({
        symbol: fc.constantFrom('A', 'B', '😀'),
        id: fc.constant(id),
        t: fc.nat(6),
        price: fc.constantFrom(0, -0, 0.5),
        aggressor: fc.constantFrom(null, 'buy'),
        chunk: fc.nat(observations.length - 1),
      }),
    ),
  ),
) as fc.Arbitrary<Row[]>;

const toChunks = (rows: readonly Row[]): SeriesChunk[] =>
  [...Map.groupBy(rows, ({ symbol, chunk }) => JSON.stringify([symbol, chunk])).values()].map((of) => ({
    symbol: of[0]!.symbol,
    ...observations[of[0]!.chunk]!,
    t: Float64Array.from(of, ({ t }) => t),
    values: [
      Float64Array.from(of, ({ price }) => price),
      new Float64Array(of.length).fill(1),
      new Float64Array(of.length).fill(Number.NaN),
    ],
    texts: [
      of.map(({ id }) => id),
      of.map(({ aggressor }) => aggressor),
      ...[0, 1, 2].map(() => of.map(() => null)),
    ].map(encodeTexts),
  }));

const isUnknown: KnownPrecedence = {
  getWindows: () => [],
  inferPrecedence: () => ({ rank: 0, observedAt: Number.NEGATIVE_INFINITY }),
};

/** Merges all rows, those of the first observation before the others. */
function mergeAll(rows: readonly Row[]): MergedSeries {
  const [before, fresh] = [rows.filter(({ chunk }) => chunk === 0), rows.filter(({ chunk }) => chunk !== 0)];
  const published = mergeSeries('trades', createEmptySeries('trades'), toChunks(before), isUnknown);
  const getWindows = (symbol: string) => published.precedence.filter((window) => window.symbol === symbol);
  return mergeSeries('trades', published.columns, toChunks(fresh), { ...isUnknown, getWindows });
}

/** What was merged, with its texts as strings. */
const list = (merged: MergedSeries) => ({
  ...merged,
  columns: { ...merged.columns, texts: merged.columns.texts.map(listTexts) },
});

const sumTallies = ({ tallies }: MergedSeries): number[] =>
  [...tallies.values()].reduce(
    ([accepted, duplicates, conflicts], tally) => [
      accepted! + tally.accepted,
      duplicates! + tally.duplicates,
      conflicts! + tally.conflicts,
    ],
    [0, 0, 0],
  );

test('rows with distinct identifiers are merged as if one of them was there twice', () => {
  checkProperty([anyRows], share * 300, (rows) => {
    const merged = mergeAll(rows);
    const fresh = rows.filter(({ chunk }) => chunk !== 0);
    const repeated = [...Map.groupBy(fresh, ({ symbol }) => symbol).values()].map((of) => of[0]!);
    const withRepeats = mergeAll([...rows, ...repeated]);
    expect({ ...list(merged), tallies: null }).toEqual({ ...list(withRepeats), tallies: null });
    expect(sumTallies(merged)).toEqual([fresh.length, 0, 0]);
    expect(sumTallies(withRepeats)).toEqual([fresh.length, repeated.length, 0]);
  });
});

test('what is merged does not depend on the order of the rows of a chunk', () => {
  checkProperty([anyRows], share * 100, (rows) => {
    expect(list(mergeAll(rows.toReversed()))).toEqual(list(mergeAll(rows)));
  });
});
