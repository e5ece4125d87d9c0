/** The reference merge: key by key, with an object for each decision. mergePart gives the same result faster. */

import type { MergedPart } from '../../../src/archive/format/merge.ts';
import {
  createPrecedenceRecorder,
  hasSamePrecedence,
  type KnownPrecedence,
  type Precedence,
  type PrecedenceRecorder,
  type PrecedenceWindow,
} from '../../../src/archive/format/precedence.ts';
import type { Conflict, PartColumns, RunTally, TickChunk } from '../../../src/archive/format/tick-columns.ts';
import { compareUtf8 } from '../../../src/base/symbol-name.ts';
import type { TickColumns } from '../../../src/base/ticks.ts';

export function plainMergePart(old: PartColumns, chunks: readonly TickChunk[], known: KnownPrecedence): MergedPart {
  const bySymbol = new Map<string, TickChunk[]>();
  for (const chunk of chunks) {
    if (chunk.t.length === 0) continue;
    const list = bySymbol.get(chunk.symbol);
    if (list === undefined) bySymbol.set(chunk.symbol, [chunk]);
    else list.push(chunk);
  }
  const oldIndex = new Map(old.symbols.map((symbol, i) => [symbol, i]));
  const symbols = [...new Set([...old.symbols, ...bySymbol.keys()])].sort(compareUtf8);
  const capacity = old.t.length + chunks.reduce((sum, c) => sum + c.t.length, 0);
  const out: Output = {
    t: new Float64Array(capacity),
    p: new Float64Array(capacity),
    length: 0,
    changed: false,
    conflicts: new Map(),
    notes: createPrecedenceRecorder(),
    tallies: new Map(),
    known,
  };
  const offsets = new Float64Array(symbols.length + 1);
  const added = new Map<string, number>();
  symbols.forEach((symbol, i) => {
    const at = oldIndex.get(symbol);
    const [from, to] = at === undefined ? [0, 0] : [old.offsets[at]!, old.offsets[at + 1]!];
    const symbolChunks = bySymbol.get(symbol);
    if (symbolChunks === undefined) copy(out, old, from, to);
    else mergeSymbol(out, symbol, old, from, to, sortByTime(symbolChunks));
    offsets[i + 1] = out.length;
    if (symbolChunks !== undefined) added.set(symbol, offsets[i + 1]! - offsets[i]! - (to - from));
  });
  return {
    columns: { symbols, offsets, t: out.t.subarray(0, out.length), p: out.p.subarray(0, out.length) },
    isChanged: out.changed,
    conflicts: [...out.conflicts.values()],
    precedence: out.notes.windows,
    tallies: out.tallies,
    added,
  };
}

interface Output {
  readonly t: Float64Array;
  readonly p: Float64Array;
  length: number;
  changed: boolean;
  readonly conflicts: Map<string, Conflict>;
  readonly notes: PrecedenceRecorder;
  readonly tallies: Map<string, RunTally>;
  readonly known: KnownPrecedence;
}

/** Ticks of several chunks sorted by time. Ties keep the order of the chunks. `chunk[i]` is the chunk of tick i. */
interface Sorted extends TickColumns {
  readonly chunk: readonly TickChunk[];
  readonly source: Uint32Array;
}

function sortByTime(chunks: readonly TickChunk[]): Sorted {
  const length = chunks.reduce((sum, c) => sum + c.t.length, 0);
  const t = new Float64Array(length);
  const p = new Float64Array(length);
  const source = new Uint32Array(length);
  let at = 0;
  let ordered = true;
  chunks.forEach((chunk, index) => {
    for (let i = 0; i < chunk.t.length; i++, at++) {
      t[at] = chunk.t[i]!;
      // -0 becomes 0, the only price that is not kept bit for bit.
      p[at] = chunk.p[i]! + 0;
      source[at] = index;
      if (at > 0 && t[at]! < t[at - 1]!) ordered = false;
    }
  });
  if (ordered) return { t, p, source, chunk: chunks };
  const order = new Uint32Array(length).map((_, i) => i).sort((a, b) => t[a]! - t[b]! || a - b);
  return { t: gather(t, order), p: gather(p, order), source: source.map((_, i) => source[order[i]!]!), chunk: chunks };
}

const gather = (values: Float64Array, order: Uint32Array): Float64Array => values.map((_, i) => values[order[i]!]!);

function copy(out: Output, old: PartColumns, from: number, to: number): void {
  out.t.set(old.t.subarray(from, to), out.length);
  out.p.set(old.p.subarray(from, to), out.length);
  out.length += to - from;
}

function mergeSymbol(out: Output, symbol: string, old: PartColumns, from: number, to: number, fresh: Sorted): void {
  const windows = out.known.getWindows(symbol);
  let s = 0;
  let oldRow = from;
  out.notes.begin(symbol);
  for (let i = 0; i < fresh.t.length; ) {
    const t = fresh.t[i]!;
    const kept = oldRow;
    while (oldRow < to && old.t[oldRow]! < t) oldRow++;
    if (oldRow > kept) out.notes.pause();
    copy(out, old, kept, oldRow);
    let end = i + 1;
    while (end < fresh.t.length && fresh.t[end] === t) end++;
    while (s < windows.length && windows[s]!.to <= t) s++;
    const knownWindow = s < windows.length && windows[s]!.from <= t ? windows[s] : undefined;
    const held = oldRow < to && old.t[oldRow] === t ? old.p[oldRow]! : undefined;
    if (held !== undefined) oldRow++;
    const price = resolvePlainKey(out, symbol, t, held, knownWindow, fresh, i, end);
    out.t[out.length] = t;
    out.p[out.length] = price;
    out.length++;
    if (price !== held) out.changed = true;
    i = end;
  }
  out.notes.pause();
  copy(out, old, oldRow, to);
}

/**
 * Decides one key between the published price, if any, and the observations i to end. Returns the winning price.
 * `around` is the known precedence window that contains its time.
 */
function resolvePlainKey(
  out: Output,
  symbol: string,
  t: number,
  held: number | undefined,
  knownWindow: PrecedenceWindow | undefined,
  fresh: Sorted,
  i: number,
  end: number,
): number {
  const first = fresh.chunk[fresh.source[i]!]!;
  if (end === i + 1 && held === undefined) {
    tallyOf(out, first.runId).accepted++;
    out.notes.record(t, first, !hasSamePrecedence(knownWindow, first));
    return fresh.p[i]!;
  }
  let best: (Precedence & { p: number }) | undefined;
  if (held !== undefined) {
    const { rank, observedAt }: Precedence = knownWindow ?? out.known.inferPrecedence(symbol, t);
    best = { p: held, rank, observedAt };
  }
  // Of one chunk, the last tick counts.
  const last = new Map<number, number>();
  for (let k = i; k < end; k++) last.set(fresh.source[k]!, k);
  for (const k of last.values()) {
    const { rank, observedAt } = fresh.chunk[fresh.source[k]!]!;
    const candidate = { p: fresh.p[k]!, rank, observedAt };
    if (best === undefined || hasPlainPrecedence(candidate, best)) best = candidate;
  }
  const winner = best!;
  let accepted = held !== undefined;
  for (let k = i; k < end; k++) {
    const { runId, observedAt } = fresh.chunk[fresh.source[k]!]!;
    const tally = tallyOf(out, runId);
    const p = fresh.p[k]!;
    if (p !== (held ?? fresh.p[i])) tally.conflicts++;
    else if (accepted) tally.duplicates++;
    else {
      accepted = true;
      tally.accepted++;
    }
    if (p !== winner.p)
      addConflict(
        out,
        symbol,
        t,
        winner.p,
        p,
        Math.max(observedAt, held === undefined ? winner.observedAt : observedAt),
      );
  }
  if (held !== undefined && held !== winner.p) addConflict(out, symbol, t, winner.p, held, winner.observedAt);
  if (Number.isFinite(winner.observedAt)) out.notes.record(t, winner, !hasSamePrecedence(knownWindow, winner));
  else out.notes.pause();
  return winner.p;
}

const hasPlainPrecedence = (a: Precedence & { p: number }, b: Precedence & { p: number }): boolean =>
  a.rank !== b.rank ? a.rank > b.rank : a.observedAt !== b.observedAt ? a.observedAt > b.observedAt : a.p > b.p;

function addConflict(out: Output, symbol: string, t: number, kept: number, dropped: number, seenAt: number): void {
  out.conflicts.set(`${symbol}\n${t}\n${seenAt}\n${dropped}`, { symbol, t, kept, dropped, seenAt });
}

function tallyOf(out: Output, runId: string): RunTally {
  let tally = out.tallies.get(runId);
  if (tally === undefined) {
    tally = { accepted: 0, duplicates: 0, conflicts: 0 };
    out.tallies.set(runId, tally);
  }
  return tally;
}
