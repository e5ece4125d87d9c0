import { createHash } from 'node:crypto';

/** The part that holds a symbol: the first four bytes, big-endian, of sha256 of its UTF-8 text, modulo `parts`. */
export const partOf = (symbol: string, parts: number): number =>
  createHash('sha256').update(symbol, 'utf8').digest().readUInt32BE(0) % parts;
