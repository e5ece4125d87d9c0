import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { openArchive } from '../../src/archive/open-archive.ts';
import { decodeTicks } from '../../src/archive/parquet/ticks-file.ts';
import { pinGeneration } from '../../src/archive/read/pin-generation.ts';

// A process that reads ticks repeatedly while others publish, until a file `stop` exists; then it prints what it saw.
// Arguments: the archive's root, and how many ticks a publish adds to a symbol's day. It reads the glob with a Parquet
// reader, and the pinned files of one generation with DuckDB. DuckDB opens each file twice per query, first for the
// metadata and then for the data, so over the bare glob it would mix the old and the new version of a replaced file.

const [root, step] = [process.argv[2]!, Number(process.argv[3])];
const faults: string[] = [];
/**
 * By reader: between the commit of a publish and its last rename a pin has the new generation, and the glob the old
 * one.
 */
const rowsMax = new Map<string, number>();
const names = new Set<string>();
const options = { root, create: false, upstream: null, parts: 4, writer: 'reader' };
const archive = openArchive(options, systemDisk);
const duckdb = await (await DuckDBInstance.create(':memory:')).connect();
let rounds = 0;

/** A symbol's day has whole steps, each key once, and never fewer rows than before. */
function readAll(reader: string, name: string, rows: number, keys: number): void {
  if (rows !== keys) faults.push(`${reader}: ${name} has ${rows} rows of ${keys} keys`);
  if (rows % step !== 0) faults.push(`${reader}: ${name} has ${rows} rows, no whole steps of ${step}`);
  const before = rowsMax.get(`${reader} ${name}`) ?? 0;
  if (rows < before) faults.push(`${reader}: ${name} fell from ${before} to ${rows}`);
  rowsMax.set(`${reader} ${name}`, Math.max(rows, before));
  names.add(name);
}

function readGlob(): void {
  for (const path of globSync('ticks/date=*/*.parquet', { cwd: root })) {
    const { symbols, offsets, t } = decodeTicks(readFileSync(join(root, path)));
    symbols.forEach((symbol, i) => {
      const times = t.subarray(offsets[i]!, offsets[i + 1]!);
      readAll('glob', `${symbol} ${path.slice(11, 21)}`, times.length, new Set(times).size);
    });
  }
}

async function readPinned(): Promise<void> {
  const pinned = pinGeneration(archive, ['ticks'], `${rounds}`);
  try {
    const files = pinned.listPaths('ticks').map((path) => `'${path}'`);
    const seen = await duckdb.runAndReadAll(
      `select symbol || ' ' || date, count(*)::int, count(distinct t)::int
       from read_parquet([${files}], hive_partitioning = true) group by 1`,
    );
    let rows = 0;
    for (const [name, n, keys] of seen.getRows()) {
      readAll('DuckDB', String(name), Number(n), Number(keys));
      rows += Number(n);
    }
    const rowsExpected = pinned.manifest.datasets.ticks.files.reduce((sum, file) => sum + file.rows, 0);
    if (rows !== rowsExpected)
      faults.push(`DuckDB: ${rows} rows of generation ${pinned.manifest.generation}, not ${rowsExpected}`);
  } finally {
    pinned.release();
  }
}

process.stdout.write('reading\n');
while (!existsSync(join(root, 'stop')) && faults.length < 20) {
  try {
    readGlob();
    await readPinned();
    rounds++;
  } catch (error) {
    faults.push(String(error));
  }
}
archive.close();
process.stdout.write(`${JSON.stringify({ rounds, faults, seen: names.size })}\n`);
