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
