import { exitCodes, OddslakeError } from '../../base/errors.ts';
import type { Random } from '../../base/ports.ts';
import { type DatasetName, datasets } from '../format/datasets.ts';
import type { Archive } from '../open-archive.ts';
import { createFileFilter, datasetShapes } from '../publish/prune-files.ts';
import { type ExportFormat, encodeColumnar, requireFileIntact, writeFileAtomically } from '../read/export-file.ts';
import { openPinned } from './pinned-query.ts';
import type { Query } from './query.ts';
import { buildRangesSql, buildRowsSql, type DatasetSlice, type KeyRange, readSliceChunks } from './slice-query.ts';

export interface ExportSpec {
  /** Absolute; one that is there is replaced. */
  readonly file: string;
  readonly format: ExportFormat;
  readonly dataset: DatasetName;
  /** None: all of them. */
  readonly symbols: readonly string[];
  /** Epoch milliseconds, half-open; null where open. */
  readonly from: number | null;
  readonly to: number | null;
  /** It fails with ExportTooLargeError rather than write more; by default there is no bound but the disk. */
  readonly bytesMax?: number;
}

export class ExportTooLargeError extends OddslakeError {
  constructor(bytesMax: number) {
    super(exitCodes.unexpected, `The file would be larger than ${bytesMax} bytes. Ask for less.`);
    this.name = 'ExportTooLargeError';
  }
}

/** As `export --json` prints it. */
export interface ExportResult {
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
export interface ExportRunContext {
  readonly random: Random;
  readonly signal: AbortSignal;
  /** Told now and then how many rows of how many are written. */
  progress(done: number, total: number): void;
}

/** What DuckDB may hold in memory; a range that needs more is sorted on disk. */
const memoryBytesMax = 1024 ** 3;

/** Writes one slice of one generation, sorted as the dataset, into one file. */
export async function writeExport(
  archive: Archive,
  asked: ExportSpec,
  watching: ExportRunContext,
): Promise<ExportResult> {
  const { random, signal } = watching;
  const { dataset, symbols, from, to, format, file, bytesMax = Number.POSITIVE_INFINITY } = asked;
  const { sortColumns, timeColumns } = datasetShapes[dataset];
  const wanted = createFileFilter(archive.readManifest(), dataset, symbols, { from, to });
  const opened = await openPinned(archive, { names: [dataset], wanted, memoryBytesMax }, random);
  try {
    const { manifest } = opened.pinned;
    for (const one of manifest.datasets[dataset].files.filter(wanted)) {
      signal.throwIfAborted();
      requireFileIntact(archive.disk, opened.pinned, one);
      await new Promise((resolve) => setImmediate(resolve));
    }
    const slice: DatasetSlice = {
      dataset,
      columns: datasets[dataset],
      keys: sortColumns,
      symbols,
      timeColumns,
      from,
      to,
    };
    const ranges = await readKeyRanges(opened.query, slice, null, signal);
    const id = Math.floor(random() * 36 ** 8).toString(36);
    const { rows } = ranges;
    let done = 0;
    const pieces = streamSlice(opened.query, { dataset, slice, format }, ranges, signal, (count) => {
      done += count;
      watching.progress(done, rows);
    });
    const written = await writeFileAtomically(archive.disk, file, id, limitBytes(bytesMax, pieces));
    return { file, dataset, format, rows, ...written, generation: manifest.generation, from, to };
  } finally {
    await opened.close();
  }
}

async function* limitBytes(bytesMax: number, pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of pieces) {
    bytes += piece.length;
    if (bytes > bytesMax) throw new ExportTooLargeError(bytesMax);
    yield piece;
  }
}

/** `arrow` is a file (Feather version 2), `arrow_stream` the stream of the same. */
export type SliceFormat = ExportFormat | 'arrow_stream';

/** Ranges of a slice's first key, in order, to be sorted one after another; null is all of it. */
export interface KeyRanges {
  readonly ranges: readonly (KeyRange | null)[];
  /** Rows of all of them. */
  readonly rows: number;
}

/** Rows that are sorted at once: with ranges of the first key one after another, memory does not grow with the slice. */
const sortedRowsMax = 1_000_000;

/** @param resultRowsMax rows of the slice that are wanted, its first ones; null: all of it */
export async function readKeyRanges(
  query: Query,
  slice: DatasetSlice,
  rowsMax: number | null,
  signal: AbortSignal,
): Promise<KeyRanges> {
  const ranges: KeyRange[] = [];
  let rows = 0;
  for (const { first, last, n } of await query.readRows(
    buildRangesSql(slice, sortedRowsMax),
    slice.condition?.values,
    signal,
  )) {
    const wanted = Math.min(Number(n), (rowsMax ?? Number.POSITIVE_INFINITY) - rows);
    if (wanted === 0) break;
    const cut = wanted < Number(n) ? { rowsMax: wanted } : {};
    ranges.push({ first: String(first), last: String(last), ...cut });
    rows += wanted;
  }
  // Of no rows there is still a head, and a schema.
  return { ranges: ranges.length === 0 ? [null] : ranges, rows };
}

/**
 * The rows of ranges one after another as one file of `dataset`, as it comes into being.
 * @param tell told of every some thousand rows
 */
export function streamSlice(
  query: Query,
  {
    dataset,
    slice,
    format,
  }: { readonly dataset: DatasetName; readonly slice: DatasetSlice; readonly format: SliceFormat },
  { ranges, rows }: KeyRanges,
  signal: AbortSignal,
  tell: (rows: number) => void = () => {},
): AsyncGenerator<Uint8Array> {
  let told = 0;
  async function* chunks() {
    for await (const chunk of readSliceChunks(query, slice, ranges, signal)) {
      yield chunk;
      tell(chunk[0]!.length);
    }
  }
  async function* texts(format: 'csv' | 'ndjson') {
    const statements = ranges.map((range) => buildRowsSql(slice, range, false));
    for await (const text of query.readTexts(statements, format, signal, slice.condition?.values)) {
      if (text !== '') yield Buffer.from(text, 'utf8');
      // DuckDB's chunks have about so many rows, and texts do not say.
      const count = Math.min(2048, rows - told);
      told += count;
      tell(count);
    }
  }
  return format === 'csv' || format === 'ndjson'
    ? texts(format)
    : encodeColumnar(dataset, datasets[dataset], chunks(), format);
}
