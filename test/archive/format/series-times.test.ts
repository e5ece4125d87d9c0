import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type MergedSeries, mergeSeries } from '../../../src/archive/format/merge-series.ts';
import { overlayPrecedence, type PrecedenceWindow } from '../../../src/archive/format/precedence.ts';
import { createEmptySeries, type SeriesChunk, type SeriesColumns } from '../../../src/archive/format/series.ts';
import type { SeriesDataset } from '../../../src/archive/format/series-datasets.ts';
import { encodeTexts } from '../../../src/archive/format/text-columns.ts';
import { checkProperty, printSeed } from '../../harness/properties.ts';
import { share } from '../../harness/share.ts';
import { listTexts } from '../texts.ts';

// event_at and received_at: which times the row of a key has, whichever of its rows is kept.

printSeed('series times');
const missing = Number.NaN;
const micro = 1_780_272_000_000_000;

interface Row {
  readonly t: number;
  readonly value: number;
  readonly eventAt: number;
  readonly receivedAt: number;
}
interface Batch {
  readonly symbol: string;
  readonly rank: number;
  readonly observedAt: number;
  readonly rows: readonly Row[];
}

const anyTime = fc.oneof(
  fc.constant(missing),
  fc.nat(5).map((us) => micro + us),
);
const anyRow: fc.Arbitrary<Row> = fc.record({
  t: fc.nat(6),
  value: fc.constantFrom(0.25, 0.5, 0.75),
  eventAt: anyTime,
  receivedAt: anyTime,
});
const anyBatch: fc.Arbitrary<Batch> = fc.record({
  symbol: fc.constantFrom('A', 'AB', '😀'),
  rank: fc.nat(2),
  observedAt: fc.nat(3),
  rows: fc.array(anyRow, { minLength: 1, maxLength: 8 }).map((rows) => rows.toSorted((a, b) => a.t - b.t)),
});
/** Each with a publish and a place in the order. */
const anyBatches = fc.array(fc.tuple(anyBatch, fc.nat(3), fc.nat()), { maxLength: 10 });

/** A trade is known by its time here, so that both datasets have one key. */
function toChunk(dataset: SeriesDataset, { symbol, rows, ...rest }: Batch): SeriesChunk {
  const column = (pick: (row: Row) => number): Float64Array => Float64Array.from(rows, pick);
  const isTrades = dataset === 'trades';
  const numbers = (isTrades ? [null, 1, missing] : [null, missing, missing, missing]).map((constant) =>
    column(({ value }) => constant ?? value),
  );
  const times = [column(({ eventAt }) => eventAt), column(({ receivedAt }) => receivedAt)];
  const texts = isTrades ? [rows.map(({ t }) => `${t}`), ...[1, 2, 3, 4].map(() => rows.map(() => null))] : [];
  const areKnown = times.some((of) => of.some((time) => !Number.isNaN(time)));
  return {
    symbol,
    runId: 'run',
    ...rest,
    t: column(({ t }) => t),
    values: numbers,
    texts: texts.map(encodeTexts),
    ...(areKnown && { times }),
  };
}

const toKnown = (windows: ReadonlyMap<string, readonly PrecedenceWindow[]>) => ({
  getWindows: (symbol: string) => windows.get(symbol) ?? [],
  inferPrecedence: () => ({ rank: 0, observedAt: Number.NEGATIVE_INFINITY }),
});

interface Published {
  readonly columns: SeriesColumns;
  readonly windows: ReadonlyMap<string, readonly PrecedenceWindow[]>;
}
const nothing = (dataset: SeriesDataset): Published => ({ columns: createEmptySeries(dataset), windows: new Map() });

function publish(dataset: SeriesDataset, { columns, windows }: Published, batch: readonly Batch[]) {
  const chunks = batch.map((one) => toChunk(dataset, one));
  const merged: MergedSeries = mergeSeries(dataset, columns, chunks, toKnown(windows));
  const fresh = Map.groupBy(merged.precedence, ({ symbol }) => symbol);
  const all = new Map(windows);
  for (const [symbol, list] of fresh) all.set(symbol, overlayPrecedence(windows.get(symbol) ?? [], list));
  return { columns: merged.columns, windows: all, isChanged: merged.isChanged };
}

const publishAll = (dataset: SeriesDataset, batches: readonly (readonly Batch[])[]): Published =>
  batches.reduce<Published>((published, batch) => publish(dataset, published, batch), nothing(dataset));

/** Rows with all that they have; a time that no row has is null, as in files. */
function listRows({ symbols, offsets, t, values, texts, times }: SeriesColumns) {
  const strings = texts.map(listTexts);
  const orNull = (value: number | undefined): number | null => (Number.isNaN(value ?? missing) ? null : value!);
  return symbols.flatMap((symbol, s) =>
    Array.from({ length: offsets[s + 1]! - offsets[s]! }, (_, i) => {
      const row = offsets[s]! + i;
      const [eventAt, receivedAt] = [0, 1].map((c) => orNull(times?.[c]?.[row]));
      return {
        symbol,
        t: t[row]!,
        values: values.map((one) => orNull(one[row])),
        texts: strings.map((one) => one[row]),
        eventAt,
        receivedAt,
      };
    }),
  );
}

/** The times of each key, from all of its observations at once. */
function listTimesPlainly(dataset: SeriesDataset, batches: readonly Batch[]) {
  const counted = batches.flatMap(({ symbol, rows }) =>
    rows
      .filter(({ t }, i) => dataset === 'trades' || t !== rows[i + 1]?.t)
      .map((row) => ({ key: JSON.stringify([symbol, row.t]), ...row })),
  );
  const choose = (values: readonly number[], pick: (...of: number[]) => number): number | null => {
    const known = values.filter((value) => !Number.isNaN(value));
    return known.length === 0 ? null : pick(...known);
  };
  return new Map(
    [...Map.groupBy(counted, ({ key }) => key)].map(([key, of]) => [
      key,
      [
        choose(
          of.map(({ eventAt }) => eventAt),
          Math.max,
        ),
        choose(
          of.map(({ receivedAt }) => receivedAt),
          Math.min,
        ),
      ],
    ]),
  );
}

type Drawn = readonly (readonly [Batch, number, number])[];
const toBatches = (drawn: Drawn): Batch[][] =>
  [
    ...Map.groupBy(
      drawn.toSorted(([, , a], [, , b]) => a - b),
      ([, place]) => place,
    ).values(),
  ].map((group) => group.map(([batch]) => batch));

describe.each(['quotes', 'trades'] as const)('finer times of %s', (dataset) => {
  test('are the latest event_at and the earliest received_at of all observations of a key', () => {
    checkProperty([anyBatches], share * 300, (drawn) => {
      const { columns } = publishAll(dataset, toBatches(drawn));
      const plain = listTimesPlainly(
        dataset,
        drawn.map(([batch]) => batch),
      );
      const found = listRows(columns).map((row) => [
        JSON.stringify([row.symbol, row.t]),
        [row.eventAt, row.receivedAt],
      ]);
      expect(found.toSorted()).toEqual([...plain].toSorted());
    });
  });

  test('and the rows are the same for any order and grouping of the observations', () => {
    checkProperty([anyBatches, fc.nat(9)], share * 300, (drawn, turn) => {
      const atOnce = drawn.map(([batch]) => batch);
      const expected = listRows(publishAll(dataset, [atOnce]).columns);
      expect(
        listRows(publishAll(dataset, [[...atOnce.slice(turn), ...atOnce.slice(0, turn)].reverse()]).columns),
      ).toEqual(expected);
      expect(listRows(publishAll(dataset, toBatches(drawn)).columns)).toEqual(expected);
      expect(listRows(publishAll(dataset, atOnce.map((one) => [one]).reverse()).columns)).toEqual(expected);
    });
  });

  test('do not change if everything is observed again; otherwise the merge says that rows changed', () => {
    checkProperty([anyBatches, anyBatch], share * 300, (drawn, next) => {
      const all = drawn.map(([batch]) => batch);
      const published = publishAll(dataset, [all]);
      expect(publish(dataset, published, all).isChanged).toBe(false);
      const { columns, isChanged } = publish(dataset, published, [next]);
      expect(isChanged).toBe(JSON.stringify(listRows(columns)) !== JSON.stringify(listRows(published.columns)));
    });
  });

  test('that differ are no conflict', () => {
    checkProperty([fc.array(anyBatch, { minLength: 1, maxLength: 6 })], share * 100, (batches) => {
      const same = batches.map((batch) => ({ ...batch, rows: batch.rows.map((row) => ({ ...row, value: 0.5 })) }));
      const chunks = same.map((one) => toChunk(dataset, one));
      const { conflicts, tallies } = mergeSeries(dataset, createEmptySeries(dataset), chunks, toKnown(new Map()));
      expect(conflicts).toEqual([]);
      expect([...tallies.values()].every((tally) => tally.conflicts === 0)).toBe(true);
    });
  });

  test('are merged without a change of the input', () => {
    checkProperty([fc.array(anyBatch, { minLength: 1, maxLength: 6 }), anyBatch], share * 50, (batches, next) => {
      const published = publishAll(dataset, [batches]);
      const chunk = toChunk(dataset, next);
      const numbers = () => [published.columns, chunk].map(({ t, values, times }) => ({ t, values, times }));
      const copies = structuredClone(numbers());
      mergeSeries(dataset, published.columns, [chunk], toKnown(published.windows));
      expect(numbers()).toEqual(copies);
    });
  });
});
