import type { Archive } from '../archive/archive.ts';
import { type DatasetName, datasets } from '../archive/datasets.ts';
import { columnarPieces, type ExportFormat, requireIntact, writeInPlace } from '../archive/export-file.ts';
import { mayHold, shapes } from '../archive/slice.ts';
import type { Random } from '../core/clock.ts';
import type { Query } from '../query/query.ts';
import { type KeyRange, rangesSql, rowsSql, type Slice, sliceChunks } from '../query/slice.ts';
import { openPinned, type PinnedQuery } from './pinned.ts';

export interface ExportAsked {
  /** Absolute; one that is there is replaced. */
  readonly file: string;
  readonly format: ExportFormat;
  readonly dataset: DatasetName;
  /** None: all of them. */
  readonly symbols: readonly string[];
  /** Epoch milliseconds, half-open; null where open. */
  readonly from: number | null;
  readonly to: number | null;
}

/** As `export --json` prints it. */
export interface Exported {
  readonly file: string;
  readonly dataset: DatasetName;
  readonly format: ExportFormat;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
  readonly generation: number;
  readonly from: number | null;
  readonly to: number | null;
}

/** What goes on beside an export. */
export interface Watching {
  readonly random: Random;
  readonly signal: AbortSignal;
  /** Told now and then how many rows of how many are written. */
  progress(done: number, total: number): void;
}

/** What DuckDB may hold in memory; a range that needs more is sorted on disk. */
const memoryBytesMax = 1024 ** 3;

/** Rows that are sorted at once: with ranges of the first key one after another, memory does not grow with the export. */
const sortedRowsMax = 1_000_000;

/** Writes one slice of one generation, sorted as the dataset, into one file. */
export async function writeExport(archive: Archive, asked: ExportAsked, watching: Watching): Promise<Exported> {
  const { random, signal } = watching;
  const { dataset, symbols, from, to, format, file } = asked;
  const { keys, span } = shapes[dataset];
  const wanted = mayHold(archive.manifest(), dataset, symbols, { from, to });
  const opened = await openPinned(archive, { names: [dataset], wanted, memoryBytesMax }, random);
  try {
    const { manifest } = opened.pinned;
    for (const one of manifest.datasets[dataset].files.filter(wanted)) {
      signal.throwIfAborted();
      requireIntact(archive.disk, opened.pinned, one);
      await new Promise((resolve) => setImmediate(resolve));
    }
    const slice: Slice = { dataset, columns: datasets[dataset], keys, symbols, span, from, to };
    const { ranges, rows } = await rangesOf(opened.query, slice, signal);
    const id = Math.floor(random() * 36 ** 8).toString(36);
    const pieces = piecesOf(opened, slice, ranges, asked, rows, watching);
    const written = await writeInPlace(archive.disk, file, id, pieces);
    return { file, dataset, format, rows, ...written, generation: manifest.generation, from, to };
  } finally {
    await opened.close();
  }
}

async function rangesOf(
  query: Query,
  slice: Slice,
  signal: AbortSignal,
): Promise<{ ranges: readonly (KeyRange | null)[]; rows: number }> {
  const found = await query.rows(rangesSql(slice, sortedRowsMax), [], signal);
  const ranges = found.map(({ first, last }) => ({ first: String(first), last: String(last) }));
  // Of no rows there is still a head, and a schema.
  return {
    ranges: ranges.length === 0 ? [null] : ranges,
    rows: found.reduce((sum, { n }) => sum + Number(n), 0),
  };
}

function piecesOf(
  { query }: PinnedQuery,
  slice: Slice,
  ranges: readonly (KeyRange | null)[],
  { dataset, format }: ExportAsked,
  rows: number,
  { progress, signal }: Watching,
): AsyncIterable<Uint8Array> {
  const isColumnar = format === 'parquet' || format === 'arrow';
  let done = 0;
  const tell = (count: number): void => {
    done += count;
    progress(done, rows);
  };
  async function* chunks() {
    for await (const chunk of sliceChunks(query, slice, ranges, signal)) {
      yield chunk;
      tell(chunk[0]!.length);
    }
  }
  async function* texts(format: 'csv' | 'ndjson') {
    const statements = ranges.map((range) => rowsSql(slice, range, false));
    for await (const text of query.texts(statements, format, signal)) {
      yield Buffer.from(text, 'utf8');
      // DuckDB's chunks have about so many rows, and texts do not say.
      tell(Math.min(2048, rows - done));
    }
  }
  return isColumnar ? columnarPieces(dataset, datasets[dataset], chunks(), format) : texts(format);
}
