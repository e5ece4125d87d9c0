import { readTicks } from './fast-tick-parser.ts';
import { readNumber } from './json-number.ts';
import type { DecodedTickPage } from './upstream.ts';

const toAsciiBytes = (text: string): Buffer => Buffer.from(text, 'latin1');

const pageHead = toAsciiBytes('{"symbol":"');
const ticksHead = toAsciiBytes('","ticks":[');
/** What follows the ticks: each an integer, in this order. */
const tailLabels = ['],"count":', ',"from":', ',"to":', ',"generated_at":'].map(toAsciiBytes);

const quote = 0x22;
const backslash = 0x5c;
const closingBrace = 0x7d;

/** Longer symbols are nobody's; decodePlain takes them. */
const symbolBytesMax = 1024;

/**
 * A tick page in the one layout that a JSON serializer gives the documented answer, without an object or a string per tick:
 *
 *     {"symbol":"…","ticks":[{"t":1699999999999,"p":0.123},…],"count":N,"from":N,"to":N,"generated_at":N}
 *
 * Returns undefined at the first byte that is not so: other order, white space, escapes, non-ASCII, exponents, minus
 * signs, numbers outside the JSON grammar, a count that is off. It never judges a page: what it returns is what
 * decodePlain returns, bit for bit, and what it declines is decodePlain's to accept or to refuse.
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
