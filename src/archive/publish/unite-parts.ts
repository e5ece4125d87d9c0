import { findFirstAtOrAfter } from '../../base/binary-search.ts';
import { isInRange } from '../../base/symbol-range.ts';
import { floorToDay, intersect, isWithin, subtract, type Window } from '../../base/window.ts';
import type { CoveredWindow, LostWindow, PublishedCoverage } from '../format/coverage.ts';
import type { DayPart } from '../format/day-parts.ts';
import { toDayPath } from '../format/layout.ts';
import { findFileWithRows } from '../format/manifest.ts';
import { emptyBooks, listSnapshots, mergeBooks, uniteBookCoverage } from '../format/order-book.ts';
import { overlayPrecedence, type Precedence, type PrecedenceWindow } from '../format/precedence.ts';
import { type SeriesColumns, sliceRows } from '../format/series.ts';
import { conflictDatasets, type SeriesDataset, seriesDatasets } from '../format/series-datasets.ts';
import type { Conflict, TickChunk } from '../format/tick-columns.ts';
import { decideRows, toContent, toStandIns } from '../format/unite.ts';
import { type DatedWindow, findWithdrawn } from '../format/withdrawals.ts';
import { decodeBooks } from '../parquet/books-file.ts';
import { readPublishedFile } from '../read-published-file.ts';
import {
  type DayCoverage,
  parseConflictRows,
  parseSeriesConflictRows,
  readPartConflicts,
  readPartCoverage,
  readTableRows,
} from './day-tables.ts';
import { encodeBookFile } from './encode-partition.ts';
import type { SeriesInput, SeriesSource, TickSource } from './import-buffer.ts';
import { stageFile } from './staging.ts';
import {
  decodeAsSeries,
  listOtherFiles,
  listUnionParts,
  type OtherRows,
  readOtherColumns,
  readOtherConflicts,
  readOtherCoverage,
  readOtherSeries,
  readOtherTable,
  toPriceConflict,
  type Union,
} from './union-files.ts';

/** The rows of one symbol, cut where their precedence changes. */
function* splitByPrecedence(
  { symbols: [symbol], t }: OtherRows<SeriesColumns>[0],
  day: number,
  coverage: readonly CoveredWindow[],
): Generator<Precedence & { readonly from: number; readonly to: number }> {
  for (const { from, to, rank, observedAt } of toStandIns(symbol, day, coverage)) {
    const rows = { from: findFirstAtOrAfter(t, from), to: findFirstAtOrAfter(t, to) };
    if (rows.from < rows.to) yield { ...rows, rank, observedAt };
  }
}

/** The ticks of the other archive with their coverage, as a publish merges them. */
export const createUnionSource = (union: Union): TickSource => ({
  listParts: () => listUnionParts(union),
  readChunks(part) {
    const { ticks } = readOtherCoverage(union, part);
    return readOtherSeries(union, 'ticks', part).flatMap((rows) => {
      const [symbol] = rows.symbols;
      return [...splitByPrecedence(rows, part.day, ticks.get(symbol) ?? [])].map(
        ({ from, to, rank, observedAt }): TickChunk => ({
          symbol,
          runId: union.runId,
          rank,
          observedAt,
          t: rows.t.subarray(from, to),
          p: rows.values[0]!.subarray(from, to),
        }),
      );
    });
  },
  readCoverage(part) {
    const out = new Map<string, CoveredWindow[]>();
    for (const [symbol, windows] of readOtherCoverage(union, part).ticks) {
      const { own, other } = selectWithdrawals(union, symbol, part.day);
      out.set(
        symbol,
        windows.flatMap((window) => withoutTicks(window, findWithdrawn([window], own, other))),
      );
    }
    // What this archive has of a window that the other has lost is judged as a response is.
    const owned = readPartCoverage(union.archive, union.stage.base, part).ticks;
    for (const [symbol, lost] of readOtherLost(union, part)) {
      const { own, other } = selectWithdrawals(union, symbol, part.day);
      for (const window of owned.get(symbol) ?? [])
        for (const both of intersect([window], lost)) {
          const windows = withoutTicks({ ...window, ...both }, findWithdrawn([window], other, own));
          out.set(symbol, [...(out.get(symbol) ?? []), ...windows]);
        }
    }
    return out;
  },
  readWithdrawn(part) {
    const out = new Map<string, DatedWindow[]>();
    for (const [symbol, windows] of readPartCoverage(union.archive, union.stage.base, part).ticks) {
      const { own, other } = selectWithdrawals(union, symbol, part.day);
      const withdrawn = findWithdrawn(windows, other, own).map((window) => ({ ...window, at: 0 }));
      // Windows are cut where a listed withdrawal begins, even if it removes nothing.
      if (other.length > 0) out.set(symbol, withdrawn);
    }
    for (const [symbol, lost] of readOtherLost(union, part))
      out.set(symbol, [...(out.get(symbol) ?? []), ...lost.map(({ from, to }) => ({ from, to, at: 0 }))]);
    return out;
  },
});

const withoutTicks = ({ ticks: _, ...window }: PublishedCoverage, removed: readonly Window[]): CoveredWindow[] =>
  subtract([window], removed).map((rest) => ({ ...window, ...rest }));

/** The withdrawals of a symbol and day that each archive lists. */
function selectWithdrawals(
  { withdrawnOn }: Union,
  symbol: string,
  day: number,
): { readonly own: readonly DatedWindow[]; readonly other: readonly DatedWindow[] } {
  const select = (listed: Union['withdrawnOn']['own']): readonly DatedWindow[] =>
    (listed.get(day) ?? []).filter((one) => one.symbol === null || one.symbol === symbol);
  return { own: select(withdrawnOn.own), other: select(withdrawnOn.other) };
}

/** The windows of a part whose ticks the other archive has lost, by symbol. */
export function readOtherLost(union: Union, part: DayPart): Map<string, LostWindow[]> {
  const lost = (union.other.manifest.lost ?? []).filter(
    ({ symbol, from }) => floorToDay(from) === part.day && isInRange(part, symbol),
  );
  return Map.groupBy(lost, ({ symbol }) => symbol);
}

/** The lost windows of both archives. Where they begin at one time, the longer and the greater number counts, as in the state. */
export function uniteLost(
  own: ReadonlyMap<string, readonly LostWindow[]>,
  other: ReadonlyMap<string, readonly LostWindow[]>,
): Map<string, LostWindow[]> {
  const all = [...own, ...other].flatMap(([, windows]) => windows);
  const out = new Map<string, LostWindow>();
  for (const window of all) {
    const key = `${window.from} ${window.symbol}`;
    const { to, ticks } = out.get(key) ?? window;
    out.set(key, { ...window, to: Math.max(to, window.to), ticks: Math.max(ticks, window.ticks) });
  }
  return Map.groupBy(out.values(), ({ symbol }) => symbol);
}

/** The rows of series of the other archive, as those of an import. */
export const createUnionIntake = (union: Union): SeriesSource => ({
  listParts: () =>
    listUnionParts(union).filter((part) =>
      [...seriesDatasets, 'coverage' as const].some((dataset) => listOtherFiles(union, dataset, part).length > 0),
    ),
  readPart(part) {
    const coverage = readOtherCoverage(union, part);
    return seriesDatasets.flatMap((dataset): SeriesInput[] => {
      const covered = new Map(
        [...coverage[dataset]].map(([symbol, list]) => [symbol, list.flatMap((window) => withoutTicks(window, []))]),
      );
      const chunks = readOtherSeries(union, dataset, part).flatMap((rows) => {
        const [symbol] = rows.symbols;
        return [...splitByPrecedence(rows, part.day, coverage[dataset].get(symbol) ?? [])].map(
          ({ from, to, rank, observedAt }) => ({
            symbol,
            runId: union.runId,
            rank,
            observedAt,
            ...sliceRows(rows, from, to),
          }),
        );
      });
      return chunks.length + covered.size === 0 ? [] : [{ dataset, chunks, covered }];
    });
  },
});

/**
 * The precedence of this archive's rows of a part: what its published coverage states, as with the rows of the other archive,
 * unless one of them has compared the rows.
 */
export function readUnionPrecedence(
  union: Union,
  part: DayPart,
  dataset: 'ticks' | SeriesDataset,
  coverage: DayCoverage,
  symbols: Iterable<string>,
): Map<string, PrecedenceWindow[]> {
  const decided = decideByConflicts(union, part, dataset);
  return new Map(
    [...symbols].map((symbol) => {
      const standIns = toStandIns(symbol, part.day, coverage[dataset].get(symbol) ?? []);
      return [symbol, overlayPrecedence(standIns, decided.get(symbol) ?? [])];
    }),
  );
}

/** Reads the rows of both archives only if one of them has conflicts. */
function decideByConflicts(
  union: Union,
  part: DayPart,
  dataset: 'ticks' | SeriesDataset,
): ReadonlyMap<string, readonly PrecedenceWindow[]> {
  const { archive, stage } = union;
  const conflicts =
    dataset === 'ticks'
      ? readPartConflicts(archive, stage.base, part).map(toPriceConflict)
      : parseSeriesConflictRows(dataset, readTableRows(archive, stage.base, conflictDatasets[dataset], part));
  const others = readOtherConflicts(union, part, dataset);
  if (conflicts.length + others.length === 0) return new Map();
  const file = findFileWithRows(stage.base, dataset, toDayPath(dataset, part.day, part.part));
  if (file === undefined) return new Map();
  const bytes = readPublishedFile(archive, file);
  const own = decodeAsSeries(dataset, bytes);
  const rows = readOtherSeries(union, dataset, part);
  return decideRows({ rows: [own], conflicts }, { rows, conflicts: others });
}

/** Adds to the tables of a part what the other archive has: its conflicts, and its coverage of order books. */
export function addOtherTables(
  union: Union,
  part: DayPart,
  { coverage, conflicts }: { readonly coverage: DayCoverage; readonly conflicts: Conflict[] },
): void {
  for (const conflict of parseConflictRows(readOtherTable(union, 'conflicts', part))) conflicts.push(conflict);
  // Of two rows of one key, the last one counts.
  conflicts.sort((a, b) => a.kept - b.kept);
  for (const [symbol, windows] of readOtherCoverage(union, part).orderbooks)
    coverage.orderbooks.set(symbol, uniteBookCoverage([...(coverage.orderbooks.get(symbol) ?? []), ...windows]));
}

/**
 * The conflicts between rows of both archives that neither lists. Each was seen when the later of both was observed.
 * @param known those that one of them lists @param coverage the published coverage of this archive
 */
export function selectNewConflicts<C extends { readonly symbol: string; readonly t: number; readonly seenAt: number }>(
  union: Union,
  part: DayPart,
  dataset: 'ticks' | SeriesDataset,
  fresh: readonly C[],
  known: readonly C[],
  coverage: DayCoverage,
): C[] {
  if (fresh.length === 0) return [];
  // Ticks also state the kept price, which one conflict of each tick has to have.
  const toKey = (one: C): string => toContent({ ...one, seenAt: 0 });
  const keys = new Set(known.map(toKey));
  const findSeenAt = createSeenAtLookup(union, part, dataset, coverage);
  return fresh.filter((one) => !keys.has(toKey(one))).map((one) => ({ ...one, seenAt: findSeenAt(one) }));
}

function createSeenAtLookup(
  union: Union,
  part: DayPart,
  dataset: 'ticks' | SeriesDataset,
  coverage: DayCoverage,
): (conflict: { readonly symbol: string; readonly t: number }) => number {
  const sides = [coverage[dataset], readOtherCoverage(union, part)[dataset]];
  return ({ symbol, t }) =>
    Math.max(...sides.map((side) => side.get(symbol)?.find((window) => isWithin(t, window))?.fetchedAt ?? part.day));
}

/** Merges the order books of the other archive and stages the changed files. Returns their number. */
export function stageOtherBooks(union: Union, part: DayPart): number {
  const { archive, stage } = union;
  const fresh = readOtherColumns(
    union,
    'orderbooks',
    part,
    (bytes) => decodeBooks(bytes),
    (columns, i) => ({ ...columns, symbols: [columns.symbols[i]!], offsets: columns.offsets.slice(i, i + 2) }),
  ).flatMap((books) => listSnapshots(books, 0));
  if (fresh.length === 0) return 0;
  const path = toDayPath('orderbooks', part.day, part.part);
  const file = findFileWithRows(stage.base, 'orderbooks', path);
  const old = file === undefined ? emptyBooks : decodeBooks(readPublishedFile(archive, file));
  const { columns, isChanged } = mergeBooks(old, fresh, (_, t) => t);
  if (isChanged) stageFile(archive, stage, encodeBookFile(path, part.day, columns, archive.groupRows));
  return fresh.length;
}
