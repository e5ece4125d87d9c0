import { closeSync, openSync, readSync, writevSync } from 'node:fs';
import { DiskFullError } from '../../base/errors.ts';
import type { TickColumns } from '../../base/ticks.ts';
import { packTexts, unpackTexts } from '../format/packed-texts.ts';
import type { SeriesRows } from '../format/series.ts';

/**
 * Ticks in a scratch file, until their part is merged. An import may be larger than memory. The file need not be
 * durable: an interrupted import reads its input again.
 */
export interface SpilledTicks {
  readonly path: string;
  /** Byte offsets of the times and of the prices; both are doubles in native byte order. */
  readonly timeOffset: number;
  readonly priceOffset: number;
  readonly tickCount: number;
}

export interface SpillFile {
  /** Appends columns of equal length. @throws OddslakeError if the disk is full */
  append(ticks: TickColumns): SpilledTicks;
  /** Appends rows of a series. @throws OddslakeError if the disk is full */
  appendRows(rows: SeriesRows): SpilledRows;
  close(): void;
}

/** Rows of a series in a scratch file: their times, each value column, and the texts. */
export interface SpilledRows {
  readonly path: string;
  /** Byte offset of the times. */
  readonly offset: number;
  readonly rowCount: number;
  /** Number of value columns. */
  readonly width: number;
  /** Length of the texts, see `packTexts`. */
  readonly textBytes: number;
}

/** Creates a scratch file; the path must not exist. */
export function openSpillFile(path: string): SpillFile {
  const file = openSync(path, 'wx');
  let end = 0;
  /** Appends pieces one after the other. Returns the byte offset of the first. */
  const appendPieces = (pieces: readonly Uint8Array[]): number => {
    const from = end;
    let remaining = pieces;
    for (let length = pieces.reduce((sum, { byteLength }) => sum + byteLength, 0); length > 0; ) {
      const written = writeSpill(path, file, remaining);
      length -= written;
      end += written;
      remaining = dropBytes(remaining, written);
    }
    return from;
  };
  return {
    append({ t, p }) {
      const from = appendPieces([viewBytes(t), viewBytes(p)]);
      return { path, timeOffset: from, priceOffset: from + t.byteLength, tickCount: t.length };
    },
    appendRows({ t, values, texts }) {
      const packed = packTexts(texts);
      const offset = appendPieces([...[t, ...values].map(viewBytes), packed]);
      return { path, offset, rowCount: t.length, width: values.length, textBytes: packed.length };
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

/** A slice of spilled ticks; `from` and `to` are tick indexes. */
export const sliceSpilled = (
  { path, timeOffset, priceOffset }: SpilledTicks,
  from: number,
  to: number,
): SpilledTicks => ({
  path,
  timeOffset: timeOffset + from * bytesPerValue,
  priceOffset: priceOffset + from * bytesPerValue,
  tickCount: to - from,
});

const bytesPerValue = Float64Array.BYTES_PER_ELEMENT;

/** Reads spilled ticks. Opens each file once; `close` closes them. */
export interface SpillReader {
  /** Returns the ticks of each slice, in a buffer that the next call reuses. */
  read(spilled: readonly SpilledTicks[]): TickColumns[];
  /** Returns rows of a series, in new arrays. */
  readRows(spilled: SpilledRows): SeriesRows;
  close(): void;
}

/** Buffer reused across readers: a new one would have to be zeroed and mapped page by page. */
let spareBuffer = new Float64Array(0);

export function openSpillReader(): SpillReader {
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
    read(spilled) {
      const length = spilled.reduce((sum, { tickCount }) => sum + 2 * tickCount, 0);
      if (buffer.length < length) buffer = new Float64Array(length);
      let end = 0;
      return spilled.map(({ path, timeOffset, priceOffset, tickCount }) => {
        const columns = {
          t: buffer.subarray(end, end + tickCount),
          p: buffer.subarray(end + tickCount, end + 2 * tickCount),
        };
        end += 2 * tickCount;
        // Times and prices are usually adjacent: read both at once.
        if (priceOffset === timeOffset + columns.t.byteLength)
          readInto(buffer.subarray(end - 2 * tickCount, end), path, timeOffset);
        else {
          readInto(columns.t, path, timeOffset);
          readInto(columns.p, path, priceOffset);
        }
        return columns;
      });
    },
    readRows({ path, offset, rowCount, width, textBytes }) {
      const all = new Float64Array(rowCount * (1 + width));
      readInto(all, path, offset);
      const packed = Buffer.allocUnsafe(textBytes);
      readInto(packed, path, offset + all.byteLength);
      const [t, ...values] = Array.from({ length: 1 + width }, (_, c) =>
        all.subarray(c * rowCount, (c + 1) * rowCount),
      );
      return { t: t!, values, texts: unpackTexts(packed, rowCount) };
    },
    close() {
      spareBuffer = buffer;
      for (const file of files.values()) closeSync(file);
      files.clear();
    },
  };
}

/** Runs work with a reader of spilled rows, and closes it. */
export function withSpillReader(work: (spills: SpillReader) => void): void {
  const spills = openSpillReader();
  try {
    work(spills);
  } finally {
    spills.close();
  }
}
