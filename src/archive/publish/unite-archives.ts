import { compareUtf8 } from '../../base/symbol-name.ts';
import { parseDayStart } from '../../base/time.ts';
import { subtract } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import { compareLostWindows, type LostWindow } from '../format/coverage.ts';
import { datasets } from '../format/datasets.ts';
import {
  hasRows,
  listFilesWithRows,
  listManifestFiles,
  type Manifest,
  type PublishedFile,
} from '../format/manifest.ts';
import type { SymbolFacts } from '../format/market.ts';
import { uniteMarkets, uniteSymbol } from '../format/unite.ts';
import type { Database } from '../journal/database.ts';
import {
  acceptWindows,
  readAcceptedWindows,
  readLostWindows,
  readRevokedGaps,
  recordLost,
} from '../journal/gap-records.ts';
import { SupersededError } from '../journal/intent.ts';
import { emptyIndex } from '../journal/journal-check.ts';
import { takeWriteLock } from '../journal/lock.ts';
import { restoreListings } from '../journal/nightly-memory.ts';
import { addFetchedTicks, addRunTally } from '../journal/runs.ts';
import { recordSelections } from '../journal/selection-store.ts';
import { addSeriesCounts, addSeriesTally } from '../journal/series-counts.ts';
import { readAllSymbols, writeSymbolFacts } from '../journal/symbol-store.ts';
import { decodeRows } from '../parquet/rows.ts';
import { type PublishedState, readPublishedState } from '../rebuild-state.ts';
import { commitStage, finishIntent } from './commit.ts';
import { parseMarketRows, readDayMarkets, stageTable, toMarketRows } from './day-tables.ts';
import { inlineWorker } from './merge-partition.ts';
import {
  computeClaimsAfter,
  groupByDay,
  type PublishOptions,
  publishAttemptsMax,
  recordPublish,
  recordSeries,
  withStage,
} from './publish.ts';
import { type PartResult, stageDays } from './publish-day.ts';
import { type StagedSeries, stageSeries } from './publish-series.ts';
import { listCandleIntervals, stageMissingCandles } from './stage-candles.ts';
import { stageMissingEmptyFiles } from './stage-empty-files.ts';
import { computeSymbolsAfter, stageSymbols } from './stage-symbols.ts';
import { createNextManifest, finishWrites, recordStagedFiles, sortMoves } from './staging.ts';
import {
  chooseUnionParts,
  type OtherArchive,
  openUnion,
  readOtherFile,
  toDamageError,
  type Union,
} from './union-files.ts';
import { createUnionIntake, createUnionSource, stageOtherBooks, uniteLost } from './unite-parts.ts';

export interface UniteResult {
  readonly manifest: Manifest;
  /** Files with rows that were written. */
  readonly files: readonly PublishedFile[];
  /** Snapshots of order books in the other archive. */
  readonly snapshots: number;
  /** Symbols in the other archive. */
  readonly symbols: number;
}

/**
 * Takes another archive into this one, in one generation, or in none if it brings nothing. The rows are the same whichever of
 * both takes the other. What is journaled stays there; it should be published before.
 * @throws DamageError if a file of either archive is missing or has another hash; nothing has changed then
 */
export async function unite(archive: Archive, other: OtherArchive, options: PublishOptions): Promise<UniteResult> {
  for (let attempt = 1; ; attempt++) {
    using _lock = await takeWriteLock(archive.layout.lockPath, options.waitMs, options.clock, options.signal);
    try {
      finishIntent(archive);
      return await withStage(archive, (stage) => uniteStaged(openUnion(archive, stage, other, options.runId), options));
    } catch (error) {
      if (!(error instanceof SupersededError) || attempt >= publishAttemptsMax) throw error;
    }
  }
}

async function uniteStaged(union: Union, options: PublishOptions): Promise<UniteResult> {
  const { archive, stage, other } = union;
  const { db } = archive.state;
  const found = readOtherState(other);
  const { results, series, snapshots } = await stageParts(union, options);
  for (const file of listFilesWithRows(other.manifest, 'markets')) stageOtherMarkets(union, file);
  const known = readKnownSymbols(db);
  const changed = uniteSymbols(known, found);
  const united = new Map([...known, ...changed.map((facts) => [facts.symbol, facts] as const)]);
  const sorted = [...united.values()].sort((a, b) => compareUtf8(a.symbol, b.symbol));
  const symbols = computeSymbolsAfter(sorted, [], results, options.clock.nowMs());
  stageSymbols(archive, stage, symbols);
  stageMissingEmptyFiles(archive, stage);
  const after = { symbols, ...computeClaimsAfter(db, listLost(db, other), union.withdrawn, results, symbols) };
  const recordFound = (): void => {
    // Collectors may have recorded a list since.
    for (const facts of uniteSymbols(readKnownSymbols(db), found)) writeSymbolFacts(db, facts);
    recordDecisions(db, other, found, known);
  };
  const manifest = rehearse(db, recordFound, () => createNextManifest(archive, stage, after, options));
  const result = { snapshots, symbols: changed.length };
  if (stage.stagedFiles.size === 0 && hasSameFindings(stage.base, manifest)) {
    db.transaction(() => {
      // What no file has, such as when a symbol was active last.
      recordFound();
      countTaken(db, options.runId, results, series);
    });
    return { ...result, manifest: stage.base, files: [] };
  }
  await finishWrites(archive, stage);
  commitStage(archive, stage, manifest, sortMoves(stage), () => {
    recordFound();
    recordSeries(archive, options, series, 0);
    recordStagedFiles(archive, stage, manifest.created_at);
    recordPublish(archive, options, results, 0, []);
    recordLost(db, after.lost, manifest.created_at);
    countFetched(db, options.runId, results, series);
  });
  const files = [...stage.stagedFiles.values()].map(({ file }) => file).filter(hasRows);
  return { ...result, manifest, files };
}

/** @throws DamageError if a file is missing or differs */
function readOtherState(other: OtherArchive): PublishedState {
  const { manifest, layout, disk } = other;
  const found = readPublishedState(manifest, layout, disk);
  for (const file of listManifestFiles(manifest)) if (found.damaged.has(file.path)) readOtherFile(other, file);
  return found;
}

/** Merges the parts of days and stages the changed files. @throws DamageError if a file of either archive is damaged */
async function stageParts(
  union: Union,
  options: PublishOptions,
): Promise<{ readonly results: readonly PartResult[]; readonly series: StagedSeries; readonly snapshots: number }> {
  const { archive, stage, other } = union;
  const { signal } = options;
  chooseUnionParts(union);
  const source = createUnionSource(union);
  const parts = source.listParts();
  const snapshots = parts.reduce((sum, part) => sum + stageOtherBooks(union, part), 0);
  const intervals = listCandleIntervals(stage.base, options.candles);
  const rows = [stage.base, other.manifest].flatMap(({ datasets }) => datasets.ticks.files);
  const workers = (await options.workers?.(rows.reduce((sum, file) => sum + file.rows, 0))) ?? inlineWorker;
  const intake = createUnionIntake(union);
  const input = { intervals, tickParts: parts, union };
  const series = await stageSeries(archive, stage, emptyIndex, intake, input, workers, signal);
  let done = 0;
  const days = await stageDays(archive, stage, {
    days: groupByDay(parts, new Map(), series.coverage),
    source,
    end: 0,
    intervals,
    signal,
    late: [],
    workers,
    union,
    onPart: () => options.onProgress?.(++done, parts.length),
  });
  const refused = [
    ...series.refused,
    ...days.refused,
    ...(await stageMissingCandles(archive, stage, intervals, { signal })),
  ];
  if (refused[0] !== undefined) throw toDamageError(other, refused[0]);
  return { results: days.results, series, snapshots };
}

function stageOtherMarkets({ archive, stage, other }: Union, file: PublishedFile): void {
  const day = parseDayStart(file.date!);
  const rows = parseMarketRows(decodeRows(datasets.markets.columns, readOtherFile(other, file)));
  const united = uniteMarkets([...readDayMarkets(archive, stage.base, day), ...rows]);
  stageTable(archive, stage, 'markets', { day, part: 0 }, toMarketRows(united));
}

const readKnownSymbols = (db: Database): Map<string, SymbolFacts> =>
  new Map(readAllSymbols(db).map((facts) => [facts.symbol, facts]));

/** The symbols of the other archive, with what this one knows of them. */
const uniteSymbols = (known: ReadonlyMap<string, SymbolFacts>, found: PublishedState): SymbolFacts[] =>
  found.symbols.map((facts) => {
    const own = known.get(facts.symbol);
    // Its ticks are counted when they are merged.
    return own === undefined ? { ...facts, ticks: 0, firstTick: null, lastTick: null } : uniteSymbol(own, facts);
  });

/** The lost windows of both archives. */
function listLost(db: Database, { manifest }: OtherArchive): LostWindow[] {
  const own = Map.groupBy(readLostWindows(db), ({ symbol }) => symbol);
  const other = Map.groupBy(manifest.lost ?? [], ({ symbol }) => symbol);
  return [...uniteLost(own, other).values()].flat().sort(compareLostWindows);
}

/** Records what the other archive knows of days, and what was decided there. This archive keeps its own decisions. */
function recordDecisions(
  db: Database,
  { manifest }: OtherArchive,
  { selections }: PublishedState,
  known: ReadonlyMap<string, SymbolFacts>,
): void {
  restoreListings(db, manifest);
  recordSelections(db, new Map([...selections].filter(([symbol]) => !known.has(symbol))));
  const revoked = readRevokedGaps(db);
  const accepted = (manifest.accepted ?? []).flatMap(({ accepted_at: acceptedAt, ...window }) => {
    const later = revoked.filter(({ symbol, at }) => symbol === window.symbol && at >= acceptedAt);
    return subtract([window], later).map((rest) => ({
      ...window,
      ...rest,
      acceptedAt,
      reportedAt: manifest.created_at,
    }));
  });
  // The last decision counts.
  if (accepted.length > 0)
    acceptWindows(
      db,
      [...readAcceptedWindows(db), ...accepted].sort(
        (a, b) => a.acceptedAt - b.acceptedAt || compareUtf8(a.reason, b.reason),
      ),
    );
}

/** Computes what would be true after a change of the state, without making it. */
function rehearse<T>(db: Database, change: () => void, compute: () => T): T {
  const undone = new Error('undone');
  let result: { readonly value: T } | undefined;
  try {
    db.transaction(() => {
      change();
      result = { value: compute() };
      throw undone;
    });
  } catch (error) {
    if (error !== undone) throw error;
  }
  return result!.value;
}

const hasSameFindings = (base: Manifest, next: Manifest): boolean =>
  [base, next]
    .map(({ days, lost, accepted, selection, sources, datasets: { coverage, markets } }) =>
      JSON.stringify([days, lost, accepted, selection, sources, coverage.withdrawn, markets.lists]),
    )
    .every((text, _, [first]) => text === first);

/** Counts the rows of the other archive as fetched by this run. */
function countFetched(db: Database, runId: string, results: readonly PartResult[], series: StagedSeries): void {
  const sum = (tallies: PartResult['merged']['tallies']): number =>
    [...tallies.values()].reduce(
      (total, { accepted, duplicates, conflicts }) => total + accepted + duplicates + conflicts,
      0,
    );
  addFetchedTicks(
    db,
    runId,
    results.reduce((total, { merged }) => total + sum(merged.tallies), 0),
  );
  for (const { dataset, tallies } of series.outcomes) addSeriesCounts(db, runId, dataset, { fetched: sum(tallies) });
}

/** Counts rows that are all known. */
function countTaken(db: Database, runId: string, results: readonly PartResult[], series: StagedSeries): void {
  countFetched(db, runId, results, series);
  for (const { merged } of results) for (const tally of merged.tallies.values()) addRunTally(db, runId, tally);
  for (const { dataset, tallies } of series.outcomes)
    for (const tally of tallies.values()) addSeriesTally(db, { runId, ofRun: runId, isBroken: false }, dataset, tally);
}
