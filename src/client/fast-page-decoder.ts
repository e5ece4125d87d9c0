import type { TickColumns } from '../base/ticks.ts';
import type { DecodedTickPage } from './upstream.ts';

const toAsciiBytes = (text: string): Buffer => Buffer.from(text, 'latin1');

const pageHead = toAsciiBytes('{"symbol":"');
const ticksHead = toAsciiBytes('","ticks":[');
/** The labels after the ticks, in order. Each value is an integer. */
const tailLabels = ['],"count":', ',"from":', ',"to":', ',"generated_at":'].map(toAsciiBytes);

const quote = 0x22;
const backslash = 0x5c;
const closingBrace = 0x7d;

/** Reusable buffers for columns: new ones would have to be zeroed, and collected as garbage. */
export interface ColumnBuffers {
  t: Float64Array;
  p: Float64Array;
}

/** Longer symbols are left to decodeJsonPage. */
const symbolBytesMax = 1024;

/**
 * Decodes a tick page in the one layout that JSON serializers produce for the documented response, without allocating
 * an object or a string per tick:
 *
 * {"symbol":"…","ticks":[{"t":1699999999999,"p":0.123},…],"count":N,"from":N,"to":N,"generated_at":N}
 *
 * Returns undefined at the first deviation: another order, white space, escapes, non-ASCII, exponents, minus signs,
 * numbers outside the JSON grammar, a wrong count. The result is identical to that of decodeJsonPage, which decodes all
 * pages for which this function returns undefined.
 * @param buffers the columns are in these buffers, and valid until they are passed in again; default: new columns
 */
export function decodeCompactPage(page: Uint8Array, buffers?: ColumnBuffers): DecodedTickPage | undefined {
  const bytes = Buffer.from(page.buffer, page.byteOffset, page.length);
  if (!matchesAt(bytes, 0, pageHead)) return undefined;
  const symbolEnd = findPlainTextEnd(bytes, pageHead.length);
  if (!matchesAt(bytes, symbolEnd, ticksHead)) return undefined;
  const start = symbolEnd + ticksHead.length;
  // The tail is read first: its count gives the length of the columns.
  const end = bytes.lastIndexOf(tailLabels[0]!);
  const tail = readTail(bytes, end);
  if (tail === undefined) return undefined;
  const [received, from, to, generatedAt] = tail;
  const ticks = readTicks(bytes, start, end, received, buffers);
  if (ticks === undefined) return undefined;
  const symbol = bytes.toString('latin1', pageHead.length, symbolEnd);
  return { t: ticks.t, p: ticks.p, received, rejected: [], symbol, from, to, generatedAt, gaps: [] };
}

/** Reads count, from, to and generated_at, from the closing bracket of the ticks to the last byte of the page. */
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

/** End of a run of printable ASCII without escapes: the closing quote, or the first other byte. */
function findPlainTextEnd(bytes: Buffer, start: number): number {
  const end = Math.min(bytes.length, start + symbolBytesMax);
  let at = start;
  while (at < end && bytes[at]! >= 0x20 && bytes[at]! < 0x7f && bytes[at] !== quote && bytes[at] !== backslash) at++;
  return at;
}

const comma = 0x2c;
const colon = 0x3a;

/** Four ASCII bytes as a little-endian integer. */
const toWord = (text: string): number => Buffer.from(text, 'latin1').readInt32LE();

const timeLabel = toWord('{"t"');
const priceLabel = toWord(',"p"');
const labelBytes = '{"t":'.length;
const timeDigits = 13;
/** Length of `{"t":0,"p":0}` and a comma or a bracket, the shortest tick. */
const tickBytesMin = 14;
/** Number of bytes after the elements that may be read without a bounds check. The tail is longer. */
const aheadMax = 32;

/**
 * Reads the `count` elements of `ticks` from `start` to their closing bracket at `end`: `{"t":1699999999999,"p":0.123}` and
 * so on, separated by one comma. Undefined for any other layout.
 *
 * A time of 13 digits, and a price of `0.` with one to three decimals, are read four bytes at a time as integers. The first
 * eight digits of a time are parsed only if they differ from the previous ones. `readNumber` reads all other numbers. This
 * is one loop because passing the state to a function costs as much as the reading itself.
 */
function readTicks(
  bytes: Buffer,
  start: number,
  end: number,
  count: number,
  buffers?: ColumnBuffers,
): TickColumns | undefined {
  // The count is not trusted: it must not exceed the number of ticks that the bytes can hold.
  if (count * tickBytesMin > end + 1 - start || end + aheadMax > bytes.length) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const { t, p } = buffers === undefined ? allocateColumns(count) : reserveColumns(buffers, count);
  let at = start;
  // The first eight digits of the last time, as bytes, and their value. -1 if not set.
  let high = 0;
  let middle = 0;
  let leading = -1;
  for (let index = 0; index < count; index++) {
    if (index > 0 && bytes[at++] !== comma) return undefined;
    // Labels and numbers never extend past the closing bracket, so `at` is never after it.
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
    const decimalWord = view.getInt32(at + 2, true);
    const bits = countDigitBits(decimalWord);
    if (bytes[at] === zero && bytes[at + 1] === point && bits > 0 && bits < 32) {
      // One correctly rounded division of exact doubles, as in readNumber.
      p[index] = parseFourDigits(decimalWord << (32 - bits)) / powersOfTen[bits >> 3]!;
      at += 2 + (bits >> 3);
    } else {
      at = readNumber(bytes, at, p, index);
      if (at < 0) return undefined;
    }
    if (bytes[at++] !== closingBrace) return undefined;
  }
  return at === end ? { t, p } : undefined;
}

const allocateColumns = (count: number): ColumnBuffers => ({ t: new Float64Array(count), p: new Float64Array(count) });

/** Returns the beginnings of the buffers, which grow on demand. */
function reserveColumns(buffers: ColumnBuffers, count: number): ColumnBuffers {
  if (buffers.t.length < count) Object.assign(buffers, allocateColumns(2 * count));
  return { t: buffers.t.subarray(0, count), p: buffers.p.subarray(0, count) };
}

/** Whether all four bytes are digits: their high nibbles are 3, and stay 3 when 6 is added. */
const areDigits = (bytes: number): boolean =>
  (bytes & 0xf0f0f0f0) === 0x30303030 && ((bytes + 0x06060606) & 0xf0f0f0f0) === 0x30303030;

/** Number of leading digits among the four bytes, in bits: 0, 8, 16, 24 or 32. */
function countDigitBits(bytes: number): number {
  const values = bytes ^ 0x30303030;
  // Above 9, the highest bit of a byte is set. Its carry affects only the bytes after it.
  const others = ((values + 0x76767676) | values) & 0x80808080;
  return others === 0 ? 32 : 24 - (Math.clz32(others & -others) & 24);
}

/**
 * The value of four digits: neighbours are combined into two-digit numbers, and these into one. Bytes of 0 count as 0.
 */
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
 * Reads `digits` or `digits.digits` at `start`, following the JSON grammar (no leading zeros, digits on both sides of
 * the point), into `into[index]`, as exactly the double that JSON.parse returns. Returns the position after it, or -1
 * if there is no such number or it exceeds a double. The caller checks the next byte, e.g. for an exponent.
 *
 * digits / 10^n is one correctly rounded division, hence exact, if both are exact doubles (W. D. Clinger, "How to read
 * floating point numbers accurately", 1990): digits < 2^53 and n <= 22. Other numbers go through Number().
 *
 * The value is written into the column because returning a double allocates, which takes half of the time here.
 */
function readNumber(bytes: Buffer, start: number, into: Float64Array, index: number): number {
  let at = start;
  let digits = 0;
  // NaN past the end, which is not a digit.
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
  // Below 2^53 every step was exact. At 2^53 one may have been rounded.
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
