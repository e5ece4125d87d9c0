import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type DatasetName, datasetNames, datasets, isSplitBySymbol } from '../../src/archive/format/datasets.ts';
import { decodeRows } from '../../src/archive/parquet/rows.ts';

/**
 * Hashes of what files contain that are equal for equal rows, however the symbols of a day are split over its parts: that depends
 * on which rows were published together. Other files are hashed as they are.
 * @param paths relative to `root`
 */
export function dayHashes(root: string, paths: readonly string[]): Record<string, string> {
  const { rows, others } = readDayRows(root, paths);
  const out = Object.fromEntries(others.map((path) => [path, toHash(readFileSync(join(root, path)))]));
  for (const [day, lines] of rows) out[day] = toHash([...lines].sort().join('\n'));
  return out;
}

/** Rows as text, by dataset and day. */
export type DayRows = ReadonlyMap<string, readonly string[]>;

/** Rows as text by dataset and day, and the paths of files that are not split by symbol. */
export function readDayRows(
  root: string,
  paths: Iterable<string>,
): { readonly rows: DayRows; readonly others: readonly string[] } {
  const rows = new Map<string, string[]>();
  const others: string[] = [];
  for (const path of paths) {
    const [, day, name] = /^((?:.*\/)?(\w+)\/date=[^/]+)\/part-\d+\.parquet$/.exec(path) ?? [];
    if (day === undefined || !isParted(name!)) {
      others.push(path);
      continue;
    }
    const bytes = readFileSync(join(root, path));
    const lines = rows.get(day) ?? [];
    for (const row of decodeRows(datasets[name].columns, bytes)) lines.push(JSON.stringify(row, keepZeroSign));
    rows.set(day, lines);
  }
  return { rows, others };
}

const isParted = (name: string): name is DatasetName =>
  datasetNames.some((one) => one === name && isSplitBySymbol(one));

const keepZeroSign = (_: string, value: unknown): unknown =>
  typeof value === 'bigint' || typeof value === 'number' ? (Object.is(value, -0) ? '-0' : String(value)) : value;

const toHash = (content: string | Uint8Array): string => createHash('sha256').update(content).digest('hex');
