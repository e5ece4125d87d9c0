import { LRUCache } from 'lru-cache';
import type { PublishedFile } from '../archive/manifest.ts';
import {
  decodeSymbolTicks,
  indexTickFile,
  readSymbolTicks,
  type TickFileIndex,
} from '../archive/parquet/tick-page-index.ts';
import { DamageError } from '../core/errors.ts';
import { emptyTicks, type TickColumns } from '../core/tick.ts';
import type { VerifiedFiles } from './files/verified-files.ts';

/** Published ticks of single symbols, the latest used of them kept decoded in memory. */
export interface SymbolTickCache {
  /**
   * The ticks of a symbol in a file of the dataset ticks; none where it holds none.
   * @throws DamageError as `VerifiedFiles.bytes`, and where the file cannot be read though it is as published
   */
  readTicks(file: PublishedFile, symbol: string): TickColumns;
}

/** What a symbol's columns weigh beside their numbers. */
const entryBytes = 200;

/** Bytes of file indexes that are kept, against those of columns. */
const indexShare = 1 / 4;

/** @param bytesMax what is kept of columns and file indexes; at least 0 */
export function openSymbolTickCache(files: VerifiedFiles, bytesMax: number): SymbolTickCache {
  // What a file is, is its hash: a replaced one is another, and falls out by itself.
  const columns = new LRUCache<string, TickColumns>({
    maxSize: Math.max(1, Math.floor(bytesMax * (1 - indexShare))),
    sizeCalculation: ({ t }) => 16 * t.length + entryBytes,
  });
  // False: it is stored in another way than our writer's, and is decoded whole.
  const indexes = new LRUCache<string, TickFileIndex | false>({
    maxSize: Math.max(1, Math.floor(bytesMax * indexShare)),
    sizeCalculation: (index) => (index === false ? entryBytes : index.memoryBytes + entryBytes),
  });

  function indexOf(file: PublishedFile, bytes: Uint8Array): TickFileIndex | false {
    const held = indexes.get(file.sha256);
    if (held !== undefined) return held;
    const index = tryRead(() => indexTickFile(bytes)) ?? false;
    indexes.set(file.sha256, index);
    return index;
  }

  function read(file: PublishedFile, symbol: string): TickColumns {
    const index = indexes.get(file.sha256);
    // Its index tells without its bytes.
    if (index !== undefined && index !== false && !index.symbolIndexes.has(symbol)) return emptyTicks;
    const bytes = files.readBytes(file);
    const known = indexOf(file, bytes);
    if (known !== false && !known.symbolIndexes.has(symbol)) return emptyTicks;
    const fast = known === false ? undefined : tryRead(() => readSymbolTicks(bytes, known, symbol));
    if (fast !== undefined) return fast;
    try {
      return decodeSymbolTicks(bytes, symbol) ?? emptyTicks;
    } catch (error) {
      throw new DamageError(`${file.path} cannot be read: ${(error as Error).message}`, { cause: error });
    }
  }

  return {
    readTicks(file, symbol) {
      const key = `${file.sha256} ${symbol}`;
      const held = columns.get(key);
      if (held !== undefined) return held;
      const found = read(file, symbol);
      columns.set(key, found);
      return found;
    },
  };
}

/** Undefined where the fast way cannot read a file; the plain one then decides whether it is sound. */
function tryRead<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
