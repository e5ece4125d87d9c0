import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import type { CoveredWindow, LostWindow } from '../../src/archive/format/coverage.ts';
import { datasets } from '../../src/archive/format/datasets.ts';
import { precedenceRanks } from '../../src/archive/format/precedence.ts';
import type { TickChunk } from '../../src/archive/format/tick-columns.ts';
import { sortTicksByTime } from '../../src/archive/journal/journal.ts';
import { toKnownPrecedence } from '../../src/archive/journal/precedence-store.ts';
import { findKeptRowGroups } from '../../src/archive/parquet/kept-row-groups.ts';
import { decodeTicks, encodeTicks } from '../../src/archive/parquet/ticks-file.ts';
import { type MergeTask, mergePartition } from '../../src/archive/publish/merge-partition.ts';
import { listSpilledDays, openSpillFile, type SpilledChunk } from '../../src/archive/publish/spill-file.ts';
import { compareUtf8 } from '../../src/base/symbol-name.ts';
import { dayMs } from '../../src/base/window.ts';
import { checkProperty } from '../harness/properties.ts';
import { scratchRoot } from '../harness/scratch-root.ts';
import { share } from '../harness/share.ts';
import { encodeTicksWithArrow } from './arrow-ticks.ts';
import { encodeSeries } from './encode-series.ts';
import { toSeriesColumns } from './format/series-columns.ts';

const day = Date.UTC(2026, 6, 11);
const minutes = 60_000;
const symbols = ['A', 'B', 'C', '\u{e000}', '😀'];
const folder = mkdtempSync(join(scratchRoot, 'part-task-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const symbol = fc.constantFrom(...symbols);
const moment = fc.nat(200).map((minute) => day + minute * minutes);
const chunk = fc
  .record({
    symbol,
    rows: fc.array(fc.tuple(moment, fc.constantFrom(0.25, 0.5, 0.1 + 0.2)), { minLength: 1, maxLength: 20 }),
    rank: fc.constantFrom(...Object.values(precedenceRanks)),
    observedAt: fc.nat(3),
    runId: fc.constantFrom('one', 'two'),
  })
  .map(
    ({ rows, ...rest }): TickChunk => ({
      ...rest,
      ...sortTicksByTime({ t: Float64Array.from(rows, ([t]) => t), p: Float64Array.from(rows, ([, p]) => p) }),
    }),
  );
const window = fc.tuple(moment, fc.integer({ min: 1, max: 90 })).map(([from, n]) => ({ from, to: from + n * minutes }));
const bySymbol = <T>(items: readonly (readonly [string, T])[]): Map<string, T[]> =>
  new Map([...Map.groupBy(items, ([name]) => name)].map(([name, list]) => [name, list.map(([, item]) => item)]));
const answers = fc
  .array(fc.tuple(symbol, window, fc.nat(3)), { maxLength: 6 })
  .map((list) =>
    bySymbol(
      list.map(
        ([name, w, at]) =>
          [name, { ...w, fetchedAt: at, origin: 'import', evidence: 'declared' } as CoveredWindow] as const,
      ),
    ),
  );
const withdrawn = fc
  .array(fc.tuple(symbol, window), { maxLength: 3 })
  .map((list) => bySymbol(list.map(([name, w]) => [name, { ...w, at: day }] as const)));
const lost = fc
  .array(fc.tuple(symbol, window, fc.nat(3)), { maxLength: 3 })
  .map((list) => bySymbol(list.map(([name, w, ticks]) => [name, lossOf(name, w, ticks)] as const)));
const lossOf = (name: string, w: { from: number; to: number }, ticks: number): LostWindow => ({
  dataset: 'ticks',
  symbol: name,
  ...w,
  ticks,
});

const nothing = toKnownPrecedence({ windows: new Map(), responses: new Map() });
const taskOf = (
  rest: Pick<MergeTask, 'old' | 'chunks' | 'coverage' | 'answers' | 'withdrawn' | 'lost'> & Partial<MergeTask>,
): MergeTask => ({
  day,
  part: 0,
  intervals: ['1h', '1d'],
  series: new Map(),
  listed: new Map(),
  groupRows: 16,
  late: [],
  ...rest,
});

/** The quotes of the part as a file, if there are any. */
const series = fc
  .uniqueArray(fc.tuple(symbol, moment, fc.constantFrom(Number.NaN, 0.2), fc.constantFrom(Number.NaN, 0.3)), {
    maxLength: 30,
    selector: ([name, t]) => `${name} ${t}`,
  })
  .map((rows): MergeTask['series'] => {
    const columns = toSeriesColumns(
      rows.map((row) => [...row, Number.NaN, 1] as const),
      4,
    );
    return new Map(rows.length === 0 ? [] : [['quotes', encodeSeries('quotes', columns, 7)]]);
  });

const inputs = fc.record({
  before: fc.array(chunk, { maxLength: 8 }),
  chunks: fc.array(chunk, { maxLength: 10 }),
  answers,
  withdrawn,
  lost,
  series,
});

test('a part comes out the same, byte for byte, whatever lots of symbols it is merged in', () => {
  checkProperty([inputs, fc.constantFrom(0, 1, 7, 40)], share * 100, ({ before, ...rest }, ticksMax) => {
    const first = taskOf({
      old: null,
      chunks: before,
      coverage: new Map(),
      answers: rest.answers,
      withdrawn: new Map(),
      lost: new Map(),
    });
    const published = mergePartition(first, nothing);
    const old = published.files.find(({ dataset }) => dataset === 'ticks')?.bytes ?? null;
    const task = taskOf({ old, coverage: published.coverage, ...rest });
    expect(mergePartition(task, nothing, ticksMax)).toEqual(mergePartition(task, nothing));
  });
});

test('a merged part has the same bytes as an encoding of all its rows, with or without row groups to keep', () => {
  const encoders = [encodeTicks, encodeTicksWithArrow];
  const draw = fc.tuple(fc.constantFrom(...encoders), fc.constantFrom(8, 16, 16, 32), fc.constantFrom(1, 40, 1000));
  const late = fc.record({
    before: fc.array(chunk, { minLength: 6, maxLength: 12 }),
    chunks: fc.array(chunk, { minLength: 1, maxLength: 2 }),
    answers,
    withdrawn,
    lost,
    series,
  });
  let kept = 0;
  checkProperty([late, draw], share * 150, ({ before, chunks, ...rest }, [encode, rowsBefore, ticksMax]) => {
    const plain = { coverage: new Map(), ...rest };
    const published = mergePartition(taskOf({ ...plain, old: null, chunks: before }), nothing);
    const bytes = ticksOf(published);
    // Nothing is kept of a file with other row groups, or of another writer.
    const old = bytes === undefined ? null : encode(decodeTicks(bytes), rowsBefore);
    const merged = ticksOf(mergePartition(taskOf({ ...plain, old, chunks }), nothing, ticksMax));
    if (merged === undefined) return;
    const rows = decodeTicks(merged);
    expect(Buffer.compare(merged, encodeTicks(rows, 16))).toBe(0);
    const first = chunks.map((one) => one.symbol).sort(compareUtf8)[0]!;
    if (old === null || compareUtf8(rows.symbols[0]!, first) >= 0) return;
    const unchanged = decodeTicks(old).offsets[rows.symbols.findIndex((name) => compareUtf8(name, first) >= 0)]!;
    const found = findKeptRowGroups(old, datasets.ticks.columns, unchanged, 16);
    const isKept = encode === encodeTicks && (rowsBefore === 16 || decodeTicks(old).t.length <= 16);
    expect(found?.rows ?? 0).toBe(isKept ? Math.floor(unchanged / 16) * 16 : 0);
    kept += found?.rows ?? 0;
  });
  expect(kept).toBeGreaterThan(0);
});

const ticksOf = ({ files }: ReturnType<typeof mergePartition>): Uint8Array | undefined =>
  files.find(({ dataset }) => dataset === 'ticks')?.bytes;

test('nothing is kept of a file with a changed footer, and a damaged one is an error', () => {
  const symbols = ['A', 'B'];
  const t = Float64Array.from({ length: 64 }, (_, i) => day + (i % 32));
  const file = encodeTicks(
    { symbols, offsets: Float64Array.of(0, 32, 64), t, p: t.map((time) => (time % 7) / 10) },
    16,
  );
  const find = (bytes: Uint8Array, rows = 32): number =>
    findKeptRowGroups(bytes, datasets.ticks.columns, rows, 16)?.rows ?? 0;
  expect([0, 15, 16, 33, 64, 1000].map((rows) => find(file, rows))).toEqual([0, 0, 16, 32, 64, 0]);
  const footerFrom = file.length - 8 - new DataView(file.buffer).getUint32(file.length - 8, true);
  for (let at = footerFrom; at < file.length; at++) {
    const changed = Uint8Array.from(file, (byte, i) => (i === at ? byte ^ 0x11 : byte));
    let found: ReturnType<typeof findKeptRowGroups>;
    try {
      found = findKeptRowGroups(changed, datasets.ticks.columns, 32, 16);
    } catch (error) {
      expect(error).toBeInstanceOf(Error);
    }
    if (found !== undefined) expect(Buffer.compare(found.bytes, file.subarray(0, found.bytes.length))).toBe(0);
  }
  // Another writer may lay out the same row groups.
  const text = Buffer.from(file).indexOf('oddslake', footerFrom);
  expect(find(Uint8Array.from(file, (byte, i) => (i === text ? byte ^ 1 : byte)))).toBe(0);
  expect(() => find(new Uint8Array(20))).toThrow('PAR1');
  expect(findKeptRowGroups(file, datasets.candles_1h.columns, 32, 16)).toBeUndefined();
});

test('what was put aside comes out as what was handed over, days cut apart', () => {
  let files = 0;
  checkProperty([fc.array(chunk, { minLength: 1, maxLength: 6 })], share * 100, (chunks) => {
    const spill = openSpillFile(join(folder, `${files++}`));
    // Once more, a day later: a page that reaches over midnight.
    const spilled = chunks.map(({ t, p, ...rest }): SpilledChunk => {
      const both = { t: Float64Array.of(...t, ...t.map((at) => at + dayMs)), p: Float64Array.of(...p, ...p) };
      const days = [...listSpilledDays(spill.append({ t: both.t, values: [both.p], texts: [] }))];
      expect(days.map((one) => [one.day, one.spilled.rowCount])).toEqual([
        [day, t.length],
        [day + dayMs, t.length],
      ]);
      return { ...rest, spilled: days[0]!.spilled };
    });
    spill.close();
    const rest = { old: null, coverage: new Map(), answers: new Map(), withdrawn: new Map(), lost: new Map() };
    expect(mergePartition(taskOf({ chunks: spilled, ...rest }), nothing)).toEqual(
      mergePartition(taskOf({ chunks, ...rest }), nothing),
    );
  });
});

test.each([
  ['of another day', [day + dayMs]],
  ['that is there twice', [day, day]],
  ['out of order', [day + 1, day]],
])('a tick %s in what is published already is written to no part', (_, times) => {
  const old = encodeTicks({
    symbols: ['A'],
    offsets: Float64Array.of(0, times.length),
    t: Float64Array.from(times),
    p: Float64Array.from(times, () => 0.5),
  });
  const fresh: TickChunk = {
    symbol: 'B',
    t: Float64Array.of(day),
    p: Float64Array.of(0.5),
    rank: precedenceRanks.poll,
    observedAt: 1,
    runId: 'one',
  };
  const task = taskOf({
    old,
    chunks: [fresh],
    coverage: new Map(),
    answers: new Map(),
    lost: new Map(),
    withdrawn: new Map(),
  });
  expect(() => mergePartition(task, nothing)).toThrow();
});

test('a tick of another day is written to no part', () => {
  const fresh: TickChunk = {
    symbol: 'B',
    t: Float64Array.of(day + dayMs),
    p: Float64Array.of(0.5),
    rank: precedenceRanks.poll,
    observedAt: 1,
    runId: 'one',
  };
  const task = taskOf({
    old: null,
    chunks: [fresh],
    coverage: new Map(),
    answers: new Map(),
    lost: new Map(),
    withdrawn: new Map(),
  });
  expect(() => mergePartition(task, nothing)).toThrow('Invalid rows for a part file; nothing was written');
});
