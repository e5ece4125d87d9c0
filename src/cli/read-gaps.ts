import type { Archive } from '../archive/archive.ts';
import { UsageError } from '../core/errors.ts';
import type { SymbolFacts } from '../core/market.ts';
import { isoUtc, parseTime } from '../core/time.ts';
import type { Window } from '../core/window.ts';
import { gapsOf } from '../ingest/plan.ts';
import { coverageOf, coverageSpan } from '../state/coverage.ts';
import { allSymbols, oneSymbol } from '../state/symbols.ts';
import { duration } from './print-summary.ts';

export interface GapsAsked {
  readonly from?: string;
  readonly to?: string;
  readonly symbol: readonly string[];
}

interface Gap extends Window {
  readonly symbol: string;
}

/** The gaps that the flags ask for. */
export function listGaps(archive: Archive, flags: GapsAsked): Gap[] {
  const { db } = archive.state;
  const span = coverageSpan(db);
  const asked = {
    from: flags.from === undefined ? (span?.from ?? 0) : parseTime(flags.from, '--from'),
    to: flags.to === undefined ? (span?.to ?? 0) : parseTime(flags.to, '--to'),
  };
  if (flags.from !== undefined && flags.to !== undefined && asked.from >= asked.to)
    throw new UsageError('--from must be before --to.');
  const symbols = flags.symbol.length === 0 ? allSymbols(db) : flags.symbol.map((symbol) => known(archive, symbol));
  return gapsAmong(archive, symbols, asked);
}

function known(archive: Archive, symbol: string): SymbolFacts {
  const facts = oneSymbol(archive.state.db, symbol);
  if (facts === undefined) throw new UsageError(`--symbol ${symbol} is not known in this archive.`);
  return facts;
}

const gapsAmong = (archive: Archive, symbols: readonly SymbolFacts[], asked: Window): Gap[] =>
  symbols.flatMap((facts) =>
    gapsOf(facts, coverageOf(archive.state.db, facts.symbol), asked).map(({ from, to }) => ({
      symbol: facts.symbol,
      from,
      to,
    })),
  );

/** Gaps between the first and the last covered moment of the archive. */
export function countGaps(archive: Archive, symbols: readonly SymbolFacts[]): { windows: number; symbols: number } {
  const span = coverageSpan(archive.state.db);
  const gaps = span === null ? [] : gapsAmong(archive, symbols, span);
  return { windows: gaps.length, symbols: new Set(gaps.map((gap) => gap.symbol)).size };
}

/** The same for a person. */
export function gapsText(gaps: readonly Gap[]): string {
  if (gaps.length === 0) return 'no gaps\n';
  const lines = gaps.map(
    ({ symbol, from, to }) => `${isoUtc(from)} … ${isoUtc(to)}  ${duration(to - from).padStart(12)}  ${symbol}\n`,
  );
  return `${lines.join('')}${gaps.length} gaps of ${new Set(gaps.map((gap) => gap.symbol)).size} symbols\n`;
}
