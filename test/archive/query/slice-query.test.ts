import { afterAll, expect, test } from 'vitest';
import { datasets } from '../../../src/archive/format/datasets.ts';
import type { Chunk, Query } from '../../../src/archive/query/query.ts';
import {
  buildRangesSql,
  buildRowsSql,
  type DatasetSlice,
  readSliceChunks,
} from '../../../src/archive/query/slice-query.ts';
import { archiveFolder, open, type Tick } from './files.ts';

const archive = archiveFolder();
afterAll(archive.remove);

// Names that sort differently in UTF-8, UTF-16 and ignoring case, and one that needs quoting in SQL.
const symbols = ['A', 'B', "O'Neil", 'a', 'ﬀ', '🚀'];
const day = (date: string): Tick[] =>
  symbols.flatMap((symbol, s) =>
    Array.from({ length: s + 1 }, (_, i): Tick => [symbol, `${date}T0${i}:00:00Z`, s + i / 10]),
  );
const paths = ['2026-06-01', '2026-06-02'].map((date) => archive.ticks(date, day(date)));

const slice = (rest: Partial<DatasetSlice> = {}): DatasetSlice => ({
  dataset: 'ticks',
  columns: datasets.ticks.columns,
  keys: ['symbol', 't'],
  symbols: [],
  from: null,
  to: null,
  timeColumns: { first: 't', last: 't', isLastIncluded: true },
  ...rest,
});

const rowsOf = (query: Query, statements: readonly string[]) => rowsIn(query.readChunks(statements));

async function rowsIn(chunks: AsyncIterable<Chunk>): Promise<unknown[][]> {
  const rows: unknown[][] = [];
  for await (const chunk of chunks) rows.push(...chunk[0]!.map((_, r) => chunk.map((c) => c[r])));
  return rows;
}

test('key ranges give the same rows as one statement, with each symbol in one range of minimal size', async () => {
  const query = await open({ ticks: paths }, archive.scratch);
  const whole = await rowsOf(query, [buildRowsSql(slice(), null, true)]);
  expect(whole).toHaveLength(2 * 21);
  expect(whole.map(([symbol]) => symbol)).toEqual(symbols.flatMap((symbol, s) => Array(2 * (s + 1)).fill(symbol)));
  for (const rowsMax of [1, 5, 12, 1000]) {
    const ranges = (await query.readRows(buildRangesSql(slice(), rowsMax))) as {
      first: string;
      last: string;
      n: number;
    }[];
    expect(ranges.reduce((sum, { n }) => sum + n, 0)).toBe(whole.length);
    for (const { first, last, n } of ranges) if (first !== last) expect(n).toBeLessThan(rowsMax + 12);
    expect(
      await rowsOf(
        query,
        ranges.map((range) => buildRowsSql(slice(), range, true)),
      ),
    ).toEqual(whole);
    expect(await rowsIn(readSliceChunks(query, slice(), ranges))).toEqual(whole);
  }
  expect(await rowsIn(readSliceChunks(query, slice(), [null]))).toEqual(whole);
  expect(await query.readRows(buildRangesSql(slice(), 1))).toHaveLength(symbols.length);
  await query.close();
});

test('selects rows by symbols and a half-open window; text output has one header for all statements', async () => {
  const query = await open({ ticks: paths }, archive.scratch);
  const at = (iso: string): number => Date.parse(iso);
  const window = { from: at('2026-06-01T01:00:00Z'), to: at('2026-06-02T01:00:00Z') };
  const chosen = slice({ symbols: ["O'Neil", '🚀'], ...window });
  expect(await rowsOf(query, [buildRowsSql(chosen, null, true)])).toEqual([
    ...["O'Neil", '🚀'].flatMap((symbol) =>
      day('2026-06-01')
        .concat(day('2026-06-02'))
        .flatMap(([name, iso, p]) => {
          const t = at(iso);
          return name === symbol && window.from <= t && t < window.to ? [[name, t, p]] : [];
        }),
    ),
  ]);
  const ranges = symbols.map((symbol) => buildRowsSql(slice(window), { first: symbol, last: symbol }, false));
  let text = '';
  for await (const piece of query.readTexts(ranges, 'csv')) text += piece;
  const lines = text.trimEnd().split('\n');
  expect(lines.filter((line) => line === 'symbol,t,p')).toHaveLength(1);
  expect(lines[1]).toBe('A,2026-06-02T00:00:00.000Z,0');
  await query.close();
});

test('a reader that stops or is aborted ends its query and not the next one', async () => {
  const query = await open({ ticks: paths }, archive.scratch);
  for await (const _ of query.readChunks([buildRowsSql(slice(), null, true)])) break;
  const stop = new AbortController();
  stop.abort(new Error('enough'));
  await expect(query.readChunks([buildRowsSql(slice(), null, true)], stop.signal).next()).rejects.toThrow('enough');
  await expect(query.readChunks(['SELECT now()']).next()).rejects.toThrow(TypeError);
  await expect(query.readChunks(['DROP VIEW ticks']).next()).rejects.toMatchObject({ exitCode: 2 });
  expect(await rowsOf(query, [buildRowsSql(slice(), null, true)])).toHaveLength(42);
  await query.close();
});
