import { LRUCache } from 'lru-cache';
import type { TicksSlice } from '../reading/ticks.ts';

/** Prices whose text is kept: most of a market's ticks share a few hundred. */
const pricesMax = 8192;

/** Milliseconds that the last digits of a time stand for; those before them are the same for many ticks in a row. */
const lowMs = 1_000_000;

/** Writes ticks as the items of a JSON array, as JSON.stringify would, the latest used texts kept in memory. */
export function openTicksTexts(bytesMax: number): (slice: TicksSlice) => string {
  const kept = new LRUCache<string, string>({
    maxSize: Math.max(1, Math.floor(bytesMax)),
    sizeCalculation: (text, key) => text.length + 2 * key.length + 100,
  });
  const prices = new Map<number, string>();
  return (slice) => {
    const key = `${slice.from} ${slice.to} ${slice.key}`;
    const held = kept.get(key);
    if (held !== undefined) return held;
    // Flat, not a tree of pieces: it is sent many times, and its size is what it says.
    const text = Buffer.from(textOf(slice, prices), 'latin1').toString('latin1');
    kept.set(key, text);
    return text;
  };
}

function textOf({ t, p, from, to }: TicksSlice, prices: Map<number, string>): string {
  let out = '';
  let high = -1;
  let head = '';
  for (let i = from; i < to; i++) {
    const time = t[i]!;
    const part = Math.floor(time / lowMs);
    if (part !== high) {
      high = part;
      head = `{"t":${part}`;
    }
    const low = time - part * lowMs;
    const times = part > 0 ? head + String(low + lowMs).slice(1) : `{"t":${time}`;
    out += i === from ? times : `,${times}`;
    out += priceOf(p[i]!, prices);
  }
  return out;
}

function priceOf(price: number, prices: Map<number, string>): string {
  const held = prices.get(price);
  if (held !== undefined) return held;
  // What JSON.stringify writes of a number that is finite, as all that are published are; -0 is 0 in both.
  const text = `,"p":${price}}`;
  if (prices.size >= pricesMax) prices.clear();
  prices.set(price, text);
  return text;
}
