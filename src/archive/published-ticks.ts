import { LRUCache } from 'lru-cache';
import { emptyTicks, type TickColumns } from '../base/ticks.ts';
import type { Archive } from './archive.ts';
import { findDayPart } from './format/day-parts.ts';
import { toDayPath } from './format/layout.ts';
import type { SymbolRowIndex } from './parquet/symbol-row-index.ts';
import { indexTickFile, readSymbolTicks } from './parquet/ticks-file.ts';
import { decodePublished, readPublishedFile } from './read-published-file.ts';

/** Memory for the part files read last, in bytes. The symbols of one poll are in the parts of one or two days. */
const cachedBytesMax = 64 * 1024 * 1024;

interface CachedFile {
  readonly bytes: Uint8Array;
  readonly index: SymbolRowIndex;
}

/**
 * Opens a reader of the published ticks of one symbol and UTC day, for code that compares single observations with them.
 * The ticks are ascending. The reader throws DamageError if the file is missing, differs from the manifest or cannot be
 * decoded.
 */
export function openPublishedTicks(archive: Archive): (symbol: string, day: number) => TickColumns {
  const cache = new LRUCache<string, CachedFile>({
    maxSize: cachedBytesMax,
    sizeCalculation: ({ bytes }) => bytes.length + 1,
  });
  return (symbol, day) => {
    const manifest = archive.readManifest();
    const path = toDayPath('ticks', day, findDayPart(manifest, symbol, day));
    const file = manifest.datasets.ticks.files.find((one) => one.path === path);
    if (file === undefined) return emptyTicks;
    let cached = cache.get(file.sha256);
    if (cached === undefined) {
      const bytes = readPublishedFile(archive, file);
      cached = { bytes, index: decodePublished(path, () => indexTickFile(bytes)) };
      cache.set(file.sha256, cached);
    }
    const { bytes, index } = cached;
    return decodePublished(path, () => readSymbolTicks(bytes, index, symbol));
  };
}
