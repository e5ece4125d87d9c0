import type { MergeScratch, SourcedTicks } from './merge-order.ts';
import {
  hasSamePrecedence,
  type KnownPrecedence,
  type Precedence,
  type PrecedenceRecorder,
  type PrecedenceWindow,
} from './precedence.ts';
import type { Conflict, PartColumns, RunTally, TickChunk } from './tick-columns.ts';

/** What a merge has made so far, and what it works with. */
export interface MergeOutput {
  /** Have room for all old rows and all that came. Rows up to `length` are final. */
  readonly t: Float64Array;
  readonly p: Float64Array;
  length: number;
  /** Room for whose each of a symbol's ticks are; grows with them. */
  source: Uint32Array;
  readonly scratch: MergeScratch;
  isChanged: boolean;
  readonly conflicts: Conflict[];
  readonly precedence: PrecedenceRecorder;
  readonly tallies: Map<string, RunTally>;
  readonly knownPrecedence: KnownPrecedence;
}

/** What came of one symbol, in order of time. `source` counts in `chunks`. */
export interface FreshTicks extends SourcedTicks {
  readonly symbol: string;
  readonly chunks: readonly TickChunk[];
  /** Of each chunk, its run's. */
  readonly tallies: readonly RunTally[];
  /** Where its first tick lies in the output. */
  readonly start: number;
}

/**
 * Decides one key between the published price, if any, and the observations i to end. `heldAt`: the old row of the key, or
 * -1. `around`: the stretch of known standing that holds its moment.
 */
export function resolveKey(
  out: MergeOutput,
  fresh: FreshTicks,
  i: number,
  end: number,
  old: PartColumns,
  heldAt: number,
  around: PrecedenceWindow | undefined,
): void {
  const { symbol, p, source, chunks, tallies } = fresh;
  const time = fresh.t[i]!;
  const first = chunks[source[i]!]!;
  const isHeld = heldAt >= 0;
  const before = isHeld ? old.p[heldAt]! : p[i]!;
  let differs = false;
  for (let k = i; k < end; k++) if (p[k] !== before) differs = true;
  let winner: Precedence = isHeld ? (around ?? out.knownPrecedence.inferPrecedence(symbol, time)) : first;
  let price = before;
  for (let k = i; k < end; k++) {
    const chunk = chunks[source[k]!]!;
    if (!hasPrecedence(chunk, p[k]!, winner, price)) continue;
    winner = chunk;
    price = p[k]!;
  }
  // The first observation is the accepted one, whichever price wins: so the counts do not depend on what is published together.
  let accepted = isHeld;
  for (let k = i; k < end; k++) {
    const tally = tallies[source[k]!]!;
    if (p[k] !== before) tally.conflicts++;
    else if (accepted) tally.duplicates++;
    else {
      accepted = true;
      tally.accepted++;
    }
  }
  if (differs) recordConflicts(out, fresh, i, end, isHeld ? before : undefined, winner, price);
  // Of a published price that nothing is known of there is nothing to remember.
  if (Number.isFinite(winner.observedAt)) out.precedence.record(time, winner, !hasSamePrecedence(around, winner));
  else out.precedence.pause();
  if (!isHeld || price !== before) out.isChanged = true;
  out.t[out.length] = time;
  out.p[out.length++] = price;
}

/** Whether an observation wins over another one of its key. */
export const hasPrecedence = (a: Precedence, aPrice: number, b: Precedence, bPrice: number): boolean =>
  a.rank !== b.rank ? a.rank > b.rank : a.observedAt !== b.observedAt ? a.observedAt > b.observedAt : aPrice > bPrice;

/** Names the prices of one key that lost, each (price, moment) once. */
function recordConflicts(
  out: MergeOutput,
  { symbol, t, p, source, chunks }: FreshTicks,
  i: number,
  end: number,
  held: number | undefined,
  { observedAt }: Precedence,
  kept: number,
): void {
  const named = new Set<string>();
  const add = (dropped: number, seenAt: number): void => {
    const name = `${seenAt} ${dropped}`;
    if (dropped === kept || named.has(name)) return;
    named.add(name);
    out.conflicts.push({ symbol, t: t[i]!, kept, dropped, seenAt });
  };
  for (let k = i; k < end; k++) {
    const seenAt = chunks[source[k]!]!.observedAt;
    add(p[k]!, held === undefined ? Math.max(seenAt, observedAt) : seenAt);
  }
  if (held !== undefined) add(held, observedAt);
}
