import { closeSync, openSync, writeSync } from 'node:fs';
import { readLines } from './files.ts';

/**
 * A list in a scratch file. An import holds data there, without using memory, until it is certain that all of it can be
 * published. Items are plain JSON.
 */
export interface ScratchList<T> {
  append(item: T): void;
  /** The items in insertion order. */
  items(): AsyncGenerator<T, void, undefined>;
  close(): void;
}

const scratchChunkBytes = 1 << 20;

/** Creates a scratch file, which must not exist yet. */
export function openScratchList<T>(path: string): ScratchList<T> {
  const file = openSync(path, 'wx');
  let pendingLines: string[] = [];
  let pendingChars = 0;
  const write = (): void => {
    const bytes = Buffer.from(pendingLines.join(''));
    for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done);
    pendingLines = [];
    pendingChars = 0;
  };
  return {
    append(item) {
      const line = `${JSON.stringify(item)}\n`;
      pendingLines.push(line);
      pendingChars += line.length;
      if (pendingChars >= scratchChunkBytes) write();
    },
    async *items() {
      write();
      for await (const lines of readLines({ path, compression: 'none' }, Number.POSITIVE_INFINITY))
        for (const { text } of lines) yield JSON.parse(text) as T;
    },
    close: () => closeSync(file),
  };
}
