import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Writable } from 'node:stream';
import { datasets } from '../../../src/archive/format/datasets.ts';
import { type CellValue, encodeRows } from '../../../src/archive/parquet/rows.ts';
import { encodeTicks } from '../../../src/archive/parquet/ticks-file.ts';
import { openQuery } from '../../../src/archive/query/open-query.ts';
import type { DatasetFiles, Query } from '../../../src/archive/query/query.ts';

/** A folder with Parquet files as the archive writes them. Its name has characters that are special in SQL and globs. */
export function archiveFolder(name = "it's [a] date=2020-01-01") {
  const base = mkdtempSync(join(tmpdir(), 'oddslake-query-'));
  const root = join(base, name);
  const put = (path: string, bytes: Uint8Array): string => {
    const absolute = join(root, path);
    mkdirSync(dirname(absolute), { recursive: true });
    writeFileSync(absolute, bytes);
    return absolute;
  };
  return {
    root,
    scratch: join(root, '.oddslake/tmp'),
    put,
    ticks: (day: string, rows: readonly Tick[]) => put(`ticks/date=${day}/part-00.parquet`, ticksFile(rows)),
    rows: (dataset: 'symbols' | 'markets', path: string, rows: readonly (readonly CellValue[])[]) =>
      put(path, encodeRows(datasets[dataset].columns, rows)),
    remove: () => rmSync(base, { recursive: true, force: true }),
  };
}

export type Tick = readonly [symbol: string, iso: string, p: number];

/** Rows sorted by symbol and time. */
function ticksFile(rows: readonly Tick[]): Uint8Array {
  const symbols = [...new Set(rows.map(([symbol]) => symbol))];
  const starts = symbols.map((symbol) => rows.findIndex((row) => row[0] === symbol));
  return encodeTicks({
    symbols,
    offsets: Float64Array.from([...starts, rows.length]),
    t: Float64Array.from(rows, ([, iso]) => Date.parse(iso)),
    p: Float64Array.from(rows, ([, , p]) => p),
  });
}

export type Paths = Partial<Record<keyof typeof datasets, readonly string[]>>;

const sourcesOf = (paths: Paths): DatasetFiles[] =>
  (Object.keys(datasets) as (keyof typeof datasets)[]).map((dataset) => ({
    dataset,
    columns: datasets[dataset].columns,
    dated: dataset !== 'symbols',
    paths: paths[dataset] ?? [],
  }));

export const open = (paths: Paths, scratch: string, memoryMbMax = 256): Promise<Query> =>
  openQuery(sourcesOf(paths), { threads: 2, memoryBytesMax: memoryMbMax * 2 ** 20, scratch });

/** Collects the written chunks. */
export function collector() {
  const pieces: Buffer[] = [];
  const out = new Writable({
    write(chunk, _, done) {
      pieces.push(Buffer.from(chunk));
      done();
    },
  });
  return { out, pieces, bytes: () => Buffer.concat(pieces), text: () => Buffer.concat(pieces).toString('utf8') };
}
