import type { TickColumns } from '../base/ticks.ts';
import type { DecodedTickPage } from './upstream.ts';

const toAsciiBytes = (text: string): Buffer => Buffer.from(text, 'latin1');

const pageHead = toAsciiBytes('{"symbol":"');
const ticksHead = toAsciiBytes('","ticks":[');
/** What follows the ticks: each an integer, in this order. */
const tailLabels = ['],"count":', ',"from":', ',"to":', ',"generated_at":'].map(toAsciiBytes);

const quote = 0x22;
const backslash = 0x5c;
const closingBrace = 0x7d;

/** Longer symbols are nobody's; decodeJsonPage takes them. */
const symbolBytesMax = 1024;

/**
 * A tick page in the one layout that a JSON serializer gives the documented answer, without an object or a string per tick:
 *
 *     {"symbol":"…","ticks":[{"t":1699999999999,"p":0.123},…],"count":N,"from":N,"to":N,"generated_at":N}
 *
 * Returns undefined at the first byte that is not so: other order, white space, escapes, non-ASCII, exponents, minus
 * signs, numbers outside the JSON grammar, a count that is off. It never judges a page: what it returns is what
 * decodeJsonPage returns, bit for bit, and what it declines is decodeJsonPage's to accept or to refuse.
 */
export function decodeCompactPage(page: Uint8Array): DecodedTickPage | undefined {
  const bytes = Buffer.from(page.buffer, page.byteOffset, page.length);
  if (!matchesAt(bytes, 0, pageHead)) return undefined;
  const symbolEnd = findPlainTextEnd(bytes, pageHead.length);
  if (!matchesAt(bytes, symbolEnd, ticksHead)) return undefined;
  const start = symbolEnd + ticksHead.length;
  // The tail first: its count says how long the columns are.
  const end = bytes.lastIndexOf(tailLabels[0]!);
  const tail = readTail(bytes, end);
  if (tail === undefined) return undefined;
  const [received, from, to, generatedAt] = tail;
  const ticks = readTicks(bytes, start, end, received);
  if (ticks === undefined) return undefined;
  const symbol = bytes.toString('latin1', pageHead.length, symbolEnd);
  return { t: ticks.t, p: ticks.p, received, rejected: [], symbol, from, to, generatedAt, gaps: [] };
}

/** count, from, to and generated_at, from the ticks' closing bracket up to the last byte of the page. */
function readTail(bytes: Buffer, start: number): [number, number, number, number] | undefined {
  if (start < 0) return undefined;
  const values = new Float64Array(tailLabels.length);
  let at = start;
  for (const [index, label] of tailLabels.entries()) {
    if (!matchesAt(bytes, at, label)) return undefined;
    at = readNumber(bytes, at + label.length, values, index);
    if (at < 0 || !Number.isSafeInteger(values[index])) return undefined;
  }
  if (bytes[at] !== closingBrace || at + 1 !== bytes.length) return undefined;
  return [values[0]!, values[1]!, values[2]!, values[3]!];
}

function matchesAt(bytes: Buffer, at: number, literal: Buffer): boolean {
  for (let i = 0; i < literal.length; i++) {
    if (bytes[at + i] !== literal[i]) return false;
  }
  return true;
}

/** Where printable ASCII without escapes ends: at the quote, or at what is not that. */
function findPlainTextEnd(bytes: Buffer, start: number): number {
  const end = Math.min(bytes.length, start + symbolBytesMax);
  let at = start;
  while (at < end && bytes[at]! >= 0x20 && bytes[at]! < 0x7f && bytes[at] !== quote && bytes[at] !== backslash) at++;
  return at;
}

const comma = 0x2c;
const colon = 0x3a;

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

const zero = 0x30;
const point = 0x2e;

/** 10^n is an exact double up to n = 22. */
const powersOfTen = Float64Array.from({ length: 23 }, (_, n) => Number(`1e${n}`));
const exactMax = 2 ** 53;

/**
 * Reads `digits` or `digits.digits` at `start`, as the JSON grammar has it (no leading zeros, digits on both sides of
 * the point), into `into[index]`: the very double that JSON.parse gives. Returns the position behind it, or -1 where no
 * such number stands or it is too great for a double. The next byte is the caller's to check: an exponent ends up there.
 *
 * digits / 10^n is one correctly rounded division, hence exact, while both are exact doubles (W. D. Clinger, "How to
 * read floating point numbers accurately", 1990): digits < 2^53 and n <= 22. Other numbers go through Number().
 *
 * The value goes straight into the column because a double that is returned costs an allocation, half of the time here.
 */
export function readNumber(bytes: Buffer, start: number, into: Float64Array, index: number): number {
  let at = start;
  let digits = 0;
  // Past the end this is NaN, which is no digit.
  let digit = bytes[at]! - zero;
  while (digit >= 0 && digit <= 9) {
    digits = digits * 10 + digit;
    digit = bytes[++at]! - zero;
  }
  if (at === start || (bytes[start] === zero && at > start + 1)) return -1;
  let decimals = 0;
  if (bytes[at] === point) {
    const firstDecimal = ++at;
    digit = bytes[at]! - zero;
    while (digit >= 0 && digit <= 9) {
      digits = digits * 10 + digit;
      digit = bytes[++at]! - zero;
    }
    decimals = at - firstDecimal;
    if (decimals === 0) return -1;
  }
  // Below 2^53 no step of the sum was rounded; at 2^53 one may have been.
  if (digits >= exactMax || decimals > 22) return readLongNumber(bytes, start, at, into, index);
  into[index] = decimals === 0 ? digits : digits / powersOfTen[decimals]!;
  return at;
}

function readLongNumber(bytes: Buffer, start: number, end: number, into: Float64Array, index: number): number {
  const value = Number(bytes.toString('latin1', start, end));
  if (!Number.isFinite(value)) return -1;
  into[index] = value;
  return end;
}
