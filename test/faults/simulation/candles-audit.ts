import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { datasets } from '../../../src/archive/format/datasets.ts';
import type { Manifest } from '../../../src/archive/format/manifest.ts';
import { decodeRows } from '../../../src/archive/parquet/rows.ts';
import type { Window } from '../../../src/base/window.ts';
import type { Reader } from './reader.ts';
import { dayMs, hourMs } from './world.ts';

const intervals = { candles_1h: hourMs, candles_1d: dayMs } as const;

type Row = readonly (string | number | null)[];

/** Of the columns from quotes and trades. The simulated upstream has neither. */
const noSeries = [null, null, null, null, null];

/** Errors of published candles: each part file must match the ticks and the coverage of its day. */
export function startCandlesAudit(root: string, reader: Reader) {
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
        const covered = manifest.datasets.coverage.files.find(
          (one) => one.path === ticks.path.replace('ticks/', 'coverage/'),
        );
        const key = `${path} ${file?.sha256} ${ticks.sha256} ${covered?.sha256}`;
        if (file === undefined) yield `candles: ${path} is missing`;
        if (file === undefined || correct.has(key)) continue;
        const published = decodeRows(datasets[name].columns, readFileSync(join(root, path))) as unknown as Row[];
        const expected = candlesOf(reader.file(ticks.path) ?? new Map(), coverage, intervalMs);
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
      out.push(JSON.stringify([symbol, start, ...ends, list.length, coveredMs / intervalMs, ...noSeries]));
    }
  }
  return out;
}
