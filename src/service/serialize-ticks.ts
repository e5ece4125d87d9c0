import { LRUCache } from 'lru-cache';
import type { TickSlice } from '../reading/read-ticks.ts';

/** Prices of so many steps from 0 to 1 have their texts kept: those of nearly all ticks. */
const priceSteps = 10_000;

/** Bytes that are kept to write texts in; longer ones get their own. */
const scratchBytes = 1 << 20;

/** The longest item: 17 digits of time and 24 characters of price with what stands around them. */
const itemBytesMax = 64;

const zeroCharCode = 48;
const commaCharCode = 44;
const itemPrefix = Buffer.from('{"t":');

/** Writes ticks as the items of a JSON array, as JSON.stringify would, the latest used texts kept in memory. */
export function createTickSerializer(bytesMax: number): (slice: TickSlice) => Uint8Array {
  const kept = new LRUCache<string, Uint8Array>({
    maxSize: Math.max(1, Math.floor(bytesMax)),
    sizeCalculation: (text, key) => text.length + 2 * key.length + 100,
  });
  const prices: (Uint8Array | undefined)[] = new Array(priceSteps + 1).fill(undefined);
  const scratch = new Uint8Array(scratchBytes);
  return (slice) => {
    const key = `${slice.from} ${slice.to} ${slice.key}`;
    const held = kept.get(key);
    if (held !== undefined) return held;
    const text = serializeSlice(slice, prices, scratch);
    kept.set(key, text);
    return text;
  };
}

function serializeSlice(
  { t, p, from, to }: TickSlice,
  prices: (Uint8Array | undefined)[],
  scratch: Uint8Array,
): Uint8Array {
  const bytes = (to - from) * itemBytesMax;
  const out = bytes <= scratch.length ? scratch : new Uint8Array(bytes);
  let at = 0;
  for (let i = from; i < to; i++) {
    if (i > from) out[at++] = commaCharCode;
    for (let k = 0; k < itemPrefix.length; k++) out[at++] = itemPrefix[k]!;
    at = writeInteger(out, at, t[i]!);
    const price = toPriceBytes(p[i]!, prices);
    for (let k = 0; k < price.length; k++) out[at++] = price[k]!;
  }
  return out.slice(0, at);
}

/** Writes a whole number from 0 to 2^53 in digits; returns where it ends. */
function writeInteger(out: Uint8Array, at: number, value: number): number {
  let digits = 1;
  for (let bound = 10; bound <= value; bound *= 10) digits++;
  // Two halves: whole numbers below 2^31 are divided far faster.
  let high = Math.floor(value / 10_000_000);
  let low = value - high * 10_000_000;
  let place = at + digits - 1;
  for (let k = 0; k < 7 && place >= at; k++) {
    const rest = (low / 10) | 0;
    out[place--] = zeroCharCode + low - rest * 10;
    low = rest;
  }
  for (; place >= at; ) {
    const rest = (high / 10) | 0;
    out[place--] = zeroCharCode + high - rest * 10;
    high = rest;
  }
  return at + digits;
}

function toPriceBytes(price: number, prices: (Uint8Array | undefined)[]): Uint8Array {
  const step = Math.round(price * priceSteps);
  // The same double: then it has the same text.
  if (!(step >= 0 && step <= priceSteps && step / priceSteps === price)) return formatPriceBytes(price);
  const held = prices[step];
  if (held !== undefined) return held;
  const text = formatPriceBytes(price);
  prices[step] = text;
  return text;
}

/** What JSON.stringify writes of a number that is finite, as all that are published are; -0 is 0 in both. */
const formatPriceBytes = (price: number): Uint8Array => Buffer.from(`,"p":${price}}`, 'latin1');
