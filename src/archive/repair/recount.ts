import { join } from 'node:path';
import { compareUtf8 } from '../../core/compare-utf8.ts';
import { createUnknownSymbol, type SymbolFacts } from '../../core/market.ts';
import { computePartNumber } from '../../core/partition.ts';
import { parseDayStart } from '../../core/time.ts';
import type { TickCount } from '../../state/symbols.ts';
import { listNextFiles, type Stage } from '../generation/staging.ts';
import { toDayPath } from '../layout.ts';
import { type Archive, readPublishedFile } from '../open-archive.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';

/** Counts the ticks of some parts over all days, as they are once the stage is committed; one entry a symbol. */
export function countStagedTicks(archive: Archive, stage: Stage, parts: ReadonlySet<number>): TickCount[] {
  const counts = new Map<string, TickCount>();
  for (const file of listNextFiles(stage).ticks.files) {
    if (![...parts].some((part) => toDayPath('ticks', parseDayStart(file.date!), part) === file.path)) continue;
    const staged = stage.moves.find((move) => move.to === file.path);
    const bytes =
      staged === undefined
        ? readPublishedFile(archive, file)
        : archive.disk.read(join(archive.layout.root, staged.from!));
    const { symbols, offsets, t } = decodeTicks(bytes);
    symbols.forEach((symbol, i) => {
      const before = counts.get(symbol);
      // Days come in order.
      counts.set(symbol, {
        symbol,
        ticks: (before?.ticks ?? 0) + offsets[i + 1]! - offsets[i]!,
        firstTick: before?.firstTick ?? t[offsets[i]!]!,
        lastTick: t[offsets[i + 1]! - 1]!,
      });
    });
  }
  return [...counts.values()];
}

/** What is known of the symbols of these parts with their ticks counted anew; one that has none any more has no times. */
export function recountSymbols(
  symbols: readonly SymbolFacts[],
  counts: readonly TickCount[],
  parts: ReadonlySet<number>,
  partCount: number,
  nowMs: number,
): { readonly symbols: SymbolFacts[]; readonly changed: TickCount[] } {
  const bySymbol = new Map(counts.map((count) => [count.symbol, count]));
  const changed: TickCount[] = [];
  const known = new Set(symbols.map((facts) => facts.symbol));
  const all = [
    ...symbols,
    ...counts.filter((c) => !known.has(c.symbol)).map((c) => createUnknownSymbol(c.symbol, nowMs)),
  ];
  const out = all.map((facts) => {
    const { symbol } = facts;
    if (!parts.has(computePartNumber(symbol, partCount))) return facts;
    const count = bySymbol.get(symbol) ?? { symbol, ticks: 0, firstTick: null, lastTick: null };
    if (facts.ticks === count.ticks && facts.firstTick === count.firstTick && facts.lastTick === count.lastTick)
      return facts;
    changed.push(count);
    return { ...facts, ...count };
  });
  return { symbols: out.sort((a, b) => compareUtf8(a.symbol, b.symbol)), changed };
}
