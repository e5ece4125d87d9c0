import { closeSync, openSync, readSync, writeSync } from 'node:fs';
import type { MarketFacts } from '../../archive/format/market.ts';
import type { QuarantinedInput } from '../../archive/journal/imported-symbols.ts';
import type { ImportedSymbolTicks } from '../../archive/publish/import-buffer.ts';

/** Data that an import has read and not yet written to the archive. */
export type StagedItem =
  | { readonly kind: 'read'; readonly read: ImportedSymbolTicks }
  | { readonly kind: 'rejected'; readonly items: readonly QuarantinedInput[]; readonly dropped: number }
  | { readonly kind: 'markets'; readonly markets: ImportedMarkets };

export interface ImportedMarkets {
  readonly facts: readonly MarketFacts[];
  readonly firstSeen: number;
  readonly lastSeen: number;
}

/**
 * A list in a scratch file. An import holds data there, without using memory, until it is certain that all of it can be
 * published. Items are plain JSON.
 */
export interface ScratchList<T> {
  append(item: T): void;
  /** The items in insertion order. */
  items(): Generator<T, void, undefined>;
  close(): void;
}

const scratchChunkBytes = 1 << 20;

/** Creates a scratch file. It must not exist. */
export function openScratchList<T>(path: string): ScratchList<T> {
  const file = openSync(path, 'wx+');
  let pendingLines: string[] = [];
  let waitingChars = 0;
  const write = (): void => {
    const bytes = Buffer.from(pendingLines.join(''));
    for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done);
    pendingLines = [];
    waitingChars = 0;
  };
  return {
    append(item) {
      const line = `${JSON.stringify(item)}\n`;
      pendingLines.push(line);
      waitingChars += line.length;
      if (waitingChars >= scratchChunkBytes) write();
    },
    *items() {
      write();
      const chunk = Buffer.alloc(scratchChunkBytes);
      let rest: Buffer = Buffer.alloc(0);
      let at = 0;
      for (let bytesRead = readSync(file, chunk, 0, scratchChunkBytes, at); bytesRead > 0; ) {
        at += bytesRead;
        let bytes = Buffer.concat([rest, chunk.subarray(0, bytesRead)]);
        for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline)) {
          yield JSON.parse(bytes.toString('utf8', 0, end)) as T;
          bytes = bytes.subarray(end + 1);
        }
        rest = bytes;
        bytesRead = readSync(file, chunk, 0, scratchChunkBytes, at);
      }
    },
    close: () => closeSync(file),
  };
}

const newline = 0x0a;
