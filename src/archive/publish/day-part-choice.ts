import { compareUtf8 } from '../../base/symbol-name.ts';
import {
  chooseParts,
  computeAimRows,
  createPartLookup,
  type DayPart,
  type DayPartLookup,
  listPublishedParts,
  type SymbolRows,
} from '../format/day-parts.ts';
import type { Manifest } from '../format/manifest.ts';
import type { JournaledDay } from '../journal/journal-check.ts';

/** Rows that a publish merges besides those of the journal, by UTC day. */
export interface DayRowsSource {
  listDays(): Iterable<number>;
  /** The rows of each symbol of a day. */
  countRows(day: number): ReadonlyMap<string, number>;
}

interface ChoiceInput {
  readonly journaled: Iterable<JournaledDay>;
  readonly sources: readonly DayRowsSource[];
  /** The number of parts of a day, at least 1. */
  readonly parts: number;
}

/** Chooses the parts of the days that have input. Holds the symbols of one day in memory. */
export function chooseDayParts(base: Manifest, { journaled, sources, parts }: ChoiceInput): DayPartLookup {
  const chosen = new Map<number, readonly DayPart[]>();
  const choose = (day: number, symbols: readonly SymbolRows[]): void => {
    const added = addRows(
      symbols,
      sources.map((source) => source.countRows(day)),
    );
    const published = listPublishedParts(base, day);
    const addedRows = added.reduce((sum, { rows }) => sum + rows, 0);
    const all = chooseParts(published, added, computeAimRows(published, addedRows, parts));
    chosen.set(
      day,
      all.map(({ part, from, to }) => ({ day, part, from, to })),
    );
  };
  for (const { day, symbols } of journaled) choose(day, symbols);
  for (const source of sources) for (const day of source.listDays()) if (!chosen.has(day)) choose(day, []);
  return createPartLookup(base, chosen);
}

/** Adds the rows of each symbol, sorted by symbol. A symbol with coverage alone counts as a row. */
function addRows(symbols: readonly SymbolRows[], others: readonly ReadonlyMap<string, number>[]): SymbolRows[] {
  const sum = new Map(symbols.map(({ symbol, rows }) => [symbol, rows]));
  for (const other of others) for (const [symbol, rows] of other) sum.set(symbol, (sum.get(symbol) ?? 0) + rows);
  return [...sum]
    .map(([symbol, rows]) => ({ symbol, rows: Math.max(1, rows) }))
    .sort((a, b) => compareUtf8(a.symbol, b.symbol));
}
