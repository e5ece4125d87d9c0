import type { Archive } from '../archive/archive.ts';
import { UsageError } from '../core/errors.ts';
import type { SymbolFacts } from '../core/market.ts';
import { isoUtc } from '../core/time.ts';
import type { Window } from '../core/window.ts';
import { gapsOf } from '../ingest/plan.ts';
import { coverageOf, knownSpan } from '../state/coverage.ts';
import { allSymbols } from '../state/symbols.ts';
import { duration, many } from './amounts.ts';
import { askedEnds, knownSymbols } from './asked.ts';
import { visible } from './table.ts';

export interface GapsAsked {
  readonly from?: string;
  readonly to?: string;
  readonly symbol: readonly string[];
}

interface Gap extends Window {
  readonly symbol: string;
}

/** Gaps inside [from, to), epoch milliseconds. */
export interface GapList extends Window {
  readonly count: number;
  readonly gaps: readonly Gap[];
}

/** The gaps that the flags ask for; by default between the first and the last moment of which anything is known. */
export function listGaps(archive: Archive, flags: GapsAsked, nowMs: number): GapList {
  const { db } = archive.state;
  const span = knownSpan(db);
  const ends = askedEnds(flags);
  // What is still to come is no gap.
  const asked = { from: ends.from ?? span?.from ?? 0, to: Math.min(nowMs, ends.to ?? span?.to ?? 0) };
  if (flags.from !== undefined && flags.to !== undefined && asked.from >= asked.to)
    throw new UsageError('--from must be before --to, and in the past.');
  const symbols = flags.symbol.length === 0 ? allSymbols(db) : knownSymbols(archive, flags.symbol);
  const gaps = gapsAmong(archive, symbols, asked, flags.from !== undefined);
  return { ...asked, count: gaps.length, gaps };
}

const gapsAmong = (archive: Archive, symbols: readonly SymbolFacts[], asked: Window, fromNamed: boolean): Gap[] =>
  symbols.flatMap((facts) =>
    gapsOf(facts, coverageOf(archive.state.db, facts.symbol), asked, fromNamed).map(({ from, to }) => ({
      symbol: facts.symbol,
      from,
      to,
    })),
  );

/** Gaps between the first and the last moment of which the archive knows anything. */
export function countGaps(archive: Archive, symbols: readonly SymbolFacts[]): { windows: number; symbols: number } {
  const span = knownSpan(archive.state.db);
  const gaps = span === null ? [] : gapsAmong(archive, symbols, span, false);
  return { windows: gaps.length, symbols: new Set(gaps.map((gap) => gap.symbol)).size };
}

/** The same for a person. */
export function gapsText({ from, to, gaps }: GapList): string {
  const span = to > from ? `from ${isoUtc(from)} to ${isoUtc(to)}` : 'nothing is covered yet';
  if (gaps.length === 0) return `no gaps ${span}\n`;
  const lines = gaps.map(
    (gap) =>
      `${isoUtc(gap.from)} … ${isoUtc(gap.to)}  ${duration(gap.to - gap.from).padStart(12)}  ${visible(gap.symbol)}\n`,
  );
  return `${lines.join('')}${many(gaps.length, 'gap')} of ${many(new Set(gaps.map((gap) => gap.symbol)).size, 'symbol')} ${span}\n`;
}
