import { compareUtf8 } from '../../base/symbol-name.ts';
import type { Archive } from '../archive.ts';
import { datasets } from '../format/datasets.ts';
import { symbolsPath } from '../format/layout.ts';
import { createUnknownSymbol, type SymbolFacts, symbolFields } from '../format/market.ts';
import type { TickDelta } from '../journal/tick-counts.ts';
import type { SortKey } from '../parquet/row-group-index.ts';
import { encodeCells } from '../parquet/writer.ts';
import { createEncodedFile, type FileStatistics } from './encode-partition.ts';
import { type Stage, stageFile } from './staging.ts';

/**
 * The symbols after the commit, sorted; `addTickDeltas` makes the same change in the state database. Changes the facts of
 * `symbols`, which are sorted too.
 */
export function computeSymbolsAfter(
  symbols: readonly SymbolFacts[],
  seen: Iterable<readonly [symbol: string, firstSeen: number]>,
  results: readonly { readonly deltas: readonly TickDelta[] }[],
  nowMs: number,
): readonly SymbolFacts[] {
  type Draft = { -readonly [Field in keyof SymbolFacts]: SymbolFacts[Field] };
  const bySymbol = new Map<string, Draft>();
  for (const facts of symbols) bySymbol.set(facts.symbol, facts);
  const findOrAdd = (symbol: string, firstSeen: number): Draft => {
    let facts = bySymbol.get(symbol);
    if (facts === undefined) {
      facts = createUnknownSymbol(symbol, firstSeen);
      bySymbol.set(symbol, facts);
    }
    return facts;
  };
  for (const [symbol, firstSeen] of seen) findOrAdd(symbol, firstSeen);
  for (const { deltas } of results) {
    for (const { symbol, added, first, last } of deltas) {
      const facts = findOrAdd(symbol, nowMs);
      facts.ticks += added;
      facts.firstTick = Math.min(facts.firstTick ?? first, first);
      facts.lastTick = Math.max(facts.lastTick ?? last, last);
    }
  }
  if (bySymbol.size === symbols.length) return symbols;
  return [...bySymbol.values()].sort((a, b) => compareUtf8(a.symbol, b.symbol));
}

/** Stages the symbols dataset, unless no symbol is known. */
export function stageSymbols(archive: Archive, stage: Stage, symbols: readonly SymbolFacts[]): void {
  if (symbols.length === 0) return;
  const statistics: FileStatistics = {
    date: null,
    rows: symbols.length,
    t_min: symbols.reduce((min, facts) => Math.min(min, facts.firstSeen), Number.POSITIVE_INFINITY),
    t_max: symbols.reduce((max, facts) => Math.max(max, facts.lastSeen), Number.NEGATIVE_INFINITY),
    symbols: symbols.length,
    symbol_from: symbols[0]!.symbol,
    symbol_to: symbols.at(-1)!.symbol,
  };
  const bytes = encodeCells(
    datasets.symbols.columns,
    symbols.length,
    (row, column) => symbols[row]![symbolFields[column]!],
    archive.groupRows,
  );
  const keyAt = (row: number): SortKey => [symbols[row]!.symbol];
  stageFile(archive, stage, createEncodedFile('symbols', symbolsPath, bytes, statistics, keyAt));
}
