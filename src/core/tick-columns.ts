import type { Precedence } from './precedence.ts';
import type { TickColumns } from './tick.ts';

/** Ticks of one symbol from one answer, in any order, repeats included. */
export interface TickChunk extends TickColumns, Precedence {
  readonly symbol: string;
  /** Whose count these ticks go to. */
  readonly runId: string;
}

/** Ticks of many symbols: symbol i holds rows offsets[i] to offsets[i + 1], sorted by t. Symbols in UTF-8 order. */
export interface PartColumns extends TickColumns {
  readonly symbols: readonly string[];
  readonly offsets: Float64Array;
}

export interface Conflict {
  readonly symbol: string;
  readonly t: number;
  readonly kept: number;
  readonly dropped: number;
  readonly seenAt: number;
}

export interface RunTally {
  accepted: number;
  duplicates: number;
  conflicts: number;
}

export const emptyPart: PartColumns = {
  symbols: [],
  offsets: new Float64Array(1),
  t: new Float64Array(0),
  p: new Float64Array(0),
};
