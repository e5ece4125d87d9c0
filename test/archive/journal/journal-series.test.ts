import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../../src/archive/archive.ts';
import { type PrecedenceWindow, precedenceRanks } from '../../../src/archive/format/precedence.ts';
import { sortSeriesByTime } from '../../../src/archive/format/series-rows.ts';
import { encodeTexts } from '../../../src/archive/format/text-columns.ts';
import { ticksPerCoveredDay } from '../../../src/archive/journal/journal.ts';
import { readJournalLoad } from '../../../src/archive/journal/journal-books.ts';
import { consumeJournal, listSeriesParts, listTickParts } from '../../../src/archive/journal/journal-check.ts';
import {
  appendSeries,
  consumeSeries,
  readPartSeries,
  type SeriesRecord,
} from '../../../src/archive/journal/journal-series.ts';
import {
  openDayPrecedence,
  readSeriesPrecedence,
  recordPrecedence,
  toSeriesPrecedence,
} from '../../../src/archive/journal/precedence-store.ts';
import { isInRange } from '../../../src/base/symbol-range.ts';
import { floorToDay } from '../../../src/base/window.ts';
import { checkProperty } from '../../harness/properties.ts';
import { share } from '../../harness/share.ts';
import { type Quote, quoteAnswer } from '../quotes.ts';
import { day0, dayMs, hourMs, indexed, now, opened } from '../scratch.ts';
import { listTexts } from '../texts.ts';

const anyNumber = fc.constantFrom(Number.NaN, 0, -0, 0.1 + 0.2, 1e300, Number.MIN_VALUE);
const anyRecord = fc
  .record({
    symbol: fc.constantFrom('A', 'B', '🚀 x'),
    rows: fc.array(fc.tuple(fc.nat(3 * dayMs), anyNumber, anyNumber, anyNumber, anyNumber), { maxLength: 12 }),
    windows: fc.array(fc.tuple(fc.nat(3 * dayMs), fc.integer({ min: 1, max: 2 * dayMs })), { maxLength: 3 }),
    observedAt: fc.integer({ min: now - 5, max: now }),
    rank: fc.constantFrom(...Object.values(precedenceRanks)),
  })
  .map(({ symbol, rows, windows, ...rest }) =>
    quoteAnswer(
      symbol,
      rows.map(([t, ...numbers]): Quote => [day0 + t, ...numbers]),
      { windows: windows.map(([from, length]) => ({ from: day0 + from, to: day0 + from + length })), ...rest },
    ),
  );

/** Rows of a record as text, with the bits of each number. */
const toLines = (
  { symbol, observedAt, rank }: Pick<SeriesRecord, 'symbol' | 'observedAt' | 'rank'>,
  { t, values }: SeriesRecord['rows'],
) =>
  Array.from(t, (time, i) => {
    const texts = values.map((column) => (Object.is(column[i], -0) ? '-0' : String(column[i])));
    return `${symbol} ${observedAt} ${rank} ${time} ${texts.join(' ')}`;
  });

const readAll = (archive: Archive) => {
  const index = indexed(archive);
  return listSeriesParts(index).flatMap((part) =>
    readPartSeries(archive.state.db, part, index).map((input) => ({ part, ...input })),
  );
};

describe('the journal of a series', () => {
  test('returns every row and window in the part of its day and symbol, in the order of acceptance', () => {
    const archive = opened({ parts: 3 });
    const { state } = archive;
    checkProperty([fc.array(anyRecord, { maxLength: 6 })], share * 60, (records) => {
      state.db.script('delete from journal; delete from journal_series; delete from journal_series_coverage');
      appendSeries(state, records);
      const inputs = readAll(archive);
      for (const { part, dataset, chunks, covered } of inputs) {
        expect(dataset).toBe('quotes');
        for (const chunk of chunks) {
          expect(chunk.t.length).toBeGreaterThan(0);
          expect(isInRange(part, chunk.symbol)).toBe(true);
          for (const t of chunk.t) expect(floorToDay(t)).toBe(part.day);
        }
        for (const [symbol, windows] of covered) {
          expect(isInRange(part, symbol)).toBe(true);
          for (const { from, to } of windows)
            expect(part.day <= from && from < to && to <= part.day + dayMs).toBe(true);
        }
      }
      // Parts are in the order of days: a symbol's rows come day by day, record by record.
      for (const symbol of ['A', 'B', '🚀 x']) {
        const mine = inputs.flatMap(({ chunks }) => chunks.filter((chunk) => chunk.symbol === symbol));
        const days = [...new Set(mine.flatMap(({ t }) => [...t].map(floorToDay)))].sort((a, b) => a - b);
        const expected = days.flatMap((day) =>
          records
            .filter((record) => record.symbol === symbol)
            .flatMap((record) => toLines(record, record.rows).filter((_, i) => floorToDay(record.rows.t[i]!) === day)),
        );
        expect(mine.flatMap((chunk) => toLines(chunk, chunk))).toEqual(expected);
      }
      const covered = inputs.flatMap((input) => [...input.covered.values()].flat());
      const ms = (windows: readonly { from: number; to: number }[]): number =>
        windows.reduce((sum, w) => sum + w.to - w.from, 0);
      expect(ms(covered)).toBe(ms(records.flatMap((record) => record.covered)));
      // A row has the size of two and a half ticks.
      const rows = records.reduce((sum, record) => sum + record.rows.t.length, 0);
      expect(readJournalLoad(state.db)).toBe(2.5 * rows + ticksPerCoveredDay * covered.length);
    });
  });

  test('shows a publish only the records that were there when it began, and keeps the rest', () => {
    const archive = opened({ parts: 1 });
    const { state } = archive;
    const one = (t: number) => quoteAnswer('A', [[t, 0.5, 0.6, 1, 2]], { windows: [{ from: t, to: t + 1 }] });
    appendSeries(state, [one(day0)]);
    const index = indexed(archive);
    appendSeries(state, [one(day0 + 1)]);
    const part = { day: day0, part: 0, from: 'A', to: 'A' };
    const [input] = readPartSeries(state.db, part, index);
    expect([...input!.chunks[0]!.t, input!.chunks.length, input!.covered.get('A')!.length]).toEqual([day0, 1, 1]);
    consumeSeries(state.db, [part], index.end);
    consumeJournal(state.db, [], index.end, []);
    const left = readAll(archive);
    expect(left.map(({ chunks, covered }) => [[...chunks[0]!.t], covered.get('A')!.length])).toEqual([[[day0 + 1], 1]]);
  });

  test('writes nothing for an empty record, and is not of ticks', () => {
    const archive = opened();
    const { state } = archive;
    appendSeries(state, [quoteAnswer('A', [])]);
    expect(state.db.one('select count(*) as n from journal')).toEqual({ n: 0 });
    appendSeries(state, [quoteAnswer('A', [[day0, 1, 1, 1, 1]])]);
    expect(listTickParts(indexed(archive))).toEqual([]);
  });

  test('a failed append leaves nothing of its records', () => {
    const { state } = opened();
    const broken = { ...quoteAnswer('B', [[day0, 1, 1, 1, 1]]), symbol: null as unknown as string };
    expect(() => appendSeries(state, [quoteAnswer('A', [[day0, 1, 1, 1, 1]]), broken])).toThrow();
    for (const table of ['journal', 'journal_series', 'series_counts', 'symbols'])
      expect(state.db.one(`select count(*) as n from ${table}`), table).toEqual({ n: 0 });
  });

  test.each(['journal_series', 'journal_series_coverage'])(
    'a row of %s that has no record, or no index entry, is damage',
    (table) => {
      const archive = opened({ parts: 1 });
      const { state } = archive;
      const add = (): void =>
        appendSeries(state, [quoteAnswer('A', [[day0, 1, 1, 1, 1]], { windows: [{ from: day0, to: day0 + 1 }] })]);
      add();
      state.db.run(`update ${table} set record_id = record_id + 5`);
      expect(() => readAll(archive)).toThrow('journal in the state database is damaged');
      state.db.run(`delete from ${table}`);
      expect(() => readAll(archive)).toThrow('too few rows');
      state.db.script('delete from journal; delete from journal_series; delete from journal_series_coverage');
      add();
      for (const [column, value] of [
        ['symbol', "'B'"],
        ['day', String(day0 + dayMs)],
        ['dataset', "'trades'"],
        ['checksum', '0'],
      ]) {
        const before = state.db.one<Record<string, never>>(`select ${column} as v from ${table}`)!.v;
        state.db.run(`update ${table} set ${column} = ${value}`);
        expect(() => readAll(archive), column).toThrow('does not match its checksum');
        state.db.run(`update ${table} set ${column} = ?`, before!);
      }
      expect(readAll(archive)).toHaveLength(1);
    },
  );
});

test('rows are sorted by time, those of one time in reading order', () => {
  checkProperty([fc.array(fc.nat(9), { maxLength: 40 })], share * 100, (times) => {
    const rows = {
      t: Float64Array.from(times),
      values: [Float64Array.from(times, (_, i) => i)],
      texts: [encodeTexts(times.map((_, i) => `${i}`))],
    };
    const { t, values, texts } = sortSeriesByTime(rows);
    // The texts stay with their rows.
    expect(listTexts(texts[0]!)).toEqual([...values[0]!].map(String));
    const isNewestFirst = times.every((time, i) => i === 0 || time <= times[i - 1]!);
    const isConstant = times.every((time) => time === times[0]);
    const turn = isNewestFirst && !isConstant ? -1 : 1;
    const order = times.map((_, i) => i).sort((a, b) => times[a]! - times[b]! || turn * (a - b));
    expect([[...t], [...values[0]!]]).toEqual([order.map((i) => times[i]), order]);
    expect([...rows.t]).toEqual(times);
  });
});

describe('the precedence of a series', () => {
  const window = (from: number, to: number, observedAt: number): PrecedenceWindow => ({
    symbol: 'A',
    from: day0 + from,
    to: day0 + to,
    rank: 0,
    observedAt,
  });

  test('is apart from that of ticks, and each day from the others', () => {
    const { db } = opened().state;
    recordPrecedence(db, [window(0, 5, 1)], 'quotes');
    recordPrecedence(db, [window(2, 3, 2)]);
    recordPrecedence(db, [window(3, 4, 3), { ...window(0, 1, 4), from: day0 + dayMs, to: day0 + dayMs + 1 }], 'quotes');
    const ofQuotes = (day: number) =>
      toSeriesPrecedence(readSeriesPrecedence(db, 'quotes', day, ['A', 'B']), new Map()).getWindows('A');
    expect(ofQuotes(day0)).toEqual([window(0, 3, 1), window(3, 4, 3), window(4, 5, 1)]);
    expect(ofQuotes(day0 + dayMs)).toEqual([{ ...window(0, 1, 4), from: day0 + dayMs, to: day0 + dayMs + 1 }]);
    expect(openDayPrecedence(db, day0).getWindows('A')).toEqual([window(2, 3, 2)]);
    expect(ofQuotes(day0 - dayMs)).toEqual([]);
  });

  test('that is unknown follows from the coverage of quotes, and otherwise is that of an import before all others', () => {
    const covered = { from: day0, to: day0 + hourMs, fetchedAt: 7, evidence: 'declared' } as const;
    const coverage = new Map([
      ['A', [{ ...covered, origin: 'import' as const }]],
      ['B', [{ ...covered, origin: 'poll' as const }]],
    ]);
    const { inferPrecedence } = toSeriesPrecedence(new Map(), coverage);
    expect(inferPrecedence('A', day0)).toEqual({ rank: precedenceRanks.import, observedAt: 7 });
    expect(inferPrecedence('B', day0 + hourMs - 1)).toEqual({ rank: precedenceRanks.poll, observedAt: 7 });
    for (const [symbol, t] of [
      ['B', day0 + hourMs],
      ['C', day0],
    ] as const)
      expect(inferPrecedence(symbol, t)).toEqual({
        rank: precedenceRanks.import,
        observedAt: Number.NEGATIVE_INFINITY,
      });
  });
});
