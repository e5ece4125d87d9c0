import { closeSync, openSync, readSync, writeSync } from 'node:fs';
import type { MarketFacts } from '../../archive/format/market.ts';
import type { QuarantinedInput } from '../../archive/journal/imported-symbols.ts';
import type { ImportedSymbolTicks } from '../../archive/publish/import-buffer.ts';

/** What an import has read, on its way to the archive. */
export type StagedItem =
  | { readonly kind: 'read'; readonly read: ImportedSymbolTicks }
  | { readonly kind: 'quarantined'; readonly items: readonly QuarantinedInput[]; readonly dropped: number }
  | { readonly kind: 'markets'; readonly markets: ImportedMarkets };

export interface ImportedMarkets {
  readonly facts: readonly MarketFacts[];
  readonly firstSeen: number;
  readonly lastSeen: number;
}

/**
 * A list in a scratch file: what an import has read waits there until it is known that all of it can be published, which
 * takes no memory. Items are plain JSON.
 */
export interface ScratchList<T> {
  append(item: T): void;
  /** The items in the order in which they were put. */
  items(): Generator<T, void, undefined>;
  close(): void;
}

const scratchChunkBytes = 1 << 20;

/** Begins a scratch file, which has to be a new one. */
export function openScratchList<T>(path: string): ScratchList<T> {
  const file = openSync(path, 'wx+');
  let waiting: string[] = [];
  let waitingChars = 0;
  const write = (): void => {
    const bytes = Buffer.from(waiting.join(''));
    for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done);
    waiting = [];
    waitingChars = 0;
  };
  return {
    append(item) {
      const line = `${JSON.stringify(item)}\n`;
      waiting.push(line);
      waitingChars += line.length;
      if (waitingChars >= scratchChunkBytes) write();
    },
    *items() {
      write();
      const piece = Buffer.alloc(scratchChunkBytes);
      let rest: Buffer = Buffer.alloc(0);
      let at = 0;
      for (let read = readSync(file, piece, 0, scratchChunkBytes, at); read > 0; ) {
        at += read;
        let bytes = Buffer.concat([rest, piece.subarray(0, read)]);
        for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline)) {
          yield JSON.parse(bytes.toString('utf8', 0, end)) as T;
          bytes = bytes.subarray(end + 1);
        }
        rest = bytes;
        read = readSync(file, piece, 0, scratchChunkBytes, at);
      }
    },
    close: () => closeSync(file),
  };
}

const newline = 0x0a;
