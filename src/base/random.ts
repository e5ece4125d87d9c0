import type { Random } from './ports.ts';

/** Spreads 32 bits over 32 bits without loss: fmix32 of MurmurHash3 (Austin Appleby, public domain). */
function mixBits(bits: number): number {
  let h = bits;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** A hash of a key and a whole number up to 2^53 of either sign: 32 bits, the same on every machine. */
export function hashNumber(key: number, n: number): number {
  const high = Math.floor(n / 0x1_0000_0000);
  return mixBits((mixBits((key ^ Math.imul(high, 0x9e3779b1)) | 0) + Math.imul(n | 0, 0x27d4eb2f)) | 0);
}

/** As `hash`, in [0, 1): random access where a generator would have to be run up to `n`. */
export function drawAt(key: number, n: number): number {
  return hashNumber(key, n) / 0x1_0000_0000;
}

/** A key of a text under another key: FNV-1a over UTF-16 units (Fowler, Noll, Vo), then spread. */
export function hashText(key: number, text: string): number {
  let h = (0x811c9dc5 ^ mixBits(key)) | 0;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return mixBits(h);
}

/** A generator of numbers in [0, 1): mulberry32 (Tommy Ettinger, public domain), period 2^32. */
export function createRandom(seed: number): Random {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let h = Math.imul(state ^ (state >>> 15), 1 | state);
    h = (h + Math.imul(h ^ (h >>> 7), 61 | h)) ^ h;
    return ((h ^ (h >>> 14)) >>> 0) / 0x1_0000_0000;
  };
}
