import { closeSync, openSync, readSync, writeSync } from 'node:fs';
import { exitCodes, OddslakeError } from '../../core/errors.ts';
import type { TickColumns } from '../../core/tick.ts';

/**
 * Ticks put aside in a scratch file until their part's turn comes: of an import there may be more than memory holds, and
 * its files can be read again, so that nothing of it need be durable before it is published.
 */
export interface Spilled {
  readonly path: string;
  /** Where the times and where the prices begin, in bytes; both are doubles as the machine has them. */
  readonly t: number;
  readonly p: number;
  readonly ticks: number;
}

export interface Spill {
  /** Puts columns of equal length aside. */
  put(ticks: TickColumns): Spilled;
  close(): void;
}

/** Begins a scratch file, which has to be a new one. */
export function openSpill(path: string): Spill {
  const file = openSync(path, 'wx');
  let end = 0;
  const append = (values: Float64Array): number => {
    const from = end;
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    for (let at = 0; at < bytes.length; ) at += write(path, file, bytes.subarray(at));
    end += bytes.length;
    return from;
  };
  return {
    put: ({ t, p }) => ({ path, t: append(t), p: append(p), ticks: t.length }),
    close: () => closeSync(file),
  };
}

function write(path: string, file: number, bytes: Uint8Array): number {
  try {
    return writeSync(file, bytes);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOSPC' && code !== 'EDQUOT') throw error;
    throw new OddslakeError(
      exitCodes.unexpected,
      `The disk is full: ${path} could not grow. An import needs 16 bytes a tick there until it is published: free some space and run it again; nothing of it was taken in.`,
      { cause: error },
    );
  }
}

/** Some of the ticks that were put aside together, `from` and `to` counted in ticks. */
export const sliceOf = ({ path, t, p }: Spilled, from: number, to: number): Spilled => ({
  ...{ path, t: t + from * bytesPerValue, p: p + from * bytesPerValue, ticks: to - from },
});

const bytesPerValue = Float64Array.BYTES_PER_ELEMENT;

/** Reads what was put aside; files are opened once and closed by `close`. */
export function spillReader(): { read(spilled: Spilled): TickColumns; close(): void } {
  const files = new Map<string, number>();
  const fileAt = (path: string): number => {
    let file = files.get(path);
    if (file === undefined) {
      file = openSync(path, 'r');
      files.set(path, file);
    }
    return file;
  };
  const column = (path: string, at: number, length: number): Float64Array => {
    const values = new Float64Array(length);
    const bytes = new Uint8Array(values.buffer);
    for (let done = 0; done < bytes.length; ) {
      const read = readSync(fileAt(path), bytes, done, bytes.length - done, at + done);
      if (read === 0) throw new Error(`${path} ends too early`);
      done += read;
    }
    return values;
  };
  return {
    read: ({ path, t, p, ticks }) => ({ t: column(path, t, ticks), p: column(path, p, ticks) }),
    close() {
      for (const file of files.values()) closeSync(file);
      files.clear();
    },
  };
}
