// Numbers in a page that are not of whole bytes, or of as many as they need.

/** The `width` bits, 0 to 50, from bit `at` on, lowest first. What lies after the end counts as zero. */
export function readBits(bytes: Uint8Array, at: number, width: number): number {
  if (width > 25) return readBits(bytes, at, 25) + readBits(bytes, at + 25, width - 25) * 2 ** 25;
  const i = at >>> 3;
  const four = bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24);
  return (four >>> (at & 7)) & ((1 << width) - 1);
}

/** A reader of variable-length integers; `at` moves. */
export interface ByteCursor {
  readonly bytes: Uint8Array;
  at: number;
}

export function readVarint(cursor: ByteCursor): number {
  let value = 0;
  for (let scale = 1; scale <= Number.MAX_SAFE_INTEGER; scale *= 128) {
    const next = cursor.bytes[cursor.at++];
    if (next === undefined) throw new Error('a page ends too early');
    value += (next & 127) * scale;
    if (next < 128) return value;
  }
  throw new Error('a number in a page is too long');
}

export function readZigzag(cursor: ByteCursor): number {
  const value = readVarint(cursor);
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
}
