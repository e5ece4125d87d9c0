import { seek } from '../../base/binary-search.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { createMergeScratch, type MergeScratch, type SourcedTicks, sortTicksInPlace } from './merge-order.ts';
import {
  createPrecedenceRecorder,
  hasPrecedence,
  hasSamePrecedence,
  type KnownPrecedence,
  type Precedence,
  type PrecedenceRecorder,
  type PrecedenceWindow,
} from './precedence.ts';
import {
  type Conflict,
  emptyPart,
  openTally,
  type PartColumns,
  type RunTally,
  type TickChunk,
} from './tick-columns.ts';

export interface MergedPart {
  readonly columns: PartColumns;
  /** False if the columns equal the old ones, row for row. */
  readonly isChanged: boolean;
  readonly conflicts: readonly Conflict[];
  /** Precedence windows that changed. Each gives the precedence of every published key inside it. */
  readonly precedence: readonly PrecedenceWindow[];
  readonly tallies: ReadonlyMap<string, RunTally>;
  /** Rows added, by symbol. */
  readonly added: ReadonlyMap<string, number>;
}

/**
 * How two values of `p` compare. Ticks have prices there. A series of several numbers has the index of its row, and compares
 * the rows (`series.ts`), so that all datasets share this merge.
 */
interface ValueOrder {
  isSame(a: number, b: number): boolean;
  isGreater(a: number, b: number): boolean;
}

const priceOrder: ValueOrder = { isSame: (a, b) => a === b, isGreater: (a, b) => a > b };

/** Reusable output buffers. They grow on demand; reuse avoids zeroing and page faults for every part. */
export interface MergeBuffers {
  t: Float64Array;
  p: Float64Array;
}

/**
 * Merges new chunks into a part. Pure: the same observations give the same columns, regardless of their order and
 * grouping. An observation is a chunk: what one response or file has of a symbol and day, sorted by time. Of its ticks of one
 * time the last one counts. In the tallies, `accepted` counts the rows added and `conflicts` the ticks whose key has another price.
 * @param buffers buffers for the output columns, which stay valid until the buffers are passed in again
 * @param order how the values of `p` compare
 */
export function mergePart(
  old: PartColumns,
  chunks: readonly TickChunk[],
  known: KnownPrecedence,
  buffers: MergeBuffers = { t: emptyPart.t, p: emptyPart.p },
  order: ValueOrder = priceOrder,
): MergedPart {
  const bySymbol = Map.groupBy(
    chunks.filter(({ t }) => t.length > 0),
    ({ symbol }) => symbol,
  );
  const newSymbols = [...bySymbol.keys()].sort(compareUtf8);
  const capacity = old.t.length + chunks.reduce((sum, c) => sum + c.t.length, 0);
  if (buffers.t.length < capacity) buffers.t = new Float64Array(capacity);
  if (buffers.p.length < capacity) buffers.p = new Float64Array(capacity);
  const out: MergeOutput = {
    t: buffers.t,
    p: buffers.p,
    length: 0,
    source: new Uint32Array(0),
    scratch: createMergeScratch(),
    isChanged: false,
    conflicts: [],
    precedence: createPrecedenceRecorder(),
    tallies: new Map(),
    knownPrecedence: known,
    order,
  };
  const symbols: string[] = [];
  const offsets = new Float64Array(old.symbols.length + newSymbols.length + 1);
  const added = new Map<string, number>();
  let s = 0;
  /** Old rows before this one have been processed. Runs of symbols without new ticks are copied together. */
  let copiedTo = old.offsets[0]!;
  /** Copies the old symbols before index `end` unchanged. */
  const copyUnchanged = (end: number): void => {
    const from = copiedTo;
    // Offset between the old and the new position of the copied rows.
    const shift = out.length - from;
    for (; s < end; s++) {
      symbols.push(old.symbols[s]!);
      copiedTo = old.offsets[s + 1]!;
      offsets[symbols.length] = copiedTo + shift;
    }
    copyRows(out, old, from, copiedTo);
  };
  for (const symbol of newSymbols) {
    let at = s;
    while (at < old.symbols.length && compareUtf8(old.symbols[at]!, symbol) < 0) at++;
    copyUnchanged(at);
    if (old.symbols[s] === symbol) s++;
    const [from, to] = [copiedTo, old.offsets[s]!];
    const before = out.length;
    mergeSymbol(out, symbol, old, from, to, bySymbol.get(symbol)!);
    copiedTo = to;
    symbols.push(symbol);
    offsets[symbols.length] = out.length;
    added.set(symbol, out.length - before - (to - from));
  }
  copyUnchanged(old.symbols.length);
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

/**
 * Merges the chunks of one symbol with its old rows `from` to `to`. There is at least one chunk, and each holds ticks.
 *
 * Keys without a conflict are appended in runs. New ticks are sorted inside the output buffer, after the space reserved
 * for the old rows, so that no unread row is overwritten. If there are no old rows, no tick is moved.
 */
function mergeSymbol(
  out: MergeOutput,
  symbol: string,
  old: PartColumns,
  from: number,
  to: number,
  chunks: readonly TickChunk[],
): void {
  const fresh = gatherTicks(out, symbol, chunks, out.length + to - from);
  const { t } = fresh;
  const knownWindows = out.knownPrecedence.getWindows(symbol);
  let s = 0;
  let oldRow = from;
  out.precedence.begin(symbol);
  for (let i = 0; i < t.length; ) {
    const time = t[i]!;
    const copyFrom = oldRow;
    oldRow = seek(old.t, oldRow, to, time);
    if (oldRow > copyFrom) {
      out.precedence.pause();
      copyRows(out, old, copyFrom, oldRow);
    }
    while (s < knownWindows.length && knownWindows[s]!.to <= time) s++;
    const next = knownWindows[s];
    const knownWindow = next !== undefined && next.from <= time ? next : undefined;
    /** The end of `knownWindow`, or the start of the next window. */
    const windowEnd = knownWindow?.to ?? next?.from ?? Number.POSITIVE_INFINITY;
    const oldTime = oldRow < to ? old.t[oldRow]! : Number.POSITIVE_INFINITY;
    const isHeld = oldTime === time;
    const run = isHeld
      ? appendDuplicateRun(out, fresh, i, windowEnd, old, oldRow, to, knownWindow)
      : appendNewRun(out, fresh, i, Math.min(oldTime, windowEnd), knownWindow);
    if (run > 0) {
      i += run;
      if (isHeld) oldRow += run;
      continue;
    }
    let end = i + 1;
    while (end < t.length && t[end] === time) end++;
    resolveKey(out, fresh, i, end, old, isHeld ? oldRow++ : -1, knownWindow);
    i = end;
  }
  out.precedence.pause();
  copyRows(out, old, oldRow, to);
}

function copyRows(out: MergeOutput, old: PartColumns, from: number, to: number): void {
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

/** Below this length a loop is faster than a subarray view. */
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
    // -0 becomes 0, the only price that is not kept bit for bit.
    for (let i = 0; at < end; i++, at++) p[at] = chunk.p[i]! + 0;
  }
  const ticks = { t, p, source };
  sortTicksInPlace(ticks, out.scratch);
  return { ...ticks, symbol, chunks, tallies: chunks.map(({ runId }) => openTally(out.tallies, runId)), start };
}

/**
 * Appends new keys from tick `i` on that are before `limit` and have exactly one tick each, all from one chunk. Returns
 * their number. `knownWindow` is the known precedence window that contains them all.
 */
function appendNewRun(
  out: MergeOutput,
  fresh: FreshTicks,
  i: number,
  limit: number,
  knownWindow: PrecedenceWindow | undefined,
): number {
  const end = findRunEnd(fresh, i, limit);
  if (end === i) return 0;
  const { t, source, chunks, tallies, start } = fresh;
  const chunk = chunks[source[i]!]!;
  tallies[source[i]!]!.accepted += end - i;
  out.precedence.recordRun(t[i]!, t[end - 1]!, chunk, !hasSamePrecedence(knownWindow, chunk));
  if (out.length < start + i) {
    out.t.copyWithin(out.length, start + i, start + end);
    out.p.copyWithin(out.length, start + i, start + end);
  }
  out.length += end - i;
  out.isChanged = true;
  return end - i;
}

/**
 * Finds the end of the run from tick `i` of keys before `limit` that have exactly one tick each, all from one chunk.
 */
function findRunEnd({ t, source }: SourcedTicks, i: number, limit: number): number {
  const chunkIndex = source[i]!;
  const last = t.length - 1;
  let time = t[i]!;
  let k = i;
  for (; k < last; k++) {
    const next = t[k + 1]!;
    if (time >= limit || next === time || source[k] !== chunkIndex) return k;
    time = next;
  }
  return time < limit && source[k] === chunkIndex ? k + 1 : k;
}

/**
 * Appends keys from tick `i` on that repeat the old rows from `oldRow` on with the same price, are before `limit`, and
 * have exactly one tick each, all from one chunk. Returns their number: 0 if no precedence window contains them.
 */
function appendDuplicateRun(
  out: MergeOutput,
  fresh: FreshTicks,
  i: number,
  limit: number,
  old: PartColumns,
  oldRow: number,
  to: number,
  knownWindow: PrecedenceWindow | undefined,
): number {
  const { t, p, source, chunks, tallies } = fresh;
  const { order } = out;
  const chunkIndex = source[i]!;
  const chunk = chunks[chunkIndex]!;
  // Without a precedence window, the precedence of each key is looked up on its own.
  if (knownWindow === undefined) return 0;
  const lengthMax = Math.min(t.length - i, to - oldRow);
  let n = 0;
  for (; n < lengthMax; n++) {
    const time = t[i + n]!;
    if (time !== old.t[oldRow + n] || time >= limit || source[i + n] !== chunkIndex) break;
    if (!order.isSame(p[i + n]!, old.p[oldRow + n]!)) break;
    if (i + n + 1 < t.length && t[i + n + 1] === time) break;
  }
  if (n === 0) return 0;
  tallies[chunkIndex]!.duplicates += n;
  const winner = hasPrecedence(chunk, knownWindow, false) ? chunk : knownWindow;
  out.precedence.recordRun(t[i]!, t[i + n - 1]!, winner, !hasSamePrecedence(knownWindow, winner));
  copyRows(out, old, oldRow, oldRow + n);
  return n;
}

/** Output and working state of a merge. */
interface MergeOutput {
  /** Large enough for all old and new rows. Rows before `length` are final. */
  readonly t: Float64Array;
  readonly p: Float64Array;
  length: number;
  /** Buffer for the chunk index of each of a symbol's ticks. It grows on demand. */
  source: Uint32Array;
  readonly scratch: MergeScratch;
  isChanged: boolean;
  readonly conflicts: Conflict[];
  readonly precedence: PrecedenceRecorder;
  readonly tallies: Map<string, RunTally>;
  readonly knownPrecedence: KnownPrecedence;
  readonly order: ValueOrder;
}

/** The new ticks of one symbol, sorted by time. `source` is an index into `chunks`. */
interface FreshTicks extends SourcedTicks {
  readonly symbol: string;
  readonly chunks: readonly TickChunk[];
  /** The tally of each chunk's run. */
  readonly tallies: readonly RunTally[];
  /** Index of its first tick in the output. */
  readonly start: number;
}

/**
 * Chooses the price of one key from the published price, if any, and the observations `i` to `end`. `heldAt` is the old
 * row of the key, or -1. `knownWindow` is the known precedence window that contains its time.
 */
function resolveKey(
  out: MergeOutput,
  fresh: FreshTicks,
  i: number,
  end: number,
  old: PartColumns,
  heldAt: number,
  knownWindow: PrecedenceWindow | undefined,
): void {
  const { symbol, p, source, chunks, tallies } = fresh;
  const { order } = out;
  const time = fresh.t[i]!;
  const isHeld = heldAt >= 0;
  const before = isHeld ? old.p[heldAt]! : p[i]!;
  let differs = false;
  for (let k = i; k < end; k++) if (!order.isSame(p[k]!, before)) differs = true;
  const known = isHeld ? (knownWindow ?? out.knownPrecedence.inferPrecedence(symbol, time)) : undefined;
  const published = isHeld && differs ? out.knownPrecedence.findPublished?.(symbol, time) : undefined;
  let kept = published ?? known;
  let price = before;
  for (let k = i; k < end; k++) {
    // Of one response or file the last one counts. Its ticks are in their order here, and next to each other.
    if (k + 1 < end && source[k + 1] === source[k]) continue;
    const chunk = chunks[source[k]!]!;
    if (kept !== undefined && !hasPrecedence(chunk, kept, order.isGreater(p[k]!, price))) continue;
    kept = chunk;
    price = p[k]!;
  }
  const winner = kept === published ? known! : kept!;
  // The first observation counts as accepted, even if another price has precedence. The counts therefore do not depend
  // on the grouping into publishes.
  let accepted = isHeld;
  for (let k = i; k < end; k++) {
    const tally = tallies[source[k]!]!;
    if (!order.isSame(p[k]!, before)) tally.conflicts++;
    else if (accepted) tally.duplicates++;
    else {
      accepted = true;
      tally.accepted++;
    }
  }
  if (differs) recordConflicts(out, fresh, i, end, isHeld ? before : undefined, winner, price);
  // Without a known observation time there is no precedence to store.
  if (Number.isFinite(winner.observedAt)) out.precedence.record(time, winner, !hasSamePrecedence(knownWindow, winner));
  else out.precedence.pause();
  if (!isHeld || !order.isSame(price, before)) out.isChanged = true;
  out.t[out.length] = time;
  out.p[out.length++] = price;
}

/** Records the losing prices of one key, each (price, time) once. */
function recordConflicts(
  out: MergeOutput,
  { symbol, t, p, source, chunks }: FreshTicks,
  i: number,
  end: number,
  oldTime: number | undefined,
  { observedAt }: Precedence,
  keptPrice: number,
): void {
  const seen = new Set<string>();
  const add = (dropped: number, seenAt: number): void => {
    const name = `${seenAt} ${dropped}`;
    if (out.order.isSame(dropped, keptPrice) || seen.has(name)) return;
    seen.add(name);
    out.conflicts.push({ symbol, t: t[i]!, kept: keptPrice, dropped, seenAt });
  };
  for (let k = i; k < end; k++) {
    const seenAt = chunks[source[k]!]!.observedAt;
    add(p[k]!, oldTime === undefined ? Math.max(seenAt, observedAt) : seenAt);
  }
  if (oldTime !== undefined) add(oldTime, observedAt);
}
