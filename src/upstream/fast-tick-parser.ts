import type { TickColumns } from '../core/tick-columns.ts';
import { readNumber } from './json-number.ts';

const comma = 0x2c;
const colon = 0x3a;
const closingBrace = 0x7d;
const zero = 0x30;
const point = 0x2e;

/** Four bytes as the number that they are when read at once, lowest first. */
const toWord = (text: string): number => Buffer.from(text, 'latin1').readInt32LE();

const timeLabel = toWord('{"t"');
const priceLabel = toWord(',"p"');
const labelBytes = '{"t":'.length;
const timeDigits = 13;
/** `{"t":0,"p":0}` and a comma or a bracket: no tick takes fewer bytes. */
const tickBytesMin = 14;
/** Bytes behind any byte of the elements that are looked at without asking whether they are there; the tail is longer. */
const aheadMax = 32;
/** 10^n, for as many decimals as a short price may have. */
const powersOfTen = Float64Array.of(1, 10, 100, 1000);

/**
 * The `count` elements of `ticks` that reach from `start` to just before its closing bracket at `end`:
 * `{"t":1699999999999,"p":0.123}` and so on, one comma between them and no byte else. Undefined where they are not so.
 *
 * A time of 13 digits, and a price of `0.` and one to three decimals, are read four bytes at once as integers; the first
 * eight digits of a time only where they are others than those before. Whatever else stands there, `readNumber` reads.
 * It is one loop: each call that hands on what was read so far costs as much as reading it.
 */
export function readTicks(bytes: Buffer, start: number, end: number, count: number): TickColumns | undefined {
  // A count is only a claim: no room for more ticks than the bytes can hold.
  if (count * tickBytesMin > end + 1 - start || end + aheadMax > bytes.length) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const t = new Float64Array(count);
  const p = new Float64Array(count);
  let at = start;
  // The first eight digits of the last time, as bytes, and what they stand for; -1 before there are any.
  let high = 0;
  let middle = 0;
  let leading = -1;
  for (let index = 0; index < count; index++) {
    if (index > 0 && bytes[at++] !== comma) return undefined;
    // No label and no number goes over the bracket at the end, so `at` is never behind it.
    if (view.getInt32(at, true) !== timeLabel || bytes[at + 4] !== colon) return undefined;
    at += labelBytes;
    const first = view.getInt32(at, true);
    const second = view.getInt32(at + 4, true);
    if (first !== high || second !== middle || leading < 0) {
      high = first;
      middle = second;
      const isNumber = areDigits(first) && areDigits(second) && (first & 0xff) !== zero;
      leading = isNumber ? (parseFourDigits(first) * 10_000 + parseFourDigits(second)) * 100_000 : -1;
    }
    const third = view.getInt32(at + 8, true);
    const last = bytes[at + 12]! - zero;
    if (
      leading >= 0 &&
      areDigits(third) &&
      last >= 0 &&
      last <= 9 &&
      view.getInt32(at + timeDigits, true) === priceLabel
    ) {
      t[index] = leading + (parseFourDigits(third) * 10 + last);
      at += timeDigits;
    } else {
      at = readNumber(bytes, at, t, index);
      if (at < 0 || view.getInt32(at, true) !== priceLabel) return undefined;
    }
    if (bytes[at + 4] !== colon) return undefined;
    at += labelBytes;
    const behind = view.getInt32(at + 2, true);
    const bits = countDigitBits(behind);
    if (bytes[at] === zero && bytes[at + 1] === point && bits > 0 && bits < 32) {
      // One correctly rounded division of exact doubles, as in readNumber.
      p[index] = parseFourDigits(behind << (32 - bits)) / powersOfTen[bits >> 3]!;
      at += 2 + (bits >> 3);
    } else {
      at = readNumber(bytes, at, p, index);
      if (at < 0) return undefined;
    }
    if (bytes[at++] !== closingBrace) return undefined;
  }
  return at === end ? { t, p } : undefined;
}

/** True where all four bytes are digits: their high halves are 3, and stay so when 6 is added. */
const areDigits = (bytes: number): boolean =>
  (bytes & 0xf0f0f0f0) === 0x30303030 && ((bytes + 0x06060606) & 0xf0f0f0f0) === 0x30303030;

/** How many of the four bytes are digits up to the first that is none, in bits: 0, 8, 16, 24 or 32. */
function countDigitBits(bytes: number): number {
  const values = bytes ^ 0x30303030;
  // Above 9, a byte's highest bit is set; what it carries over touches only those behind it.
  const others = ((values + 0x76767676) | values) & 0x80808080;
  return others === 0 ? 32 : 24 - (Math.clz32(others & -others) & 24);
}

/** The number that four digits make: neighbours joined to two of two digits, then these to one. Bytes of 0 count as 0. */
function parseFourDigits(digits: number): number {
  const pairs = (Math.imul(digits & 0x0f0f0f0f, 10 * 0x100 + 1) >>> 8) & 0x00ff00ff;
  return Math.imul(pairs, 100 * 0x10000 + 1) >>> 16;
}
