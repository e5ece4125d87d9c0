import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type MergedSeries, mergeSeries } from '../../../src/archive/format/merge-series.ts';
import {
  type KnownPrecedence,
  overlayPrecedence,
  type PrecedenceWindow,
  precedenceRanks,
} from '../../../src/archive/format/precedence.ts';
import {
  createEmptySeries,
  type SeriesChunk,
  type SeriesColumns,
  sliceSeries,
} from '../../../src/archive/format/series.ts';
import { compareDropped } from '../../../src/archive/format/series-rows.ts';
import { type RunTally, splitPart } from '../../../src/archive/format/tick-columns.ts';
import { compareUtf8 } from '../../../src/base/symbol-name.ts';
import { checkProperty } from '../../harness/properties.ts';
import { share } from '../../harness/share.ts';

// Merging series, tested against a plain model: all observations of a key in a list.

const missing = Number.NaN;
/** In UTF-16 order the last two are the other way round. */
const symbols = ['', 'A', 'AA', 'é', '\u{e000}', '￿', '😀'];
const width = 4;
const timeMax = 40;
const numbers = [missing, missing, 0, -0, 0.25, 0.5, 0.1 + 0.2, -1, Number.MAX_VALUE, Number.MIN_VALUE];

interface Row {
  readonly t: number;
  readonly values: readonly number[];
}

const anyTuple = fc.oneof(
  fc.array(fc.constantFrom(...numbers), { minLength: width, maxLength: width }),
  // Tuples that differ in the last number only.
  fc.constantFrom(missing, 0, 0.5).map((last) => [0.5, missing, 0.5, last]),
);
const anyRow: fc.Arbitrary<Row> = fc.record({ t: fc.nat(timeMax), values: anyTuple });
const anyRows = fc.oneof(
  fc.array(anyRow, { maxLength: 8 }),
  // Many rows of few times, and a long run of one tuple each.
  fc.array(fc.record({ t: fc.nat(2), values: anyTuple }), { minLength: 10, maxLength: 20 }),
  fc
    .tuple(fc.nat(timeMax), fc.integer({ min: 1, max: 80 }), fc.array(anyTuple, { minLength: 1, maxLength: 3 }))
    .map(([from, length, tuples]) =>
      Array.from({ length }, (_, i): Row => ({ t: from + i, values: tuples[i % tuples.length]! })),
    ),
);

const toChunk = (
  symbol: string,
  rows: readonly Row[],
  rest: Pick<SeriesChunk, 'rank' | 'observedAt' | 'runId'>,
): SeriesChunk => ({
  symbol,
  ...rest,
  t: Float64Array.from(rows, ({ t }) => t),
  values: Array.from({ length: width }, (_, c) => Float64Array.from(rows, ({ values }) => values[c]!)),
  texts: [],
});

const anyChunk = fc
  .record({
    symbol: fc.constantFrom(...symbols),
    rows: anyRows,
    rank: fc.constantFrom(...Object.values(precedenceRanks)),
    observedAt: fc.nat(3),
    runId: fc.constantFrom('one', 'two'),
  })
  .map(({ symbol, rows, ...rest }) => toChunk(symbol, rows, rest));
const anyChunks = fc.array(anyChunk, { maxLength: 10 });

/** An observation of one key. -0 is 0, as in ticks. */
interface Observation {
  readonly rank: number;
  readonly observedAt: number;
  readonly values: readonly number[];
}

const toKey = (symbol: string, t: number): string => JSON.stringify([symbol, t]);
const toText = (values: readonly number[]): string =>
  values.map((value) => (Number.isNaN(value) ? 'null' : value + 0)).join(' ');

/** The order of tuples, written down apart from the code: a missing number first, and the first difference decides. */
function isTupleGreater(a: readonly number[], b: readonly number[]): boolean {
  const at = a.findIndex((value, c) => !Object.is(value + 0, b[c]! + 0));
  if (at < 0) return false;
  return Number.isNaN(b[at]!) || a[at]! > b[at]!;
}

function isGreater(a: Observation, b: Observation): boolean {
  if (a.rank !== b.rank) return a.rank > b.rank;
  if (a.observedAt !== b.observedAt) return a.observedAt > b.observedAt;
  return isTupleGreater(a.values, b.values);
}

/** `counts`: whether it is the last one of its time in its chunk. */
const listObservations = (chunks: readonly SeriesChunk[]): [key: string, run: string, Observation, counts: boolean][] =>
  chunks.flatMap(({ symbol, runId, rank, observedAt, t, values }) =>
    Array.from(t, (time, i): [string, string, Observation, boolean] => [
      toKey(symbol, time),
      runId,
      { rank, observedAt, values: values.map((column) => column[i]! + 0) },
      t.lastIndexOf(time) === i,
    ]),
  );

/** What publishing batch after batch leaves, key by key, with the precedence of every key known. */
function publishPlainly(batches: readonly (readonly SeriesChunk[])[]) {
  const kept = new Map<string, Observation>();
  const conflicts = new Set<string>();
  const tallies = new Map<string, RunTally>();
  for (const batch of batches) {
    for (const [key, list] of Map.groupBy(listObservations(batch), ([of]) => of)) {
      const before = kept.get(key);
      const counted = list.filter(([, , , counts]) => counts).map(([, , one]) => one);
      const all = [...(before === undefined ? [] : [before]), ...counted];
      const winner = all.reduce((best, next) => (isGreater(next, best) ? next : best));
      const reference = toText((before ?? list[0]![2]).values);
      let isAccepted = before !== undefined;
      for (const [, run, { values, observedAt }] of list) {
        const tally = tallies.get(run) ?? { accepted: 0, duplicates: 0, conflicts: 0 };
        tallies.set(run, tally);
        if (toText(values) !== reference) tally.conflicts++;
        else if (isAccepted) tally.duplicates++;
        else {
          isAccepted = true;
          tally.accepted++;
        }
        const seenAt = before === undefined ? Math.max(observedAt, winner.observedAt) : observedAt;
        if (toText(values) !== toText(winner.values)) conflicts.add(`${key} ${seenAt} ${toText(values)}`);
      }
      if (before !== undefined && toText(before.values) !== toText(winner.values))
        conflicts.add(`${key} ${winner.observedAt} ${toText(before.values)}`);
      kept.set(key, winner);
    }
  }
  return { kept, conflicts: [...conflicts].sort(), tallies: [...tallies].sort() };
}

/** Rows as text, in their order. Distinguishes 0 from -0. */
const toLines = ({ symbols: names, offsets, t, values }: SeriesColumns): string[] =>
  names.flatMap((symbol, s) =>
    Array.from({ length: offsets[s + 1]! - offsets[s]! }, (_, i) => {
      const row = offsets[s]! + i;
      const texts = values.map((column) => (Object.is(column[row]!, -0) ? '-0' : String(column[row]!)));
      return `${toKey(symbol, t[row]!)} ${texts.join(' ')}`;
    }),
  );

const toModelLines = (kept: ReadonlyMap<string, Observation>): string[] =>
  [...kept]
    .map(([key, { values }]) => ({ key: JSON.parse(key) as [string, number], values }))
    .sort(({ key: [a, s] }, { key: [b, t] }) => Buffer.compare(Buffer.from(a), Buffer.from(b)) || s - t)
    .map(({ key, values }) => `${JSON.stringify(key)} ${values.join(' ')}`);

const toConflictLine = ({ symbol, t, seenAt, dropped }: MergedSeries['conflicts'][number]): string =>
  `${toKey(symbol, t)} ${seenAt} ${toText(dropped)}`;

/** Merges of chunks into a series, with the precedence that the state would hold. */
class Series {
  columns = createEmptySeries('quotes');
  readonly windows = new Map<string, readonly PrecedenceWindow[]>();
  readonly conflicts: MergedSeries['conflicts'][number][] = [];
  readonly tallies = new Map<string, RunTally>();
  /** Rows added, by all merges. */
  added = 0;

  readonly known: KnownPrecedence = {
    getWindows: (symbol) => this.windows.get(symbol) ?? [],
    inferPrecedence: (symbol, t) => {
      throw new Error(`the precedence of ${symbol} at ${t} was not recorded`);
    },
  };

  take(merged: MergedSeries): void {
    for (const [symbol, fresh] of Map.groupBy(merged.precedence, (window) => window.symbol))
      this.windows.set(symbol, overlayPrecedence(this.windows.get(symbol) ?? [], fresh));
    this.conflicts.push(...merged.conflicts);
    for (const [run, tally] of merged.tallies) {
      const sum = this.tallies.get(run) ?? { accepted: 0, duplicates: 0, conflicts: 0 };
      this.tallies.set(run, sum);
      sum.accepted += tally.accepted;
      sum.duplicates += tally.duplicates;
      sum.conflicts += tally.conflicts;
    }
    for (const n of merged.added.values()) this.added += n;
  }

  merge(chunks: readonly SeriesChunk[]): MergedSeries {
    const merged = mergeSeries('quotes', this.columns, chunks, this.known);
    expect(merged.isChanged).toBe(toLines(merged.columns).join('\n') !== toLines(this.columns).join('\n'));
    this.take(merged);
    this.columns = merged.columns;
    return merged;
  }

  /** The precedence of each key. */
  readPrecedence(): [string, number, number][] {
    const { symbols: names, offsets, t } = this.columns;
    return names.flatMap((symbol, s) =>
      [...t.subarray(offsets[s]!, offsets[s + 1]!)].map((time): [string, number, number] => {
        const window = this.windows.get(symbol)!.find(({ from, to }) => from <= time && time < to)!;
        return [toKey(symbol, time), window.rank, window.observedAt];
      }),
    );
  }
}

function publishAll(batches: readonly (readonly SeriesChunk[])[]): Series {
  const series = new Series();
  for (const batch of batches) series.merge(batch);
  return series;
}

/** Batches of chunks: each chunk with a batch and a place in the order. */
const anyBatches = fc.array(fc.tuple(anyChunk, fc.nat(3), fc.nat()), { maxLength: 12 });
const groupIntoBatches = (drawn: readonly (readonly [SeriesChunk, number, number])[]): SeriesChunk[][] =>
  [
    ...Map.groupBy(
      drawn.toSorted(([, , a], [, , b]) => a - b),
      ([, batch]) => batch,
    ).values(),
  ].map((group) => group.map(([chunk]) => chunk));

const compareTuples = (a: readonly number[], b: readonly number[]): number => {
  const toConflict = (dropped: readonly number[]) => ({ symbol: 'A', t: 0, seenAt: 0, dropped, droppedTexts: [] });
  return compareDropped(toConflict(a), toConflict(b));
};

describe('merging a series', () => {
  test('keeps of each key the greatest rank, time of observation and tuple, as the plain model does', () => {
    checkProperty([anyBatches], share * 400, (drawn) => {
      const batches = groupIntoBatches(drawn);
      const series = publishAll(batches);
      const { kept, conflicts, tallies } = publishPlainly(batches);
      expect(toLines(series.columns)).toEqual(toModelLines(kept));
      expect(series.columns.offsets.length).toBe(series.columns.symbols.length + 1);
      expect([...new Set(series.conflicts.map(toConflictLine))].sort()).toEqual(conflicts);
      expect([...series.tallies].sort()).toEqual(tallies);
      const precedence = series.readPrecedence();
      expect(precedence).toEqual(precedence.map(([key]) => [key, kept.get(key)!.rank, kept.get(key)!.observedAt]));
    });
  });

  test('gives the same rows and precedence for any order and grouping of the observations', () => {
    checkProperty([anyBatches], share * 400, (drawn) => {
      const atOnce = publishAll([drawn.map(([chunk]) => chunk)]);
      const inBatches = publishAll(groupIntoBatches(drawn));
      expect(toLines(inBatches.columns)).toEqual(toLines(atOnce.columns));
      expect(inBatches.readPrecedence()).toEqual(atOnce.readPrecedence());
      // Which run counts a row, and how, depends on the grouping. The number of rows does not.
      expect(inBatches.added).toBe(inBatches.columns.t.length);
      expect(atOnce.added).toBe(inBatches.added);
    });
  });

  test('gives the same conflicts for any order of the observations of a publish', () => {
    checkProperty([anyChunks, anyChunks, fc.nat()], share * 300, (before, chunks, turn) => {
      const [series, other] = [publishAll([before]), publishAll([before])];
      series.merge(chunks);
      const turned = [...chunks.slice(turn % (chunks.length + 1)), ...chunks.slice(0, turn % (chunks.length + 1))];
      other.merge(turned.reverse());
      const lines = (of: Series): string[] => of.conflicts.map(toConflictLine).sort();
      expect(lines(other)).toEqual(lines(series));
    });
  });

  test('lists each dropped tuple once for each time at which it was seen, and never one equal to the kept', () => {
    checkProperty([anyChunks, anyChunks], share * 300, (before, chunks) => {
      const series = publishAll([before]);
      const { columns, conflicts } = series.merge(chunks);
      const lines = conflicts.map(toConflictLine);
      expect(new Set(lines).size).toBe(lines.length);
      const rows = new Set(toLines(columns).map((line) => line.replaceAll('NaN', 'null')));
      for (const { symbol, t, dropped } of conflicts)
        expect(rows).not.toContain(`${toKey(symbol, t)} ${toText(dropped)}`);
    });
  });

  test('counts every row once: as accepted, duplicate or conflict', () => {
    checkProperty([anyBatches], share * 300, (drawn) => {
      const { tallies, columns } = publishAll(groupIntoBatches(drawn));
      const sums = [...tallies.values()];
      const counted = sums.reduce(
        (sum, { accepted, duplicates, conflicts }) => sum + accepted + duplicates + conflicts,
        0,
      );
      expect(counted).toBe(drawn.reduce((sum, [{ t }]) => sum + t.length, 0));
      expect(sums.reduce((sum, { accepted }) => sum + accepted, 0)).toBe(columns.t.length);
    });
  });

  test('changes nothing if everything is observed again, whatever the columns lack', () => {
    checkProperty([anyChunks], share * 200, (chunks) => {
      const series = publishAll([chunks]);
      const before = toLines(series.columns);
      const rows = series.columns.t.length;
      // Every kept row again, in one chunk for each symbol, as one later observation of a lower rank.
      const { symbols: names, offsets, t, values } = series.columns;
      const again = names.map((symbol, s): SeriesChunk => {
        const [from, to] = [offsets[s]!, offsets[s + 1]!];
        const columns = values.map((column) => column.slice(from, to));
        return { symbol, runId: 'again', rank: 0, observedAt: 9, t: t.slice(from, to), values: columns, texts: [] };
      });
      const { isChanged, conflicts } = series.merge(again);
      expect([isChanged, conflicts]).toEqual([false, []]);
      expect(toLines(series.columns)).toEqual(before);
      expect(series.tallies.get('again') ?? { duplicates: 0 }).toMatchObject({ duplicates: rows });
    });
  });

  test('does not modify its input', () => {
    checkProperty([anyChunks, anyChunks], share * 100, (before, chunks) => {
      const old = publishAll([before]);
      const { columns } = old;
      const lines = toLines(columns);
      const copy = structuredClone(chunks);
      mergeSeries('quotes', columns, chunks, old.known);
      expect(toLines(columns)).toEqual(lines);
      expect(chunks).toEqual(copy);
    });
  });

  test('of equal rank and time the greater tuple wins, a missing number being the least', () => {
    const of = (...values: number[]): SeriesChunk =>
      toChunk('A', [{ t: 1, values }], { rank: 0, observedAt: 1, runId: 'run' });
    const pairs: [number[], number[]][] = [
      [
        [missing, 1, 1, 1],
        [-1, missing, missing, missing],
      ],
      [
        [0.5, 0.6, missing, 9],
        [0.5, 0.6, 0, missing],
      ],
      [
        [0.5, missing, 0, 0],
        [0.5, missing, 0, 0.1],
      ],
      [
        [missing, missing, missing, missing],
        [missing, missing, missing, 0],
      ],
    ];
    for (const [less, more] of pairs) {
      for (const batches of [
        [[of(...less), of(...more)]],
        [[of(...more), of(...less)]],
        [[of(...less)], [of(...more)]],
        [[of(...more)], [of(...less)]],
      ]) {
        const { columns, conflicts } = publishAll(batches);
        expect(columns.values.map((column) => column[0])).toEqual(more);
        expect(conflicts.map(({ dropped }) => dropped)).toEqual([less]);
      }
      expect([compareTuples(less, more), compareTuples(more, less), compareTuples(more, more)]).toEqual([-1, 1, 0]);
    }
  });

  test('-0 and 0 are the same number, and 0 is kept', () => {
    const of = (zero: number): SeriesChunk =>
      toChunk('A', [{ t: 1, values: [zero, missing, zero, 1] }], { rank: 0, observedAt: 1, runId: 'run' });
    const { columns, conflicts, tallies } = publishAll([[of(-0)], [of(0), of(-0)]]);
    expect(columns.values.map((column) => column[0])).toEqual([0, missing, 0, 1]);
    expect(conflicts).toEqual([]);
    expect(tallies.get('run')).toEqual({ accepted: 1, duplicates: 2, conflicts: 0 });
  });
});

const splitSeries = (columns: SeriesColumns, chunks: readonly SeriesChunk[], rowsMax: number) =>
  splitPart(columns, chunks, new Set(), rowsMax, ({ t }) => t.length).map(({ first, end, ...slice }) => ({
    old: sliceSeries(columns, first, end),
    ...slice,
  }));

/** Merges slice by slice, as a publish does. */
function mergeInSlices(series: Series, chunks: readonly SeriesChunk[], rowsMax: number) {
  const parts = [...splitSeries(series.columns, chunks, rowsMax)].map((slice) => ({
    slice,
    merged: mergeSeries('quotes', slice.old, slice.chunks, series.known),
  }));
  return {
    lines: parts.flatMap(({ merged }) => toLines(merged.columns)),
    isChanged: parts.some(({ merged }) => merged.isChanged),
    conflicts: parts.flatMap(({ merged }) => merged.conflicts.map(toConflictLine)),
    precedence: parts.flatMap(({ merged }) => merged.precedence),
    added: parts.flatMap(({ merged }) => [...merged.added]),
    slices: parts.map(({ slice }) => slice),
  };
}

describe('splitting a series', () => {
  const anyLimit = fc.oneof(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 400 }));

  test('gives each symbol once, in order, with all of its rows and chunks, for any limit', () => {
    checkProperty([anyChunks, anyChunks, anyLimit], share * 300, (before, chunks, rowsMax) => {
      const { columns } = publishAll([before]);
      const slices = [...splitSeries(columns, chunks, rowsMax)];
      expect(slices.flatMap(({ old }) => toLines(old))).toEqual(toLines(columns));
      const ofSlices = slices.map(({ old, chunks: given }) => {
        const names = [...old.symbols, ...given.filter(({ t }) => t.length > 0).map(({ symbol }) => symbol)];
        return [...new Set(names)].sort(compareUtf8);
      });
      const expected = new Set([
        ...columns.symbols,
        ...chunks.flatMap(({ symbol, t }) => (t.length > 0 ? [symbol] : [])),
      ]);
      expect(ofSlices.flat()).toEqual([...expected].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
      // The chunks of a symbol stay in the order of acceptance.
      for (const symbol of expected) {
        const given = chunks.filter((chunk) => chunk.symbol === symbol && chunk.t.length > 0);
        const taken = slices
          .flatMap((slice) => slice.chunks)
          .filter((chunk) => chunk.symbol === symbol && chunk.t.length > 0);
        expect(taken).toEqual(given);
      }
      for (const [i, { old, chunks: given }] of slices.entries()) {
        expect(old.offsets[0]).toBe(0);
        expect(old.offsets.at(-1)).toBe(old.t.length);
        const rows = old.t.length + given.reduce((sum, { t }) => sum + t.length, 0);
        expect(rows <= rowsMax || ofSlices[i]!.length === 1, `${rows} rows of ${ofSlices[i]}`).toBe(true);
        expect(rows).toBeGreaterThan(0);
      }
    });
  });

  test('gives the same result as the whole', () => {
    checkProperty([anyChunks, anyChunks, anyLimit], share * 300, (before, chunks, rowsMax) => {
      const series = publishAll([before]);
      const { slices, ...inSlices } = mergeInSlices(series, chunks, rowsMax);
      const whole = mergeSeries('quotes', series.columns, chunks, series.known);
      expect(inSlices).toEqual({
        lines: toLines(whole.columns),
        isChanged: whole.isChanged,
        conflicts: whole.conflicts.map(toConflictLine),
        precedence: whole.precedence,
        added: [...whole.added],
      });
      expect(slices.length).toBeLessThanOrEqual(symbols.length);
    });
  });

  test('a slice of the columns has the rows of its symbols', () => {
    checkProperty([anyChunks, fc.nat(8), fc.nat(8)], share * 100, (chunks, a, b) => {
      const { columns } = publishAll([chunks]);
      const [first, end] = [Math.min(a, b, columns.symbols.length), Math.min(Math.max(a, b), columns.symbols.length)];
      const slice = sliceSeries(columns, first, end);
      expect(slice.symbols).toEqual(columns.symbols.slice(first, end));
      expect(toLines(slice)).toEqual(toLines(columns).slice(columns.offsets[first]!, columns.offsets[end]!));
    });
  });

  test('of nothing gives nothing', () => {
    expect([...splitSeries(createEmptySeries('quotes'), [], 10)]).toEqual([]);
  });
});
