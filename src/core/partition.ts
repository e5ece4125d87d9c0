import { hash } from 'node:crypto';

/**
 * The part that holds a symbol: the first four bytes, big-endian, of sha256 of its UTF-8 text, modulo `parts`. In one
 * call: a publish asks for every symbol of a day, and hash objects take four times as long.
 */
export const computePartNumber = (symbol: string, parts: number): number =>
  Number.parseInt(hash('sha256', symbol, 'hex').slice(0, 8), 16) % parts;
