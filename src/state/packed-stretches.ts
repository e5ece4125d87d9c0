import type { PrecedenceWindow } from '../core/precedence.ts';

/**
 * The stretches of one symbol and UTC day as bytes, some seven a stretch. Sorted and disjoint, each is four LEB128 numbers:
 * milliseconds from the end of the one before (of the first: from the day) to its start, its length in milliseconds, its
 * rank, and by how many milliseconds it was observed after the one before (of the first: after the day), zigzag-coded.
 * @param day the UTC midnight, epoch ms
 */
export function packPrecedence(stretches: readonly PrecedenceWindow[], day: number): Uint8Array {
  const bytes: number[] = [];
  let end = day;
  let observed = day;
  for (const { from, to, rank, observedAt } of stretches) {
    for (const value of [from - end, to - from, rank, encodeZigzag(observedAt - observed)]) appendLeb128(bytes, value);
    end = to;
    observed = observedAt;
  }
  return Uint8Array.from(bytes);
}

/** Reads what packStretches wrote. @throws Error where the bytes end amid a number */
export function unpackPrecedence(bytes: Uint8Array, symbol: string, day: number): PrecedenceWindow[] {
  const out: PrecedenceWindow[] = [];
  let at = 0;
  const next = (): number => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[at++];
      if (byte === undefined) throw new Error(`The standings of ${symbol} end amid a number.`);
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  let end = day;
  let observedAt = day;
  while (at < bytes.length) {
    const from = end + next();
    end = from + next();
    const rank = next();
    observedAt += decodeZigzag(next());
    out.push({ symbol, from, to: end, rank, observedAt });
  }
  return out;
}

/** Safe integers outgrow the bit operators: these are of arithmetic. */
function appendLeb128(bytes: number[], value: number): void {
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push(128 + (rest % 128));
  bytes.push(rest);
}

const encodeZigzag = (value: number): number => (value < 0 ? -2 * value - 1 : 2 * value);
const decodeZigzag = (value: number): number => (value % 2 === 1 ? -(value + 1) / 2 : value / 2);
