import type { Random } from './ports.ts';

/** A bijective 32-bit mixer: fmix32 of MurmurHash3 (Austin Appleby, public domain). */
function mixBits(bits: number): number {
  let h = bits;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Hashes a key and an integer between -2^53 and 2^53 to 32 bits. The result is the same on every machine. */
export function hashNumber(key: number, n: number): number {
  const high = Math.floor(n / 0x1_0000_0000);
  return mixBits((mixBits((key ^ Math.imul(high, 0x9e3779b1)) | 0) + Math.imul(n | 0, 0x27d4eb2f)) | 0);
}

/** `hashNumber` scaled to [0, 1): the n-th number of a sequence, without computing those before it. */
export function drawAt(key: number, n: number): number {
  return hashNumber(key, n) / 0x1_0000_0000;
}

/** Hashes a text under a key to 32 bits: FNV-1a over UTF-16 units (Fowler, Noll, Vo), then mixed. */
export function hashText(key: number, text: string): number {
  let h = (0x811c9dc5 ^ mixBits(key)) | 0;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return mixBits(h);
}

/** A pseudo-random generator of numbers in [0, 1): mulberry32 (Tommy Ettinger, public domain), period 2^32. */
export function createRandom(seed: number): Random {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let h = Math.imul(state ^ (state >>> 15), 1 | state);
    h = (h + Math.imul(h ^ (h >>> 7), 61 | h)) ^ h;
    return ((h ^ (h >>> 14)) >>> 0) / 0x1_0000_0000;
  };
}
