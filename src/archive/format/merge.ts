import { compareUtf8 } from '../../base/symbol-name.ts';
import { createMergeScratch, type MergeScratch, type SourcedTicks, sortTicksInPlace } from './merge-order.ts';
import {
  createPrecedenceRecorder,
  hasSamePrecedence,
  type KnownPrecedence,
  type Precedence,
  type PrecedenceRecorder,
  type PrecedenceWindow,
} from './precedence.ts';
import { type Conflict, emptyPart, type PartColumns, type RunTally, seek, type TickChunk } from './tick-columns.ts';

export interface MergedPart {
  readonly columns: PartColumns;
  /** False where the columns are the old ones, row for row. */
  readonly isChanged: boolean;
  readonly conflicts: readonly Conflict[];
  /** Standings that the published keys have now and had not before: of all of them that lie in a window. */
  readonly precedence: readonly PrecedenceWindow[];
  readonly tallies: ReadonlyMap<string, RunTally>;
  /** Rows added, by symbol. */
  readonly added: ReadonlyMap<string, number>;
}

/** Room for columns, made when it is needed; new one has to be cleared, and had from the system page by page. */
export interface MergeBuffers {
  t: Float64Array;
  p: Float64Array;
}

/**
 * Merges new chunks into a part. Pure: the same observations give the same columns in whatever order and grouping
 * they come. `accepted` counts the rows added, `conflicts` the ticks whose key is held at another price.
 * @param room where the columns are made, if their room is to be used again: they hold until it is handed over once more
 */
export function mergePart(
  old: PartColumns,
  chunks: readonly TickChunk[],
  known: KnownPrecedence,
  room: MergeBuffers = { t: emptyPart.t, p: emptyPart.p },
): MergedPart {
  const bySymbol = groupChunksBySymbol(chunks);
  const brought = [...bySymbol.keys()].sort(compareUtf8);
  const capacity = old.t.length + chunks.reduce((sum, c) => sum + c.t.length, 0);
  if (room.t.length < capacity) room.t = new Float64Array(capacity);
  if (room.p.length < capacity) room.p = new Float64Array(capacity);
  const out: MergeOutput = {
    t: room.t,
    p: room.p,
    length: 0,
    source: new Uint32Array(0),
    scratch: createMergeScratch(),
    isChanged: false,
    conflicts: [],
    precedence: createPrecedenceRecorder(),
    tallies: new Map(),
    knownPrecedence: known,
  };
  const symbols: string[] = [];
  const offsets = new Float64Array(old.symbols.length + brought.length + 1);
  const added = new Map<string, number>();
  let s = 0;
  /** Up to here the old rows are dealt with: symbols that nothing came for are copied together. */
  let done = old.offsets[0]!;
  /** Enters the old symbols before `end` as they are. */
  const keep = (end: number): void => {
    const from = done;
    // What is copied lands this much further on than it lay.
    const shift = out.length - from;
    for (; s < end; s++) {
      symbols.push(old.symbols[s]!);
      done = old.offsets[s + 1]!;
      offsets[symbols.length] = done + shift;
    }
    copyRows(out, old, from, done);
  };
  for (const symbol of brought) {
    let at = s;
    while (at < old.symbols.length && compareUtf8(old.symbols[at]!, symbol) < 0) at++;
    keep(at);
    if (old.symbols[s] === symbol) s++;
    const [from, to] = [done, old.offsets[s]!];
    const before = out.length;
    mergeSymbol(out, symbol, old, from, to, bySymbol.get(symbol)!);
    done = to;
    symbols.push(symbol);
    offsets[symbols.length] = out.length;
    added.set(symbol, out.length - before - (to - from));
  }
  keep(old.symbols.length);
  return {
    columns: {
      symbols,
      offsets: offsets.slice(0, symbols.length + 1),
      t: out.t.subarray(0, out.length),
      p: out.p.subarray(0, out.length),
    },
    isChanged: out.isChanged,
    conflicts: out.conflicts,
    precedence: out.precedence.windows,
    tallies: out.tallies,
    added,
  };
}

/** Those with ticks, in the order they came. */
function groupChunksBySymbol(chunks: readonly TickChunk[]): Map<string, TickChunk[]> {
  const bySymbol = new Map<string, TickChunk[]>();
  for (const chunk of chunks) {
    if (chunk.t.length === 0) continue;
    const list = bySymbol.get(chunk.symbol);
    if (list === undefined) bySymbol.set(chunk.symbol, [chunk]);
    else list.push(chunk);
  }
  return bySymbol;
}

/**
 * Merges the chunks of one symbol, at least one and each with ticks, with its old rows `from` to `to`.
 *
 * What nobody contests is taken in whole runs. Ticks are put in order where they will be, behind room for the old rows:
 * no row is ever written that is yet to be read, and where nothing was there before, none is moved.
 */
export function mergeSymbol(
  out: MergeOutput,
  symbol: string,
  old: PartColumns,
  from: number,
  to: number,
  chunks: readonly TickChunk[],
): void {
  const fresh = gatherTicks(out, symbol, chunks, out.length + to - from);
  const { t } = fresh;
  const stretches = out.knownPrecedence.getWindows(symbol);
  let s = 0;
  let o = from;
  out.precedence.begin(symbol);
  for (let i = 0; i < t.length; ) {
    const time = t[i]!;
    const kept = o;
    o = seek(old.t, o, to, time);
    if (o > kept) {
      out.precedence.pause();
      copyRows(out, old, kept, o);
    }
    while (s < stretches.length && stretches[s]!.to <= time) s++;
    const next = stretches[s];
    const around = next !== undefined && next.from <= time ? next : undefined;
    /** Up to here `around` holds. */
    const edge = around?.to ?? next?.from ?? Number.POSITIVE_INFINITY;
    const held = o < to ? old.t[o]! : Number.POSITIVE_INFINITY;
    const isHeld = held === time;
    const run = isHeld
      ? appendDuplicateRun(out, fresh, i, edge, old, o, to, around)
      : appendNewRun(out, fresh, i, Math.min(held, edge), around);
    if (run > 0) {
      i += run;
      if (isHeld) o += run;
      continue;
    }
    let end = i + 1;
    while (end < t.length && t[end] === time) end++;
    resolveKey(out, fresh, i, end, old, isHeld ? o++ : -1, around);
    i = end;
  }
  out.precedence.pause();
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

function gatherTicks(out: MergeOutput, symbol: string, chunks: readonly TickChunk[], start: number): FreshTicks {
  let length = 0;
  for (const chunk of chunks) length += chunk.t.length;
  if (out.source.length < length) out.source = new Uint32Array(Math.max(length, 2 * out.source.length));
  const t = out.t.subarray(start, start + length);
  const p = out.p.subarray(start, start + length);
  const source = out.source.subarray(0, length);
  let at = 0;
  for (let index = 0; index < chunks.length; index++) {
    const chunk = chunks[index]!;
    const end = at + chunk.t.length;
    t.set(chunk.t, at);
    source.fill(index, at, end);
    // -0 is 0: the one price that is not kept to the bit.
    for (let i = 0; at < end; i++, at++) p[at] = chunk.p[i]! + 0;
  }
  const ticks = { t, p, source };
  sortTicksInPlace(ticks, out.scratch);
  return { ...ticks, symbol, chunks, tallies: chunks.map(({ runId }) => getRunTally(out.tallies, runId)), start };
}

/**
 * Takes the new keys from tick `i` on that are before `limit` and of which one chunk brought one tick each; returns how many.
 * `around`: the stretch of known standing that holds all of them.
 */
function appendNewRun(
  out: MergeOutput,
  fresh: FreshTicks,
  i: number,
  limit: number,
  around: PrecedenceWindow | undefined,
): number {
  const end = findRunEnd(fresh, i, limit);
  if (end === i) return 0;
  const { t, source, chunks, tallies, start } = fresh;
  const chunk = chunks[source[i]!]!;
  tallies[source[i]!]!.accepted += end - i;
  out.precedence.recordRun(t[i]!, t[end - 1]!, chunk, !hasSamePrecedence(around, chunk));
  if (out.length < start + i) {
    out.t.copyWithin(out.length, start + i, start + end);
    out.p.copyWithin(out.length, start + i, start + end);
  }
  out.length += end - i;
  out.isChanged = true;
  return end - i;
}

/** Where the run of keys from tick `i` ends that are before `limit`, and of which one chunk brought one tick each. */
function findRunEnd({ t, source }: SourcedTicks, i: number, limit: number): number {
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

/**
 * Takes the keys from tick `i` on that are the old rows from `o` on again, price and all, are before `limit`, and of which
 * one chunk brought one tick each; returns how many. None where no stretch holds them.
 */
function appendDuplicateRun(
  out: MergeOutput,
  fresh: FreshTicks,
  i: number,
  limit: number,
  old: PartColumns,
  o: number,
  to: number,
  around: PrecedenceWindow | undefined,
): number {
  const { t, p, source, chunks, tallies } = fresh;
  const whose = source[i]!;
  const chunk = chunks[whose]!;
  // Where no stretch says it, each key's standing is looked up by itself.
  if (around === undefined) return 0;
  const most = Math.min(t.length - i, to - o);
  let n = 0;
  for (; n < most; n++) {
    const time = t[i + n]!;
    if (time !== old.t[o + n] || p[i + n] !== old.p[o + n] || time >= limit || source[i + n] !== whose) break;
    if (i + n + 1 < t.length && t[i + n + 1] === time) break;
  }
  if (n === 0) return 0;
  tallies[whose]!.duplicates += n;
  const winner = hasPrecedence(chunk, 0, around, 0) ? chunk : around;
  out.precedence.recordRun(t[i]!, t[i + n - 1]!, winner, !hasSamePrecedence(around, winner));
  copyRows(out, old, o, o + n);
  return n;
}

function getRunTally(tallies: Map<string, RunTally>, runId: string): RunTally {
  let tally = tallies.get(runId);
  if (tally === undefined) {
    tally = { accepted: 0, duplicates: 0, conflicts: 0 };
    tallies.set(runId, tally);
  }
  return tally;
}

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
