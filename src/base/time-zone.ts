import { findFirstIndex } from './binary-search.ts';
import { UsageError } from './errors.ts';
import { hourMs } from './window.ts';

/** Converts wall-clock times of a time zone. All times are in milliseconds. */
export interface TimeZone {
  readonly name: string;
  /**
   * Converts a wall-clock time, encoded as if it were UTC, to an instant. When daylight saving time changes, some wall-clock
   * times do not occur (`skipped`), and some occur twice (`twice`).
   */
  toInstant(localMs: number): number | 'skipped' | 'twice';
}

export const utcZone: TimeZone = { name: 'UTC', toInstant: (localMs) => localMs };

/** Upper bound of offsets from UTC, in ms. */
const offsetMsMax = 26 * hourMs;
/** The offset of a zone changes at most once within this time, in ms. */
const spanMs = 6 * hourMs;
const blockMs = 900_000;
/** Maximum size of the cache. A file sorted by time uses far fewer blocks. */
const blocksMax = 100_000;

interface OffsetSpan {
  readonly before: number;
  readonly after: number;
  /** The first instant with the offset `after`. */
  readonly changesAt: number;
}

/**
 * Opens an IANA time zone by name, or an offset such as `+02:00`.
 * @throws UsageError for a name that Node's zone data does not have
 */
export function openTimeZone(name: string): TimeZone {
  if (/^(utc|z|etc\/utc)$/i.test(name)) return utcZone;
  const offsetAt = createOffsetLookup(name);
  const spans = new Map<number, OffsetSpan>();
  const spanAt = (index: number): OffsetSpan => {
    let span = spans.get(index);
    if (span === undefined) {
      if (spans.size >= blocksMax) spans.clear();
      span = findOffsetSpan(offsetAt, index * spanMs);
      spans.set(index, span);
    }
    return span;
  };
  const knownOffsetAt = (utcMs: number): number => {
    const span = spanAt(Math.floor(utcMs / spanMs));
    return utcMs < span.changesAt ? span.before : span.after;
  };
  /** All offsets that can apply to wall-clock times in this block. */
  const offsetsNear = (block: number): number[] => {
    const found = new Set<number>();
    const first = Math.floor((block * blockMs - offsetMsMax) / spanMs);
    const last = Math.floor(((block + 1) * blockMs + offsetMsMax) / spanMs);
    for (let index = first; index <= last; index++) found.add(spanAt(index).before).add(spanAt(index).after);
    return [...found];
  };
  const blocks = new Map<number, number[]>();
  let latest = { block: Number.NaN, offsets: [0] };
  return {
    name,
    toInstant(localMs) {
      const block = Math.floor(localMs / blockMs);
      if (block !== latest.block) {
        let offsets = blocks.get(block);
        if (offsets === undefined) {
          if (blocks.size >= blocksMax) blocks.clear();
          offsets = offsetsNear(block);
          blocks.set(block, offsets);
        }
        latest = { block, offsets };
      }
      const { offsets } = latest;
      if (offsets.length === 1) return localMs - offsets[0]!;
      const instants = offsets.map((offset) => localMs - offset).filter((ms) => knownOffsetAt(ms) === localMs - ms);
      return instants.length === 1 ? instants[0]! : instants.length === 0 ? 'skipped' : 'twice';
    },
  };
}

function findOffsetSpan(offsetAt: (utcMs: number) => number, from: number): OffsetSpan {
  const before = offsetAt(from);
  const after = offsetAt(from + spanMs - 1);
  if (before === after) return { before, after, changesAt: from };
  return { before, after, changesAt: findFirstIndex(from, from + spanMs - 1, (ms) => offsetAt(ms) !== before) };
}

/** Returns a function that computes the offset from UTC at an instant, in ms, from Node's time zone data. */
function createOffsetLookup(name: string): (utcMs: number) => number {
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone: name,
      hourCycle: 'h23',
      calendar: 'gregory',
      numberingSystem: 'latn',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  } catch (error) {
    throw new UsageError(
      `--tz ${JSON.stringify(name)}: expected a time zone such as UTC, America/New_York or Europe/Berlin`,
      { cause: error },
    );
  }
  return (utcMs) => {
    const second = Math.floor(utcMs / 1000) * 1000;
    const shown: Record<string, number> = {};
    for (const { type, value } of format.formatToParts(second)) shown[type] = Number(value);
    const { year, month, day, hour, minute } = shown;
    return Date.UTC(year!, month! - 1, day, hour, minute, shown.second) - second;
  };
}
