import type { Archive } from '../archive/archive.ts';
import { UsageError } from '../core/errors.ts';
import { gapsOf } from '../core/life.ts';
import { cutAtLost } from '../core/lost.ts';
import type { SymbolFacts } from '../core/market.ts';
import { intersection, union, type Window } from '../core/window.ts';
import { knownSpan } from '../state/coverage.ts';
import { lostTicksOf, sureCoverageOf } from '../state/lost.ts';
import { allSymbols } from '../state/symbols.ts';

/** Ends in epoch milliseconds, null where nobody named one; `symbols` none: all of them. */
export interface GapsAsked {
  readonly from: number | null;
  readonly to: number | null;
  readonly symbols: readonly SymbolFacts[];
}

export interface Gap extends Window {
  readonly symbol: string;
  /** `lost`: its ticks were published once, so many of them, and were lost. Absent where nobody has covered it. */
  readonly reason?: 'lost';
  readonly ticks?: number;
}

/** Gaps inside [from, to), epoch milliseconds. */
export interface GapList extends Window {
  readonly count: number;
  readonly gaps: readonly Gap[];
}

/** The gaps in what is asked for; by default between the first and the last moment of which anything is known. */
export function listGaps(archive: Archive, { from, to, symbols }: GapsAsked, nowMs: number): GapList {
  const { db } = archive.state;
  const span = knownSpan(db);
  // What is still to come is no gap.
  const asked = { from: from ?? span?.from ?? 0, to: Math.min(nowMs, to ?? span?.to ?? 0) };
  if (from !== null && to !== null && asked.from >= asked.to)
    throw new UsageError('--from must be before --to, and in the past.');
  const gaps = gapsAmong(archive, symbols.length === 0 ? allSymbols(db) : symbols, asked, from !== null);
  return { ...asked, count: gaps.length, gaps };
}

const gapsAmong = (archive: Archive, symbols: readonly SymbolFacts[], asked: Window, fromNamed: boolean): Gap[] =>
  symbols.flatMap((facts) => {
    const { symbol } = facts;
    const lost = lostTicksOf(archive.state.db, symbol);
    // Its first tick may be among what is lost, so that no more is left to tell that it lived then.
    const known = lost.map((window) => intersection(window, asked));
    const gaps = union([...gapsOf(facts, sureCoverageOf(archive.state.db, symbol), asked, fromNamed), ...known]);
    if (gaps.length === 0) return [];
    return cutAtLost(gaps, lost).map(({ from, to, loss }) => ({
      ...{ symbol, from, to },
      ...(loss !== null && { reason: 'lost' as const, ticks: loss.ticks }),
    }));
  });

/** Gaps between the first and the last moment of which the archive knows anything; `lost` are those among them. */
export function countGaps(
  archive: Archive,
  symbols: readonly SymbolFacts[],
): { windows: number; symbols: number; lost: number } {
  const span = knownSpan(archive.state.db);
  const gaps = span === null ? [] : gapsAmong(archive, symbols, span, false);
  const lost = gaps.filter((gap) => gap.reason === 'lost').length;
  return { windows: gaps.length, symbols: new Set(gaps.map((gap) => gap.symbol)).size, lost };
}
