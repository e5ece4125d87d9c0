import { closeSync, openSync, readSync, writevSync } from 'node:fs';
import { exitCodes, OddslakeError } from '../../base/errors.ts';
import type { TickColumns } from '../../base/ticks.ts';

/**
 * Ticks put aside in a scratch file until their part's turn comes: of an import there may be more than memory holds, and
 * its files can be read again, so that nothing of it need be durable before it is published.
 */
export interface SpilledTicks {
  readonly path: string;
  /** Where the times and where the prices begin, in bytes; both are doubles as the machine has them. */
  readonly timeOffset: number;
  readonly priceOffset: number;
  readonly tickCount: number;
}

export interface SpillFile {
  /** Puts columns of equal length aside. */
  append(ticks: TickColumns): SpilledTicks;
  close(): void;
}

/** Begins a scratch file, which has to be a new one. */
export function openSpillFile(path: string): SpillFile {
  const file = openSync(path, 'wx');
  let end = 0;
  return {
    append({ t, p }) {
      const from = end;
      let left = [viewBytes(t), viewBytes(p)];
      for (let length = t.byteLength + p.byteLength; length > 0; ) {
        const written = writeSpill(path, file, left);
        length -= written;
        left = dropBytes(left, written);
      }
      end += t.byteLength + p.byteLength;
      return { path, timeOffset: from, priceOffset: from + t.byteLength, tickCount: t.length };
    },
    close: () => closeSync(file),
  };
}

/** What is left of pieces without their first bytes. */
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
    throw new OddslakeError(
      exitCodes.unexpected,
      `The disk is full: ${path} could not grow. An import needs 16 bytes a tick there until it is published. Free some space and run it again; what was not published yet was not taken in.`,
      { cause: error },
    );
  }
}

const viewBytes = (values: Float64Array): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

/** Some of the ticks that were put aside together, `from` and `to` counted in ticks. */
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

/** Reads what was put aside; files are opened once and closed by `close`. */
export interface SpillReader {
  /** The ticks of each, in room that the next call uses again. */
  read(spilled: readonly SpilledTicks[]): TickColumns[];
  close(): void;
}

/** Kept from reader to reader: ever new room would have to be cleared, and page by page be had from the system. */
let spareBuffer = new Float64Array(0);

export function openSpillReader(): SpillReader {
  const files = new Map<string, number>();
  let room = spareBuffer;
  spareBuffer = new Float64Array(0);
  const fileAt = (path: string): number => {
    let file = files.get(path);
    if (file === undefined) {
      file = openSync(path, 'r');
      files.set(path, file);
    }
    return file;
  };
  const readInto = (values: Float64Array, path: string, at: number): void => {
    const bytes = viewBytes(values);
    for (let done = 0; done < bytes.length; ) {
      const read = readSync(fileAt(path), bytes, done, bytes.length - done, at + done);
      if (read === 0) throw new Error(`${path} ends too early`);
      done += read;
    }
  };
  return {
    read(spilled) {
      const length = spilled.reduce((sum, { tickCount }) => sum + 2 * tickCount, 0);
      if (room.length < length) room = new Float64Array(length);
      let end = 0;
      return spilled.map(({ path, timeOffset, priceOffset, tickCount }) => {
        const columns = {
          t: room.subarray(end, end + tickCount),
          p: room.subarray(end + tickCount, end + 2 * tickCount),
        };
        end += 2 * tickCount;
        // They mostly stand one behind the other.
        if (priceOffset === timeOffset + columns.t.byteLength)
          readInto(room.subarray(end - 2 * tickCount, end), path, timeOffset);
        else {
          readInto(columns.t, path, timeOffset);
          readInto(columns.p, path, priceOffset);
        }
        return columns;
      });
    },
    close() {
      spareBuffer = room;
      for (const file of files.values()) closeSync(file);
      files.clear();
    },
  };
}
