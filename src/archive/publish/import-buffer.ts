import { findFirstIndex } from '../../base/binary-search.ts';
import { joinLists, pushTo } from '../../base/push-to.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { findRange, isInRange, type SymbolRange } from '../../base/symbol-range.ts';
import { floorToDay, splitByDay } from '../../base/window.ts';
import type { CoveredWindow } from '../format/coverage.ts';
import { type DayPart, type DayPartLookup, sortParts } from '../format/day-parts.ts';
import type { Precedence } from '../format/precedence.ts';
import { createEmptySeries, type SeriesChunk, type SeriesRows } from '../format/series.ts';
import type { SeriesDataset } from '../format/series-datasets.ts';
import { emptyPart, type TickChunk } from '../format/tick-columns.ts';
import type { DatedWindow } from '../format/withdrawals.ts';
import type { Database } from '../journal/database.ts';
import { appendTicks, readPartClaims, readPartTicks, readWithdrawals } from '../journal/journal.ts';
import { assertRowCount, type JournalIndex, listTickParts } from '../journal/journal-check.ts';
import { appendSeries } from '../journal/journal-series.ts';
import { addFetchedTicks } from '../journal/runs.ts';
import { addSeriesCounts } from '../journal/series-counts.ts';
import type { State } from '../journal/state.ts';
import { ensureSymbol } from '../journal/symbol-store.ts';
import type { DayRowsSource } from './day-part-choice.ts';
import {
  listSpilledDays,
  openSpillReader,
  type SpilledChunk,
  type SpilledDays,
  type SpilledRows,
  type SpillReader,
} from './spill-file.ts';

/**
 * What an import has read for the next publish. That publish accepts it; an import that is interrupted before then must read
 * the files again. Ticks and series are apart, because a publish may merge one of them and refuse the other.
 */
export interface ImportBuffer {
  readonly ticks: Intake<'ticks'>;
  readonly series: Intake<SeriesDataset>;
  readonly rank: Precedence['rank'];
}

/** Rows and coverage of some datasets for the next publish. */
interface Intake<D extends 'ticks' | SeriesDataset> extends DayRowsSource {
  /** Number of entries in memory, each of a few hundred bytes. */
  readonly entries: number;
  readonly rows: number;
  /** When each symbol was first seen, epoch ms. */
  readonly seen: ReadonlyMap<string, number>;
  /** Adds rows of one file. `observedAt`: epoch ms. */
  add(dataset: D, rows: { readonly symbol: string; readonly observedAt: number; readonly spilled: SpilledDays }): void;
  /**
   * Adds a window that a file covers, or that the user declared. It must not be journaled before its rows: after an
   * interrupted import another publish would publish it without them.
   */
  addCoverage(dataset: D, symbol: string, window: CoveredWindow): void;
  /** The rows and the coverage of a part, by dataset. */
  readPart(part: DayPart): readonly IntakeEntry<D>[];
  /**
   * Records in the state what the publish merged, and journals the rest (nothing is merged into a damaged part file).
   * Runs in the publish's transaction.
   */
  commitTo(state: State, merged: readonly DayPart[]): void;
  /** Journals everything, in several transactions, if no publish can merge it. */
  journalTo(state: State): void;
}

/** Rows and coverage of one dataset and UTC day, of all symbols or of those of a part. */
interface IntakeEntry<D> {
  readonly dataset: D;
  readonly chunks: readonly SpilledChunk[];
  /** By symbol. */
  readonly covered: ReadonlyMap<string, readonly CoveredWindow[]>;
}

interface OpenEntry<D> extends IntakeEntry<D> {
  chunks: SpilledChunk[];
  /** Whether the chunks are sorted by symbol, those of a symbol in the order in which they were added. */
  isSorted: boolean;
  readonly covered: Map<string, CoveredWindow[]>;
}

/** @param rank precedence of the rows, see archive/format/merge.ts */
export const openImportBuffer = (runId: string, rank: Precedence['rank']): ImportBuffer => ({
  ticks: openIntake(runId, rank),
  series: openIntake(runId, rank),
  rank,
});

function openIntake<D extends 'ticks' | SeriesDataset>(runId: string, rank: Precedence['rank']): Intake<D> {
  const byDay = new Map<number, Map<D, OpenEntry<D>>>();
  const seen = new Map<string, number>();
  let entries = 0;
  let rows = 0;

  function openEntry(dataset: D, day: number, symbol: string, seenAt: number): OpenEntry<D> {
    seen.set(symbol, Math.min(seen.get(symbol) ?? seenAt, seenAt));
    entries++;
    const byDataset = byDay.get(day) ?? new Map<D, OpenEntry<D>>();
    byDay.set(day, byDataset);
    const entry = byDataset.get(dataset) ?? { dataset, chunks: [], isSorted: true, covered: new Map() };
    byDataset.set(dataset, entry);
    return entry;
  }

  /** Runs in a transaction, so that no coverage is journaled without its rows. */
  function journal(state: State, { dataset, chunks, covered }: IntakeEntry<D>, spills: SpillReader): void {
    const append = (
      symbol: string,
      observedAt: number,
      spilled: SpilledRows | null,
      windows: readonly CoveredWindow[],
    ): void => {
      const [read] = spilled === null ? [] : spills.read([spilled]);
      const record = { runId, symbol, observedAt, origin: 'import', rank, rejected: [], covered: windows } as const;
      if (dataset !== 'ticks') appendSeries(state, [{ ...record, dataset, rows: read ?? createEmptySeries(dataset) }]);
      else {
        const requestedWindow = windows[0] ?? { from: observedAt, to: observedAt };
        appendTicks(state, [{ ...record, requestedWindow, ticks: read === undefined ? emptyPart : toTicks(read) }]);
      }
    };
    for (const { symbol, observedAt, spilled } of chunks) append(symbol, observedAt, spilled, []);
    for (const [symbol, windows] of covered) append(symbol, windows[0]!.fetchedAt, null, windows);
  }

  function countFetched(state: State, { dataset, chunks }: IntakeEntry<D>): void {
    const fetched = chunks.reduce((sum, { spilled }) => sum + spilled.rowCount, 0);
    if (dataset === 'ticks') addFetchedTicks(state.db, runId, fetched);
    else addSeriesCounts(state.db, runId, dataset, { fetched });
  }

  return {
    get entries() {
      return entries;
    },
    get rows() {
      return rows;
    },
    seen,
    add(dataset, { symbol, observedAt, spilled: all }) {
      for (const { day, spilled } of listSpilledDays(all)) {
        rows += spilled.rowCount;
        const entry = openEntry(dataset, day, symbol, observedAt);
        entry.isSorted = false;
        entry.chunks.push({ symbol, runId, rank, observedAt, spilled });
      }
    },
    addCoverage(dataset, symbol, window) {
      for (const piece of splitByDay(window)) {
        const { covered } = openEntry(dataset, floorToDay(piece.from), symbol, window.fetchedAt);
        pushTo(covered, symbol, { ...window, ...piece });
      }
    },
    listDays: () => byDay.keys(),
    countRows(day) {
      const counts = new Map<string, number>();
      const count = (symbol: string, added: number): void => void counts.set(symbol, (counts.get(symbol) ?? 0) + added);
      for (const { chunks, covered } of byDay.get(day)?.values() ?? []) {
        for (const { symbol, spilled } of chunks) count(symbol, spilled.rowCount);
        for (const [symbol, windows] of covered) count(symbol, windows.length);
      }
      return counts;
    },
    readPart: (part) =>
      [...(byDay.get(part.day)?.values() ?? [])].map((entry) => selectRange(entry, part)).filter(hasContent),
    commitTo(state, mergedParts) {
      for (const [symbol, at] of seen) ensureSymbol(state.db, symbol, at);
      const merged = Map.groupBy(mergedParts, ({ day }) => day);
      using spills = openSpillReader();
      for (const [day, byDataset] of byDay) {
        const ranges = (merged.get(day) ?? []).toSorted((a, b) => compareUtf8(a.from, b.from));
        const isMerged = (symbol: string): boolean => findRange(ranges, symbol) !== undefined;
        for (const entry of byDataset.values()) {
          countFetched(state, selectSymbols(entry, isMerged));
          const rest = selectSymbols(entry, (symbol) => !isMerged(symbol));
          if (hasContent(rest)) journal(state, rest, spills);
        }
      }
    },
    journalTo(state) {
      using spills = openSpillReader();
      for (const byDataset of byDay.values())
        state.db.transaction(() => {
          for (const entry of byDataset.values()) journal(state, entry, spills);
        });
    },
  };
}

const hasContent = ({ chunks, covered }: IntakeEntry<unknown>): boolean => chunks.length + covered.size > 0;

function selectSymbols<D>(
  { dataset, chunks, covered }: OpenEntry<D>,
  isWanted: (symbol: string) => boolean,
): IntakeEntry<D> {
  return {
    dataset,
    chunks: chunks.filter(({ symbol }) => isWanted(symbol)),
    covered: new Map([...covered].filter(([symbol]) => isWanted(symbol))),
  };
}

/** Selects the symbols of a range. Sorts the chunks first, so that the parts of a day need not look at all of them. */
function selectRange<D>(entry: OpenEntry<D>, range: SymbolRange): IntakeEntry<D> {
  if (!entry.isSorted) entry.chunks.sort((a, b) => compareUtf8(a.symbol, b.symbol));
  entry.isSorted = true;
  const { dataset, chunks, covered } = entry;
  const first = findFirstIndex(0, chunks.length, (i) => compareUtf8(chunks[i]!.symbol, range.from) >= 0);
  const end = findFirstIndex(first, chunks.length, (i) => compareUtf8(chunks[i]!.symbol, range.to) > 0);
  return {
    dataset,
    chunks: chunks.slice(first, end),
    covered: new Map([...covered].filter(([symbol]) => isInRange(range, symbol))),
  };
}

const toTicks = ({ t, values }: SeriesRows) => ({ t, p: values[0]! });

/** The rows and coverage to merge into one part of one series. */
export interface SeriesInput {
  readonly dataset: SeriesDataset;
  readonly chunks: readonly (SeriesChunk | SpilledChunk)[];
  readonly covered: ReadonlyMap<string, readonly CoveredWindow[]>;
}

/** Rows of series to merge, besides those of the journal. */
export interface SeriesSource {
  /** The parts with rows or coverage, sorted. */
  listParts(): readonly DayPart[];
  readPart(part: DayPart): readonly SeriesInput[];
}

/** Ticks to merge: those of the journal, of an import, or of another archive. */
export interface TickSource {
  /** The parts with ticks or coverage, sorted. */
  listParts(): readonly DayPart[];
  readChunks(part: DayPart): readonly (TickChunk | SpilledChunk)[];
  readCoverage(part: DayPart): ReadonlyMap<string, readonly CoveredWindow[]>;
  /** Windows whose published coverage is withdrawn, by symbol, before this source's coverage is applied. */
  readWithdrawn(part: DayPart): ReadonlyMap<string, readonly DatedWindow[]>;
}

/** The parts with rows or coverage of an intake. */
const listIntakeParts = (
  { listDays, readPart }: Intake<'ticks'> | Intake<SeriesDataset>,
  lookup: DayPartLookup,
): DayPart[] =>
  sortParts([...listDays()].flatMap((day) => lookup.list(day)).filter((part) => readPart(part).length > 0));

export const createIntakeSource = (intake: Intake<'ticks'>, lookup: DayPartLookup): TickSource => ({
  listParts: () => listIntakeParts(intake, lookup),
  readChunks: (part) => intake.readPart(part)[0]?.chunks ?? [],
  readCoverage: (part) => intake.readPart(part)[0]?.covered ?? new Map(),
  readWithdrawn: () => new Map(),
});

export const createIntakeSeries = (intake: Intake<SeriesDataset>, lookup: DayPartLookup): SeriesSource => ({
  listParts: () => listIntakeParts(intake, lookup),
  readPart: intake.readPart,
});

/**
 * Reads the journal up to the end of its index. Its methods throw JournalDamageError if rows are damaged or missing.
 */
export const createJournalSource = (db: Database, index: JournalIndex): TickSource => ({
  listParts: () => listTickParts(index),
  readChunks(part) {
    const chunks = readPartTicks(db, part, index.end);
    assertRowCount(index, 'journal_ticks', part, chunks.length);
    return chunks;
  },
  readCoverage(part) {
    const { covered, rows } = readPartClaims(db, part, index.end);
    assertRowCount(index, 'journal_coverage', part, rows);
    return covered;
  },
  readWithdrawn(part) {
    const withdrawals = readWithdrawals(db, part, index.end);
    assertRowCount(
      index,
      'journal_withdrawn',
      part,
      [...withdrawals.values()].reduce((sum, { length }) => sum + length, 0),
    );
    return withdrawals;
  },
});

/** Combines several sources. */
export const joinSources = (sources: readonly TickSource[]): TickSource => ({
  listParts: () => sortParts(sources.flatMap((source) => source.listParts())),
  readChunks: (part) => sources.flatMap((source) => source.readChunks(part)),
  readCoverage: (part) => joinLists(sources.map((source) => source.readCoverage(part))),
  readWithdrawn: (part) => joinLists(sources.map((source) => source.readWithdrawn(part))),
});
