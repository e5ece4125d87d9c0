import { compareUtf8 } from '../../base/symbol-name.ts';
import { dayMs } from '../../base/window.ts';
import { datasetNames, isSplitBySymbol } from '../format/datasets.ts';
import {
  chooseParts,
  computeAimRows,
  createPartLookup,
  type DayPart,
  type DayPartLookup,
  isCandles,
  listPublishedParts,
  type PartSizeRules,
  type SymbolRows,
} from '../format/day-parts.ts';
import { listFilesWithRows, type Manifest } from '../format/manifest.ts';
import type { JournaledDay } from '../journal/journal-check.ts';

/** Published days whose size is taken for that of a new day. */
const recentDaysMax = 7;

/** Rows that a publish merges besides those of the journal, by UTC day. */
export interface DayRowsSource {
  listDays(): Iterable<number>;
  /** The rows of each symbol of a day. */
  countRows(day: number): ReadonlyMap<string, number>;
}

interface ChoiceInput {
  readonly journaled: Iterable<JournaledDay>;
  readonly sources: readonly DayRowsSource[];
  readonly rules: PartSizeRules;
  readonly nowMs: number;
}

/** Chooses the parts of the days that have input. Holds the symbols of one day in memory. */
export function chooseDayParts(base: Manifest, { journaled, sources, rules, nowMs }: ChoiceInput): DayPartLookup {
  const recentRows = findRecentRows(base);
  const chosen = new Map<number, readonly DayPart[]>();
  const choose = (day: number, symbols: readonly SymbolRows[]): void => {
    const added = addRows(
      symbols,
      sources.map((source) => source.countRows(day)),
    );
    const published = listPublishedParts(base, day);
    const addedRows = added.reduce((sum, { rows }) => sum + rows, 0);
    const known = { recentRows, isOver: day + dayMs <= nowMs };
    const parts = chooseParts(published, added, computeAimRows(published, addedRows, rules, known));
    chosen.set(
      day,
      parts.map(({ part, from, to }) => ({ day, part, from, to })),
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

const sizedNames = datasetNames.filter((name) => isSplitBySymbol(name) && !isCandles(name));

/** The most rows of one of the last published days; 0 if there is none. */
function findRecentRows(base: Manifest): number {
  const rows = new Map<string, number>();
  for (const name of sizedNames)
    for (const file of listFilesWithRows(base, name)) rows.set(file.date!, (rows.get(file.date!) ?? 0) + file.rows);
  const last = [...rows].sort(([a], [b]) => (a < b ? 1 : -1)).slice(0, recentDaysMax);
  return last.reduce((max, [, count]) => Math.max(max, count), 0);
}
