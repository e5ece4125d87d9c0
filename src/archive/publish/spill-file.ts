import { closeSync, openSync, readSync, writevSync } from 'node:fs';
import { DiskFullError } from '../../base/errors.ts';
import { packTexts, unpackTexts } from '../format/packed-texts.ts';
import type { Precedence } from '../format/precedence.ts';
import { type SeriesRows, splitSeriesByDay } from '../format/series.ts';

// Rows in a scratch file, until their part is merged. An import may be larger than memory. The file need not be durable: an
// interrupted import reads its input again. Ticks are rows with one number and no text.

/** Rows of one symbol in a scratch file: for each UTC day their times, each value column, and what `packTexts` packs. */
export interface SpilledDays {
  readonly path: string;
  /** Byte offset of the first day; the others follow it. */
  readonly offset: number;
  /** Number of value columns. Numbers are doubles in native byte order. */
  readonly width: number;
  readonly days: readonly SpilledDay[];
}

interface SpilledDay {
  /** UTC midnight, epoch ms. */
  readonly day: number;
  readonly rowCount: number;
  /** Length of the texts and finer times, see `packTexts`. */
  readonly textBytes: number;
}

export interface SpilledRows extends Omit<SpilledDays, 'days'>, Omit<SpilledDay, 'day'> {}

/** Rows of one symbol and UTC day from one imported file, sorted by time. */
export interface SpilledChunk extends Precedence {
  readonly symbol: string;
  /** The run that counts these rows. */
  readonly runId: string;
  readonly spilled: SpilledRows;
}

export function* listSpilledDays(all: SpilledDays): Generator<{ readonly day: number; readonly spilled: SpilledRows }> {
  const { path, width } = all;
  let { offset } = all;
  for (const { day, rowCount, textBytes } of all.days) {
    yield { day, spilled: { path, offset, width, rowCount, textBytes } };
    offset += rowCount * (1 + width) * Float64Array.BYTES_PER_ELEMENT + textBytes;
  }
}

export type SpillFile = ReturnType<typeof openSpillFile>;

/** Creates a scratch file; the path must not exist. */
export function openSpillFile(path: string) {
  const file = openSync(path, 'wx');
  let end = 0;
  return {
    /** Appends rows of one symbol that are sorted by time. @throws OddslakeError if the disk is full */
    append(rows: SeriesRows): SpilledDays {
      const offset = end;
      const days: SpilledDay[] = [];
      let remaining: Uint8Array[] = [];
      for (const { day, t, values, ...rest } of splitSeriesByDay(rows)) {
        const packed = packTexts(rest);
        days.push({ day, rowCount: t.length, textBytes: packed.length });
        remaining.push(viewBytes(t), ...values.map(viewBytes), packed);
      }
      for (let length = remaining.reduce((sum, { byteLength }) => sum + byteLength, 0); length > 0; ) {
        const written = writeSpill(path, file, remaining);
        length -= written;
        end += written;
        if (length > 0) remaining = dropBytes(remaining, written);
      }
      return { path, offset, width: rows.values.length, days };
    },
    close: () => closeSync(file),
  };
}

/** Returns the pieces without their first `bytes` bytes. */
function dropBytes(pieces: readonly Uint8Array[], bytes: number): Uint8Array[] {
  let skip = bytes;
  return pieces.flatMap((piece) => {
    const rest = piece.subarray(Math.min(skip, piece.length));
    skip -= piece.length - rest.length;
    return rest.length === 0 ? [] : [rest];
  });
}

function writeSpill(path: string, file: number, pieces: readonly Uint8Array[]): number {
  try {
    return writevSync(file, pieces);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOSPC' && code !== 'EDQUOT') throw error;
    throw new DiskFullError(
      `The disk is full: ${path} could not grow. An import needs 16 bytes per tick, 40 bytes per quote and about 80 bytes per trade there until it is published. Free some space and run the import again; what was not published yet was not imported.`,
      { cause: error },
    );
  }
}

const viewBytes = (values: Float64Array | Uint8Array): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

/** Buffer reused across readers: a new one would have to be zeroed and mapped page by page. */
let spareBuffer = new Float64Array(0);

/** Reads spilled rows. Opens each file once; `close` closes them. */
export type SpillReader = ReturnType<typeof openSpillReader>;

export function openSpillReader() {
  const files = new Map<string, number>();
  let buffer = spareBuffer;
  spareBuffer = new Float64Array(0);
  const openFile = (path: string): number => {
    let file = files.get(path);
    if (file === undefined) {
      file = openSync(path, 'r');
      files.set(path, file);
    }
    return file;
  };
  const readInto = (values: Float64Array | Uint8Array, path: string, at: number): void => {
    const bytes = viewBytes(values);
    for (let done = 0; done < bytes.length; ) {
      const read = readSync(openFile(path), bytes, done, bytes.length - done, at + done);
      if (read === 0) throw new Error(`${path} is truncated`);
      done += read;
    }
  };
  return {
    /** Returns the rows of each slice. Their numbers are in a buffer that the next call reuses. */
    read(spilled: readonly SpilledRows[]): SeriesRows[] {
      const length = spilled.reduce((sum, { rowCount, width }) => sum + rowCount * (1 + width), 0);
      if (buffer.length < length) buffer = new Float64Array(length);
      let end = 0;
      return spilled.map(({ path, offset, rowCount, width, textBytes }) => {
        const numbers = buffer.subarray(end, end + rowCount * (1 + width));
        end += numbers.length;
        readInto(numbers, path, offset);
        const packed = Buffer.allocUnsafe(textBytes);
        readInto(packed, path, offset + numbers.byteLength);
        return {
          t: numbers.subarray(0, rowCount),
          values: Array.from({ length: width }, (_, c) => numbers.subarray((c + 1) * rowCount, (c + 2) * rowCount)),
          ...unpackTexts(packed, rowCount),
        };
      });
    },
    [Symbol.dispose]() {
      spareBuffer = buffer;
      for (const file of files.values()) closeSync(file);
      files.clear();
    },
  };
}

/** The number of rows of a chunk, in memory or spilled. */
export const countChunkRows = (chunk: SpilledChunk | { readonly t: Float64Array }): number =>
  'spilled' in chunk ? chunk.spilled.rowCount : chunk.t.length;

/** Loads the spilled chunks into memory. Their numbers are valid until the next call. */
export function loadSpilled<C extends object>(
  chunks: readonly (C | SpilledChunk)[],
  spills: SpillReader,
  toChunk: (head: Omit<SpilledChunk, 'spilled'>, rows: SeriesRows) => C,
): C[] {
  const read = spills.read(chunks.flatMap((chunk) => ('spilled' in chunk ? [chunk.spilled] : []))).values();
  return chunks.map((chunk) => {
    if (!('spilled' in chunk)) return chunk;
    const { spilled: _, ...head } = chunk;
    return toChunk(head, read.next().value!);
  });
}
