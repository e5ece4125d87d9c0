import { LRUCache } from 'lru-cache';
import type { PublishedFile } from '../archive/manifest.ts';
import { indexTicks, type TicksIndex, ticksOf, ticksOfWhole } from '../archive/parquet/tick-page-index.ts';
import { DamageError } from '../core/errors.ts';
import { noTicks, type TickColumns } from '../core/tick.ts';
import type { VerifiedFiles } from './files/verified-files.ts';

/** Published ticks of single symbols, the latest used of them kept decoded in memory. */
export interface SymbolParts {
  /**
   * The ticks of a symbol in a file of the dataset ticks; none where it holds none.
   * @throws DamageError as `VerifiedFiles.bytes`, and where the file cannot be read though it is as published
   */
  ticks(file: PublishedFile, symbol: string): TickColumns;
}

/** What a symbol's columns weigh beside their numbers. */
const entryBytes = 200;

/** Bytes of file indexes that are kept, against those of columns. */
const indexShare = 1 / 4;

/** @param bytesMax what is kept of columns and file indexes; at least 0 */
export function openSymbolParts(files: VerifiedFiles, bytesMax: number): SymbolParts {
  // What a file is, is its hash: a replaced one is another, and falls out by itself.
  const columns = new LRUCache<string, TickColumns>({
    maxSize: Math.max(1, Math.floor(bytesMax * (1 - indexShare))),
    sizeCalculation: ({ t }) => 16 * t.length + entryBytes,
  });
  // False: it is stored in another way than our writer's, and is decoded whole.
  const indexes = new LRUCache<string, TicksIndex | false>({
    maxSize: Math.max(1, Math.floor(bytesMax * indexShare)),
    sizeCalculation: (index) => (index === false ? entryBytes : index.bytes + entryBytes),
  });

  function indexOf(file: PublishedFile, bytes: Uint8Array): TicksIndex | false {
    const held = indexes.get(file.sha256);
    if (held !== undefined) return held;
    const index = attempt(() => indexTicks(bytes)) ?? false;
    indexes.set(file.sha256, index);
    return index;
  }

  function read(file: PublishedFile, symbol: string): TickColumns {
    const index = indexes.get(file.sha256);
    // Its index tells without its bytes.
    if (index !== undefined && index !== false && !index.symbols.has(symbol)) return noTicks;
    const bytes = files.bytes(file);
    const known = indexOf(file, bytes);
    if (known !== false && !known.symbols.has(symbol)) return noTicks;
    const fast = known === false ? undefined : attempt(() => ticksOf(bytes, known, symbol));
    if (fast !== undefined) return fast;
    try {
      return ticksOfWhole(bytes, symbol) ?? noTicks;
    } catch (error) {
      throw new DamageError(`${file.path} cannot be read: ${(error as Error).message}`, { cause: error });
    }
  }

  return {
    ticks(file, symbol) {
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
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
