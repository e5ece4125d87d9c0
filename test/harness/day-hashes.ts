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
  const rows = new Map<string, string[]>();
  const out: Record<string, string> = {};
  for (const path of paths) {
    const [, day, name] = /^((?:.*\/)?(\w+)\/date=[^/]+)\/part-\d+\.parquet$/.exec(path) ?? [];
    const bytes = readFileSync(join(root, path));
    if (day === undefined || !isParted(name!)) out[path] = toHash(bytes);
    else
      rows.set(day, [
        ...(rows.get(day) ?? []),
        ...decodeRows(datasets[name].columns, bytes).map((row) => JSON.stringify(row, keepZeroSign)),
      ]);
  }
  for (const [day, lines] of rows) out[day] = toHash(lines.sort().join('\n'));
  return out;
}

const isParted = (name: string): name is DatasetName =>
  datasetNames.some((one) => one === name && isSplitBySymbol(one));

const keepZeroSign = (_: string, value: unknown): unknown =>
  typeof value === 'bigint' || typeof value === 'number' ? (Object.is(value, -0) ? '-0' : String(value)) : value;

const toHash = (content: string | Uint8Array): string => createHash('sha256').update(content).digest('hex');
