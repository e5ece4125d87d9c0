import type { QuarantinedInput } from '../../archive/journal/imported-symbols.ts';
import { timeEnd, timeMin } from '../../base/time.ts';
import type { TimeUnit } from './import-rows.ts';

/** Rows of one file, and why some of them were rejected. */
export interface FileCounts {
  readonly rows: number;
  readonly rejected: number;
  /** The most frequent reason first. */
  readonly reasons: readonly RejectedReason[];
}

export interface RejectedReason {
  readonly reason: string;
  readonly count: number;
  /** The first row that was rejected for it, as received. */
  readonly first: string;
}

/** Counts the rows of one file after the other. */
export interface RowCounter {
  accept(rows?: number): void;
  reject(reason: string, raw: string): void;
  /** The counts of the file that ends here; the next one begins. */
  endFile(): FileCounts;
}

/** Reasons that are told apart; the rest is counted as one. */
const reasonsMax = 20;
const otherReasons = 'other reasons';

export function createRowCounter(): RowCounter {
  let rows = 0;
  let reasons = new Map<string, { count: number; readonly first: string }>();
  return {
    accept(count = 1) {
      rows += count;
    },
    reject(reason, raw) {
      rows++;
      const key = reasons.has(reason) || reasons.size < reasonsMax ? reason : otherReasons;
      const known = reasons.get(key);
      if (known === undefined) reasons.set(key, { count: 1, first: raw });
      else known.count++;
    },
    endFile() {
      const found = [...reasons].map(([reason, { count, first }]) => ({ reason, count, first }));
      const counts = { rows, rejected: 0, reasons: found.sort((a, b) => b.count - a.count) };
      for (const { count } of found) counts.rejected += count;
      rows = 0;
      reasons = new Map();
      return counts;
    },
  };
}

/** Whether more than `shareMax` (0 to 1) of the rows of a file were rejected. */
export const isOverShare = ({ rows, rejected }: FileCounts, shareMax: number): boolean => rejected > shareMax * rows;

/** The flag by which the rows rejected for a reason would be taken, as one writes it; null where none would. */
export function suggestFlag({ reason, first }: RejectedReason): string | null {
  if (reason.includes('--truncate-time')) return '--truncate-time';
  if (reason.includes('--tz')) return '--tz UTC';
  if (!reason.startsWith('t ')) return null;
  const unit = guessTimeUnit(first);
  return unit === null ? null : `--time-unit ${unit}`;
}

const unitsByMs: readonly (readonly [unit: TimeUnit, msPerUnit: number])[] = [
  ['s', 1000],
  ['us', 1e-3],
  ['ns', 1e-6],
];

/** The unit in which the `t` of a row lies between the years 2000 and 2100; null where that is none or it is no number. */
function guessTimeUnit(raw: string): TimeUnit | null {
  // By the text: a row whose digits are too many for a double has them there.
  const t = Number(/"t":\s*"?(-?\d+(?:\.\d+)?)"?\s*[,}]/.exec(raw)?.[1] ?? Number.NaN);
  return unitsByMs.find(([, ms]) => t * ms >= timeMin && t * ms < timeEnd)?.[0] ?? null;
}

/** Rejected input of one file after the other on its way to the quarantine, which has so much room for each of them. */
export interface RejectBuffer {
  /** Keeps it as received, or only counts it. */
  add(item: QuarantinedInput): void;
  nextFile(): void;
  /** How many are kept and not taken yet. */
  readonly pendingCount: number;
  /** Takes what is kept, and how many more were counted, since the last call. */
  drain(): { readonly items: readonly QuarantinedInput[]; readonly dropped: number };
}

/** @param fileBytesMax bytes of input, as received, that are kept of one file */
export function createRejectBuffer(fileBytesMax: number): RejectBuffer {
  let items: QuarantinedInput[] = [];
  let dropped = 0;
  let bytesLeft = fileBytesMax;
  return {
    add(item) {
      const bytes = Buffer.byteLength(item.raw);
      if (bytes > bytesLeft) {
        // What is smaller and comes later does not fit either: a beginning is kept, not a choice.
        bytesLeft = 0;
        dropped++;
        return;
      }
      bytesLeft -= bytes;
      items.push(item);
    },
    nextFile() {
      bytesLeft = fileBytesMax;
    },
    get pendingCount() {
      return items.length;
    },
    drain() {
      const taken = { items, dropped };
      items = [];
      dropped = 0;
      return taken;
    },
  };
}
