import { findFirstAtOrAfter } from '../../base/binary-search.ts';
import type { TickColumns } from '../../base/ticks.ts';
import { mergePart } from './merge.ts';
import type { KnownPrecedence } from './precedence.ts';
import { emptyPart, type PartColumns, type TickChunk } from './tick-columns.ts';

/** What one observation changes in the ticks of a symbol. Both are ascending; no key is in both. */
export interface TickChanges {
  /** Ticks with a new key. */
  readonly added: TickColumns;
  /** Ticks of a known key, with the price that replaces the known one. */
  readonly revised: TickColumns;
}

/** The ticks of one symbol and UTC day that are known before an observation. */
interface KnownTicks {
  /** Ascending, each key once. */
  readonly published: TickColumns;
  /** In the order of acceptance. */
  readonly journaled: readonly TickChunk[];
  readonly precedence: KnownPrecedence;
}

/**
 * Computes what a chunk changes in the ticks of its symbol and day: the difference between what a publish would write
 * without it and with it.
 * @param chunk at least one tick, ascending
 */
export function findTickChanges({ published, journaled, precedence }: KnownTicks, chunk: TickChunk): TickChanges {
  const { symbol } = chunk;
  const [first, last] = [chunk.t[0]!, chunk.t.at(-1)!];
  const slice = <T extends TickColumns>(columns: T): T => {
    const [from, to] = [findFirstAtOrAfter(columns.t, first), findFirstAtOrAfter(columns.t, last + 1)];
    return { ...columns, t: columns.t.subarray(from, to), p: columns.p.subarray(from, to) };
  };
  const old = toSymbolPart(symbol, slice(published));
  const chunks = journaled.map(slice);
  const before = mergePart(old, chunks, precedence).columns;
  const after = mergePart(old, [...chunks, chunk], precedence).columns;
  const [added, revised]: [number[], number[]] = [[], []];
  for (let i = 0, known = 0; i < after.t.length; i++) {
    // A merge removes no key, so that every known key is in both.
    if (before.t[known] !== after.t[i]) added.push(i);
    else if (before.p[known++] !== after.p[i]) revised.push(i);
  }
  const pick = (rows: readonly number[]): TickColumns => ({
    t: Float64Array.from(rows, (row) => after.t[row]!),
    p: Float64Array.from(rows, (row) => after.p[row]!),
  });
  return { added: pick(added), revised: pick(revised) };
}

export const toSymbolPart = (symbol: string, { t, p }: TickColumns): PartColumns =>
  t.length === 0 ? emptyPart : { symbols: [symbol], offsets: Float64Array.of(0, t.length), t, p };
