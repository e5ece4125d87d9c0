import { hourMs } from '../../base/window.ts';
import { type Database, getMeta, setMeta, toSourceKey } from './database.ts';

/** When ticks of a source came, over all symbols. */
export interface FeedTimes {
  /** The newest tick, epoch ms. */
  readonly newestTick: number;
  /** The longest time without a tick that another tick ended, in whole hours, as ms. */
  readonly longestSilenceMs: number;
}

/** A silence is suspicious if it is this many times as long as any before. */
const silenceRatio = 3;
const silenceMsMin = 6 * hourMs;

/** Adds ticks to what is known. @param hours the whole hours since the epoch that have ticks, at least one */
export function addFeedTimes(known: FeedTimes | null, hours: Iterable<number>, newestTick: number): FeedTimes {
  const sorted = [...new Set(hours)].concat(known === null ? [] : Math.floor(known.newestTick / hourMs));
  sorted.sort((a, b) => a - b);
  const longest = sorted.reduce((max, hour, i) => Math.max(max, hour - (sorted[i - 1] ?? hour)), 0);
  return {
    newestTick: Math.max(newestTick, known?.newestTick ?? newestTick),
    longestSilenceMs: Math.max(longest * hourMs, known?.longestSilenceMs ?? 0),
  };
}

/** Whether no tick came for far longer than ever. False as long as no silence is known. */
export const isFeedFrozen = ({ newestTick, longestSilenceMs }: FeedTimes, nowMs: number): boolean =>
  longestSilenceMs > 0 && nowMs - newestTick > Math.max(silenceMsMin, silenceRatio * longestSilenceMs);

const feedKey = 'feed_times';

/** Adds the ticks of a poll to those of a source; null if it has shown none. */
export function recordFeedTimes(
  db: Database,
  hours: ReadonlySet<number>,
  newestTick: number,
  source: string | null,
): FeedTimes | null {
  const key = toSourceKey(feedKey, source);
  return db.transaction(() => {
    const text = getMeta(db, key);
    const known = text === undefined ? null : (JSON.parse(text) as FeedTimes);
    if (hours.size === 0) return known;
    const times = addFeedTimes(known, hours, newestTick);
    setMeta(db, key, JSON.stringify(times));
    return times;
  });
}
