import { type SourcedTicks, sortTicksInPlace } from './merge-order.ts';
import { hasSamePrecedence, type PrecedenceWindow } from './precedence.ts';
import { type FreshTicks, hasPrecedence, type MergeOutput, resolveKey } from './resolve-conflict.ts';
import { type PartColumns, type RunTally, seek, type TickChunk } from './tick-columns.ts';

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
