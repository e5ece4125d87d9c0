import type { QuarantinedInput } from '../../archive/journal/imported-symbols.ts';
import { type EpochUnit, findTimeUnit } from './import-rows.ts';
import { createPriceRange } from './price-range.ts';

/** Row counts of one file, with the reasons for rejected rows. */
export interface FileCounts {
  readonly rows: number;
  readonly rejected: number;
  /** In descending order of frequency. */
  readonly reasons: readonly RejectedReason[];
  /** Whether the prices of the ticks may be in cents. */
  readonly looksLikeCents: boolean;
  /** The number of prices of ticks that are above 1. */
  readonly pricesAboveOne: number;
  /** The first accepted rows, as they are stored. */
  readonly firstRows: readonly StoredRow[];
}

/** A row as the archive stores it. Times are epoch ms. */
export type StoredRow = Readonly<Record<string, string | number | boolean | null>>;

interface RejectedReason {
  readonly reason: string;
  readonly count: number;
  /** The first row rejected for this reason, as received. */
  readonly first: string;
}

/** Maximum number of distinct reasons. Others are counted together. */
const reasonsMax = 20;
const otherReasons = 'other reasons';

/** Rows of a file that are shown. */
const shownRowsMax = 5;

/** Counts the rows of consecutive files. */
export function createRowCounter() {
  let rows = 0;
  let prices = createPriceRange();
  let firstRows: StoredRow[] = [];
  let reasons = new Map<string, { count: number; readonly first: string }>();
  return {
    accept(count = 1) {
      rows += count;
    },
    reject(reason: string, raw: string) {
      rows++;
      const key = reasons.has(reason) || reasons.size < reasonsMax ? reason : otherReasons;
      const known = reasons.get(key);
      if (known === undefined) reasons.set(key, { count: 1, first: raw });
      else known.count++;
    },
    /** Adds the price of a tick, before it is accepted or rejected. */
    addPrice(price: number) {
      prices.add(price);
    },
    /** Whether `show` takes more rows of the current file. */
    get isShowing() {
      return firstRows.length < shownRowsMax;
    },
    /** Keeps one of the first rows of the current file for display. */
    show(row: StoredRow) {
      firstRows.push(row);
    },
    /** Returns the counts of the current file and starts the next one. */
    endFile(): FileCounts {
      const reasonList =
        reasons.size === 0 ? [] : [...reasons].map(([reason, { count, first }]) => ({ reason, count, first }));
      const sorted = reasonList.sort((a, b) => b.count - a.count);
      const { aboveOne: pricesAboveOne } = prices;
      const counts = {
        rows,
        rejected: 0,
        reasons: sorted,
        looksLikeCents: prices.looksLikeCents(),
        pricesAboveOne,
        firstRows,
      };
      for (const { count } of reasonList) counts.rejected += count;
      rows = 0;
      // Most files are saved pages, which have none of these.
      if (reasons.size > 0) reasons = new Map();
      if (prices.count > 0) prices = createPriceRange();
      if (firstRows.length > 0) firstRows = [];
      return counts;
    },
  };
}

/** Whether more than `shareMax` (0 to 1) of a file's rows were rejected. */
export const isOverShare = ({ rows, rejected }: FileCounts, shareMax: number): boolean => rejected > shareMax * rows;

/** The flag with which rows rejected for this reason would be accepted. Null if there is none. */
function suggestFlag({ reason, first }: RejectedReason): string | null {
  if (reason.includes('--truncate-time')) return '--truncate-time';
  if (reason.includes('--tz')) return '--tz UTC';
  if (reason.includes('--decimal-comma')) return '--decimal-comma';
  const price = /^price "?(\d+(?:\.\d+)?)"? is outside 0 to 1$/.exec(reason)?.[1];
  if (price !== undefined && Number(price) <= 100) return '--price-scale 0.01';
  if (!reason.startsWith('t ')) return null;
  const unit = guessTimeUnit(first);
  return unit === null ? null : `--time-unit ${unit}`;
}

/** The flags with which rejected rows of a file would be accepted. */
export const listReasonFlags = ({ reasons }: FileCounts): readonly string[] =>
  reasons.length === 0 ? [] : [...new Set(reasons.map(suggestFlag).filter((flag) => flag !== null))];

/** The unit in which the `t` of a row lies between the years 2000 and 2100. Null if there is none, or if `t` is not a number. */
function guessTimeUnit(raw: string): EpochUnit | null {
  // Parsed from the text, which has all digits. A double may not.
  const t = Number(/"t":\s*"?(-?\d+(?:\.\d+)?)"?\s*[,}]/.exec(raw)?.[1] ?? Number.NaN);
  const unit = findTimeUnit(t);
  return unit === 'ms' ? null : unit;
}

/** Maximum bytes of rejected input kept per file, before compression: enough to see what is wrong with it. */
const fileBytesMax = 4 * 1024 * 1024;

/** Buffers rejected input of consecutive files for the quarantine. The size per file is limited. */
export function createRejectBuffer() {
  let items: QuarantinedInput[] = [];
  let dropped = 0;
  let bytesLeft = fileBytesMax;
  return {
    /** Keeps the item as received, or only counts it if the limit is reached. */
    add(item: QuarantinedInput) {
      const bytes = Buffer.byteLength(item.raw);
      if (bytes > bytesLeft) {
        // Smaller items that follow are not kept either: the quarantine holds the first rejected items of the file,
        // without omissions.
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
    /** Number of items kept since the last `drain`. */
    get pendingCount() {
      return items.length;
    },
    /** Returns the items kept since the last call, and the number of further items that were counted but not kept. */
    drain(): { readonly items: readonly QuarantinedInput[]; readonly dropped: number } {
      const taken = { items, dropped };
      items = [];
      dropped = 0;
      return taken;
    },
  };
}
