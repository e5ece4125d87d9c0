import { closeSync, openSync, writeSync } from 'node:fs';
import type { CoveredWindow } from '../../archive/format/coverage.ts';
import type { MarketFacts } from '../../archive/format/market.ts';
import type { BookSide } from '../../archive/format/order-book.ts';
import type { QuarantinedInput } from '../../archive/journal/imported-symbols.ts';
import type { SpilledDays } from '../../archive/publish/spill-file.ts';
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

/** Data that an import has read but not yet written to the archive. */
export type StagedItem =
  | { readonly kind: 'ticks'; readonly ticks: ImportedTicks }
  | { readonly kind: 'rejected'; readonly items: readonly QuarantinedInput[]; readonly dropped: number }
  | { readonly kind: 'markets'; readonly markets: ImportedMarkets }
  | { readonly kind: 'book'; readonly book: ImportedBook };

/** Valid rows of one symbol from one file. */
export interface ImportedRows {
  readonly symbol: string;
  /** Epoch ms. */
  readonly observedAt: number;
  readonly spilled: SpilledDays;
}

/** Ticks, and the windows that their file covers. */
export interface ImportedTicks extends ImportedRows {
  readonly covered: readonly CoveredWindow[];
}

/** A snapshot as plain JSON; each side has its prices and its quantities, best first. */
export interface ImportedBook {
  readonly symbol: string;
  readonly seenAt: number;
  readonly t: number;
  readonly bids: ImportedSide;
  readonly asks: ImportedSide;
}

type ImportedSide = readonly [prices: readonly number[], quantities: readonly number[]];

export const listSide = ({ prices, quantities }: BookSide): ImportedSide => [[...prices], [...quantities]];

export const toSide = ([prices, quantities]: ImportedSide): BookSide => ({
  prices: Float64Array.from(prices),
  quantities: Float64Array.from(quantities),
});

export interface ImportedMarkets {
  readonly facts: readonly MarketFacts[];
  readonly firstSeen: number;
  readonly lastSeen: number;
}

/** The facts by the times at which they were seen first and last, epoch ms. */
export function groupMarketsByTime(batch: readonly ImportedMarkets[]): Map<number, MarketFacts[]> {
  const polls = new Map<number, MarketFacts[]>();
  for (const { facts, firstSeen, lastSeen } of batch) {
    for (const at of new Set([firstSeen, lastSeen])) {
      const list = polls.get(at);
      if (list === undefined) polls.set(at, [...facts]);
      else list.push(...facts);
    }
  }
  return polls;
}

/** Records per transaction. */
const batchRecordsMax = 256;

/** Buffers records, and journals them in batches. @param addLoad called with the load of each batch, in ticks */
export function openBatch<T>(
  append: (batch: readonly T[]) => void,
  computeLoad: (record: T) => number,
  addLoad: (load: number) => Promise<void>,
) {
  let pending: T[] = [];
  const write = async (): Promise<void> => {
    if (pending.length === 0) return;
    const batch = pending;
    pending = [];
    append(batch);
    await addLoad(batch.reduce((sum, record) => sum + computeLoad(record), 0));
  };
  const add = async (record: T): Promise<void> => {
    pending.push(record);
    if (pending.length >= batchRecordsMax) await write();
  };
  return { add, write };
}
