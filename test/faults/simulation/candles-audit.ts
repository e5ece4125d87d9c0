import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { datasets } from '../../../src/archive/format/datasets.ts';
import type { Manifest } from '../../../src/archive/format/manifest.ts';
import { type CellValue, decodeRows } from '../../../src/archive/parquet/rows.ts';
import type { Window } from '../../../src/base/window.ts';
import type { Reader } from './reader.ts';
import type { RowsIn } from './series-audit.ts';
import { dayMs, hourMs } from './world.ts';

const intervals = { candles_1h: hourMs, candles_1d: dayMs } as const;

type Row = readonly (string | number | null)[];

/** The published rows of quotes and trades of a part, by symbol, in the order of the file. */
interface PartSeries {
  readonly quotes: ReadonlyMap<CellValue, readonly (readonly CellValue[])[]>;
  readonly trades: ReadonlyMap<CellValue, readonly (readonly CellValue[])[]>;
}

/** Errors of published candles: each part file must match the ticks, the coverage, the quotes and the trades of its day. */
export function startCandlesAudit(root: string, reader: Reader, rowsIn: RowsIn) {
  // By the hashes of all inputs: most files do not change between audits.
  const correct = new Set<string>();

  return function* wrongCandles(
    manifest: Manifest,
    coverage: ReadonlyMap<string, readonly Window[]>,
  ): Generator<string> {
    for (const [name, intervalMs] of Object.entries(intervals) as [keyof typeof intervals, number][]) {
      const { files } = manifest.datasets[name];
      if (files.every(({ rows }) => rows === 0)) continue;
      const byPath = new Map(files.map((file) => [file.path, file]));
      for (const ticks of manifest.datasets.ticks.files) {
        if (ticks.rows === 0) continue;
        const path = ticks.path.replace('ticks/', `${name}/`);
        const file = byPath.get(path);
        const [covered, quotes, trades] = (['coverage', 'quotes', 'trades'] as const).map((dataset) =>
          manifest.datasets[dataset].files.find((one) => one.path === ticks.path.replace('ticks/', `${dataset}/`)),
        );
        const inputs = [ticks, covered, quotes, trades].map((input) => input?.sha256);
        const key = [path, file?.sha256, ...inputs].join(' ');
        if (file === undefined) yield `candles: ${path} is missing`;
        if (file === undefined || correct.has(key)) continue;
        const published = decodeRows(datasets[name].columns, readFileSync(join(root, path))) as unknown as Row[];
        const bySymbol = (rows: ReturnType<RowsIn>) => Map.groupBy(rows, ([symbol]) => symbol!);
        const series = {
          quotes: bySymbol(quotes === undefined ? [] : rowsIn('quotes', quotes)),
          trades: bySymbol(trades === undefined ? [] : rowsIn('trades', trades)),
        };
        const expected = candlesOf(reader.file(ticks.path) ?? new Map(), coverage, series, intervalMs);
        const texts = published.map((row) => JSON.stringify(row)).sort();
        if (texts.join('\n') === expected.sort().join('\n')) correct.add(key);
        else yield `candles: ${path} does not match its ticks: ${texts.find((text) => !expected.includes(text))}`;
      }
    }
  };
}

function candlesOf(
  part: ReadonlyMap<string, ReadonlyMap<number, number>>,
  coverage: ReadonlyMap<string, readonly Window[]>,
  { quotes, trades }: PartSeries,
  intervalMs: number,
): string[] {
  const out: string[] = [];
  for (const [symbol, prices] of part) {
    for (const [start, ticks] of Map.groupBy(prices, ([t]) => Math.floor(t / intervalMs) * intervalMs)) {
      const list = ticks.toSorted(([a], [b]) => a - b).map(([, p]) => p);
      const end = start + intervalMs;
      const coveredMs = (coverage.get(symbol) ?? []).reduce(
        (sum, { from, to }) => sum + Math.max(0, Math.min(to, end) - Math.max(from, start)),
        0,
      );
      const ends = [list[0], Math.max(...list), Math.min(...list), list.at(-1)];
      const window = { from: start, to: end };
      const series = [...quoteCells(quotes.get(symbol) ?? [], end), ...tradeCells(trades.get(symbol) ?? [], window)];
      out.push(JSON.stringify([symbol, start, ...ends, list.length, coveredMs / intervalMs, ...series]));
    }
  }
  return out;
}

/** Bid and ask of the last quote before the end. */
function quoteCells(quotes: readonly (readonly CellValue[])[], end: number): CellValue[] {
  const last = quotes.findLast(([, t]) => (t as number) < end);
  return [last?.[2] ?? null, last?.[3] ?? null];
}

/** Volume, number and mean price of the trades in the window. */
function tradeCells(trades: readonly (readonly CellValue[])[], { from, to }: Window): CellValue[] {
  let [count, volume, value] = [0, 0, 0];
  for (const row of trades) {
    const [, t, , price, size] = row as [string, number, string, number, number];
    if (t < from || t >= to) continue;
    count++;
    volume += size;
    value += price * size;
  }
  return count === 0 ? [null, null, null] : [volume, count, value / volume];
}
