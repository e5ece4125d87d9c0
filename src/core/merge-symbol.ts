import type { Chunk, Conflict, PartColumns, Tally } from './merge.ts';
import { type Aside, orderByTime, type SourcedTicks } from './merge-order.ts';
import { seek } from './search.ts';
import {
  type KnownStandings,
  ranks,
  type Standing,
  type StandingNotes,
  type Stretch,
  sameStanding,
} from './standings.ts';

/** What a merge has made so far, and what it works with. */
export interface MergeOutput {
  /** Have room for all old rows and all that came. Rows up to `length` are final. */
  readonly t: Float64Array;
  readonly p: Float64Array;
  length: number;
  /** Room for whose each of a symbol's ticks are; grows with them. */
  source: Uint32Array;
  readonly aside: Aside;
  changed: boolean;
  readonly conflicts: Conflict[];
  readonly notes: StandingNotes;
  readonly tallies: Map<string, Tally>;
  readonly known: KnownStandings;
}

/** What came of one symbol, in order of time. `source` counts in `chunks`. */
interface Fresh extends SourcedTicks {
  readonly symbol: string;
  readonly chunks: readonly Chunk[];
  /** Of each chunk, its run's. */
  readonly tallies: readonly Tally[];
  /** Where its first tick lies in the output. */
  readonly start: number;
}

/**
 * Merges the chunks of one symbol, at least one and each with ticks, with its old rows `from` to `to`.
 *
 * What is new and uncontested is taken in whole runs. Ticks are put in order where they will be, behind room for the old
 * rows: no row is ever written that is yet to be read, and where nothing was there before, none is moved.
 */
export function mergeSymbol(
  out: MergeOutput,
  symbol: string,
  old: PartColumns,
  from: number,
  to: number,
  chunks: readonly Chunk[],
): void {
  const fresh = gather(out, symbol, chunks, out.length + to - from);
  const { t } = fresh;
  const stretches = out.known.stretches(symbol);
  let s = 0;
  let o = from;
  out.notes.begin(symbol);
  for (let i = 0; i < t.length; ) {
    const time = t[i]!;
    const kept = o;
    o = seek(old.t, o, to, time);
    if (o > kept) {
      out.notes.pause();
      copyRows(out, old, kept, o);
    }
    while (s < stretches.length && stretches[s]!.to <= time) s++;
    const next = stretches[s];
    const around = next !== undefined && next.from <= time ? next : undefined;
    const held = o < to ? old.t[o]! : Number.POSITIVE_INFINITY;
    const edge = around?.to ?? next?.from ?? Number.POSITIVE_INFINITY;
    let end = runEnd(fresh, i, Math.min(held, edge));
    if (end > i) takeRun(out, fresh, i, end, around);
    else {
      end = i + 1;
      while (end < t.length && t[end] === time) end++;
      settleKey(out, fresh, i, end, old, held === time ? o++ : -1, around);
    }
    i = end;
  }
  out.notes.pause();
  copyRows(out, old, o, to);
}

/** Copies old rows behind those that are there. */
export function copyRows(out: MergeOutput, old: PartColumns, from: number, to: number): void {
  if (to - from < viewMin) {
    for (let i = from, k = out.length; i < to; i++, k++) {
      out.t[k] = old.t[i]!;
      out.p[k] = old.p[i]!;
    }
  } else {
    out.t.set(old.t.subarray(from, to), out.length);
    out.p.set(old.p.subarray(from, to), out.length);
  }
  out.length += to - from;
}

/** Below this many rows a loop is done before a view of them is made. */
const viewMin = 32;

function gather(out: MergeOutput, symbol: string, chunks: readonly Chunk[], start: number): Fresh {
  let length = 0;
  for (const chunk of chunks) length += chunk.t.length;
  if (out.source.length < length) out.source = new Uint32Array(Math.max(length, 2 * out.source.length));
  const t = out.t.subarray(start, start + length);
  const p = out.p.subarray(start, start + length);
  const source = out.source.subarray(0, length);
  let at = 0;
  for (const [index, chunk] of chunks.entries()) {
    t.set(chunk.t, at);
    source.fill(index, at, at + chunk.t.length);
    // -0 is 0: the one price that is not kept to the bit.
    for (let i = 0; i < chunk.p.length; i++) p[at + i] = chunk.p[i]! + 0;
    at += chunk.t.length;
  }
  const ticks = { t, p, source };
  orderByTime(ticks, out.aside);
  return { ...ticks, symbol, chunks, tallies: chunks.map(({ runId }) => tallyOf(out.tallies, runId)), start };
}

/** Where the run of keys from tick `i` ends that are before `limit`, and of which one chunk brought one tick each. */
function runEnd({ t, source }: SourcedTicks, i: number, limit: number): number {
  const whose = source[i]!;
  const last = t.length - 1;
  let time = t[i]!;
  let k = i;
  for (; k < last; k++) {
    const next = t[k + 1]!;
    if (time >= limit || next === time || source[k] !== whose) return k;
    time = next;
  }
  return time < limit && source[k] === whose ? k + 1 : k;
}

/** Takes a run of new keys that nobody contests. `around`: the stretch of known standing that holds all of them. */
function takeRun(out: MergeOutput, fresh: Fresh, i: number, end: number, around: Stretch | undefined): void {
  const whose = fresh.source[i]!;
  const chunk = fresh.chunks[whose]!;
  fresh.tallies[whose]!.accepted += end - i;
  if (chunk.rank === ranks.poll && around === undefined) out.notes.pause();
  else out.notes.noteRun(fresh.t[i]!, fresh.t[end - 1]!, end - i, chunk, !sameStanding(around, chunk));
  const from = fresh.start + i;
  const to = fresh.start + end;
  if (out.length < from) {
    out.t.copyWithin(out.length, from, to);
    out.p.copyWithin(out.length, from, to);
  }
  out.length += end - i;
  out.changed = true;
}

/**
 * Decides one key between the published price, if any, and the observations i to end. `heldAt`: the old row of the key, or
 * -1. `around`: the stretch of known standing that holds its moment.
 */
function settleKey(
  out: MergeOutput,
  fresh: Fresh,
  i: number,
  end: number,
  old: PartColumns,
  heldAt: number,
  around: Stretch | undefined,
): void {
  const { symbol, p, source, chunks, tallies } = fresh;
  const time = fresh.t[i]!;
  const first = chunks[source[i]!]!;
  const isHeld = heldAt >= 0;
  const before = isHeld ? old.p[heldAt]! : p[i]!;
  // What a stretch says of its window would hold for a key that is new in it, too.
  const known = isHeld ? (out.known.contested(symbol, time) ?? around) : around;
  let differs = false;
  let plain = known === undefined;
  for (let k = i; k < end; k++) {
    if (p[k] !== before) differs = true;
    if (chunks[source[k]!]!.rank !== ranks.poll) plain = false;
  }
  // A plain duplicate needs no look-up of the standing that the published price had.
  const asked = differs || !plain;
  let winner: Standing = isHeld ? (known ?? (asked ? out.known.standIn(symbol, time) : first)) : first;
  let price = before;
  for (let k = i; k < end; k++) {
    const chunk = chunks[source[k]!]!;
    if (!outranks(chunk, p[k]!, winner, price)) continue;
    winner = chunk;
    price = p[k]!;
  }
  const counted = isHeld ? before : price;
  let accepted = isHeld;
  for (let k = i; k < end; k++) {
    const tally = tallies[source[k]!]!;
    if (p[k] !== counted) tally.conflicts++;
    else if (accepted) tally.duplicates++;
    else {
      accepted = true;
      tally.accepted++;
    }
  }
  if (differs) noteConflicts(out, fresh, i, end, isHeld ? before : undefined, winner, price);
  if (asked) out.notes.note(time, winner, !sameStanding(known, winner));
  else out.notes.pause();
  if (!isHeld || price !== before) out.changed = true;
  out.t[out.length] = time;
  out.p[out.length++] = price;
}

const outranks = (a: Standing, aPrice: number, b: Standing, bPrice: number): boolean =>
  a.rank !== b.rank ? a.rank > b.rank : a.observedAt !== b.observedAt ? a.observedAt > b.observedAt : aPrice > bPrice;

/** Names the prices of one key that lost, each (price, moment) once. */
function noteConflicts(
  out: MergeOutput,
  { symbol, t, p, source, chunks }: Fresh,
  i: number,
  end: number,
  held: number | undefined,
  { observedAt }: Standing,
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

function tallyOf(tallies: Map<string, Tally>, runId: string): Tally {
  let tally = tallies.get(runId);
  if (tally === undefined) {
    tally = { accepted: 0, duplicates: 0, conflicts: 0 };
    tallies.set(runId, tally);
  }
  return tally;
}
