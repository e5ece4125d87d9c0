import { join } from 'node:path';
import { formatDay, parseDayStart } from '../base/time.ts';
import { floorToDay } from '../base/window.ts';
import type { Origin } from '../contract/raw-page.ts';
import { type Disk, sha256 } from './disk/file-system.ts';
import type { CoveredWindow, Evidence } from './format/coverage.ts';
import { type DatasetName, datasets } from './format/datasets.ts';
import type { ArchiveLayout } from './format/layout.ts';
import { hasRows, listManifestFiles, type Manifest, type PublishedFile } from './format/manifest.ts';
import { createUnknownSymbol, type SymbolFacts, symbolFields } from './format/market.ts';
import { precedenceRanks } from './format/precedence.ts';
import { parseManifestSelection, type Selections } from './format/selection.ts';
import { insertCoverage, joinOldCoverage } from './journal/coverage-store.ts';
import { commitIdKey, manifestHashKey, setMeta } from './journal/database.ts';
import { acceptWindows, recordLost } from './journal/gap-records.ts';
import { restoreListings } from './journal/nightly-memory.ts';
import { recordPrecedence } from './journal/precedence-store.ts';
import { recordHashed } from './journal/published-files.ts';
import { recordSelections } from './journal/selection-store.ts';
import type { State } from './journal/state.ts';
import { writeSymbolFacts } from './journal/symbol-store.ts';
import { setTickCounts } from './journal/tick-counts.ts';
import { type CellValue, decodeRows } from './parquet/rows.ts';
import { decodePublished } from './read-published-file.ts';

/** The published files to read the state from. */
interface PublishedTree {
  readonly manifest: Manifest;
  readonly layout: ArchiveLayout;
  readonly disk: Disk;
  /** Damaged files found so far. */
  readonly damaged: Set<string>;
}

/**
 * Rebuilds an empty state database from the published files after `.oddslake/` was lost: coverage, symbols and the
 * generation. Unpublished journal records are lost. The next poll fetches their windows again, because they are not
 * covered. Facts that no dataset has are lost too: the runs, the observation time of each tick (replaced by the origin
 * and time of its coverage), and which symbols are suspended (they are suspended again after the same number of days).
 */
export function rebuildState(state: State, manifest: Manifest, layout: ArchiveLayout, disk: Disk): void {
  // Read before the transaction: other processes may be waiting for the database.
  const text = disk.read(layout.manifestPath);
  const { symbols, coverage, selections } = readPublishedState(manifest, layout, disk);
  const { db } = state;
  db.transaction(() => {
    // Another process may have rebuilt it first.
    if (state.generation() > 0) return;
    for (const facts of symbols) writeSymbolFacts(db, facts);
    setTickCounts(db, symbols, manifest.created_at);
    for (const [symbol, { windows, imported }] of coverage) {
      insertCoverage(db, symbol, joinOldCoverage(windows));
      const importWindows = imported.map(({ from, to, fetchedAt: observedAt }) => ({
        from,
        to,
        observedAt,
        rank: precedenceRanks.import,
      }));
      recordPrecedence(
        db,
        importWindows.map((window) => ({ symbol, ...window })),
      );
    }
    // Every file had been hashed since that time.
    if (typeof manifest.verified_through === 'number')
      recordHashed(db, listManifestFiles(manifest), manifest.verified_through);
    restoreListings(db, manifest);
    recordLost(db, manifest.lost ?? [], manifest.created_at);
    // The user who accepted a window has already seen it reported.
    for (const { accepted_at: acceptedAt, ...window } of manifest.accepted ?? [])
      acceptWindows(db, [{ ...window, acceptedAt, reportedAt: manifest.created_at }]);
    recordSelections(db, selections);
    setMeta(db, 'generation', String(manifest.generation));
    if (manifest.commit_id !== undefined) setMeta(db, commitIdKey, manifest.commit_id);
    setMeta(db, manifestHashKey, sha256(text));
  });
}

/** What published files say of the state. */
export interface PublishedState {
  /** Those of the symbols dataset, and those that only coverage names: they count as first seen at their first request. */
  readonly symbols: readonly SymbolFacts[];
  readonly coverage: ReadonlyMap<string, SymbolCoverage>;
  readonly selections: Selections;
  /** The files that are missing or have another hash; nothing was read of them. */
  readonly damaged: ReadonlySet<string>;
}

export function readPublishedState(manifest: Manifest, layout: ArchiveLayout, disk: Disk): PublishedState {
  const tree = { manifest, layout, disk, damaged: new Set<string>() };
  const rows = [...readIntactRows(tree, 'symbols')];
  const selections = parseManifestSelection(manifest);
  const activity = readActivity(tree, new Set(rows.filter((row) => row[5] === false).map((row) => row[0] as string)));
  const published = rows.map((row) => toSymbolFacts(row, activity.get(row[0] as string)));
  const coverage = readTickCoverage(tree);
  const active = new Set(
    published.filter(({ listed, isActive }) => listed && isActive !== false).map(({ symbol }) => symbol),
  );
  const excepted = new Set([
    ...[...(manifest.lost ?? []), ...(manifest.accepted ?? [])].map(({ symbol }) => symbol),
    ...selections.keys(),
  ]);
  const isCoveredFromStart = createStartCheck(manifest);
  // Collection had passed this point, or no day lacks anything before it, so the upstream had no earlier ticks of the symbol.
  // This does not hold if the symbol has lost or accepted windows, or was not collected for a time: collection did not wait
  // for those.
  const isStartKnown = ([symbol, { coveredFrom }]: [string, SymbolCoverage]): boolean =>
    ((active.has(symbol) && coveredFrom <= (manifest.reached ?? Number.NEGATIVE_INFINITY)) ||
      isCoveredFromStart(symbol, coveredFrom)) &&
    tree.damaged.size === 0 &&
    !excepted.has(symbol);
  const servedFrom = new Map(
    [...coverage].filter(isStartKnown).map(([symbol, { coveredFrom }]) => [symbol, coveredFrom]),
  );
  const named = new Set(published.map(({ symbol }) => symbol));
  const unnamed = [...coverage]
    .filter(([symbol]) => !named.has(symbol))
    .map(([symbol, { coveredFrom }]) => createUnknownSymbol(symbol, coveredFrom));
  const facts = [...published, ...unnamed].map((one) => ({
    ...one,
    polledFrom: coverage.get(one.symbol)?.polledFrom ?? null,
    servedFrom: servedFrom.get(one.symbol) ?? null,
  }));
  return { symbols: facts, coverage, selections, damaged: tree.damaged };
}

function toSymbolFacts(row: readonly CellValue[], activity: SymbolActivity | undefined): SymbolFacts {
  const fields = Object.fromEntries(symbolFields.map((field, i) => [field, row[i]])) as Partial<SymbolFacts>;
  const facts = { ...createUnknownSymbol(row[0] as string, 0), ...fields };
  const isListed = facts.canonicalId !== null;
  const isInactive = facts.isActive === false;
  return {
    ...facts,
    lastActive: isListed && !isInactive ? facts.lastSeen : (activity?.lastActive ?? null),
    inactiveSince: isListed && isInactive ? (activity?.inactiveSince ?? facts.lastSeen) : null,
    listed: isListed,
  };
}

/**
 * Whether the moment before the coverage of a symbol is in a day that was judged, and neither this nor an earlier day lacks the
 * symbol: its lifetime began with its coverage. A day that does not name all that it lacks or excepts may lack any symbol.
 */
function createStartCheck({ days }: Manifest): (symbol: string, coveredFrom: number) => boolean {
  const lackedFrom = new Map<string, number>();
  let unknownFrom = Number.POSITIVE_INFINITY;
  for (const date of Object.keys(days).sort().reverse()) {
    const { missing, expected, covered, exceptions } = days[date]!;
    const day = parseDayStart(date);
    for (const symbol of missing) lackedFrom.set(symbol, day);
    if (missing.length < expected - covered || exceptions > 0) unknownFrom = day;
  }
  return (symbol, coveredFrom) => {
    const before = floorToDay(coveredFrom - 1);
    const isJudged = (days[formatDay(before)]?.state ?? 'empty') !== 'empty';
    return isJudged && before < Math.min(unknownFrom, lackedFrom.get(symbol) ?? unknownFrom);
  };
}

interface SymbolCoverage {
  /** Start of its coverage, epoch ms. */
  readonly coveredFrom: number;
  /** Sorted and disjoint. */
  windows: CoveredWindow[];
  /** Published windows of imports. No window crosses midnight. */
  readonly imported: CoveredWindow[];
  /** Start of the first window that a poll covered; null if none did. */
  polledFrom: number | null;
}

/** A coverage row of the ticks dataset, from its `symbol` column on. */
type TickCoverageRow = [string, number, number, number, number, Origin, Evidence];

/** Windows of a symbol that are buffered before old ones are joined. Bounds memory, however many days there are. */
const bufferedWindowsMax = 16;

function readTickCoverage(tree: PublishedTree): Map<string, SymbolCoverage> {
  const out = new Map<string, SymbolCoverage>();
  // Days are in order and files are sorted by symbol and time, so each symbol's windows are sorted.
  for (const row of readIntactRows(tree, 'coverage')) {
    if (row[0] !== 'ticks') continue;
    const [symbol, from, to, , fetchedAt, origin, evidence] = row.slice(1) as TickCoverageRow;
    const entry: SymbolCoverage = out.get(symbol) ?? { coveredFrom: from, windows: [], imported: [], polledFrom: null };
    out.set(symbol, entry);
    const covered = { from, to, fetchedAt, origin, evidence };
    entry.windows.push(covered);
    if (origin === 'import') entry.imported.push(covered);
    if (origin === 'poll') entry.polledFrom ??= from;
    if (entry.windows.length > bufferedWindowsMax && entry.windows.length % bufferedWindowsMax === 0)
      entry.windows = joinOldCoverage(entry.windows);
  }
  return out;
}

interface SymbolActivity {
  /** The last poll that showed it active. */
  readonly lastActive: number;
  /** The first poll after that; null if none listed it again. */
  readonly inactiveSince: number | null;
}

const activityColumns = datasets.markets.columns.filter(({ name }) =>
  ['symbol', 'is_active', 'first_seen', 'last_seen'].includes(name),
);

/** Finds when the inactive symbols were last active, from the market lists of each day, latest day first. */
function readActivity(tree: PublishedTree, inactive: Set<string>): Map<string, SymbolActivity> {
  const out = new Map<string, SymbolActivity>();
  const since = new Map<string, number>();
  for (const file of tree.manifest.datasets.markets.files.toReversed()) {
    if (out.size === inactive.size) break;
    const rows = readFileRows(tree, file, activityColumns) as [string, boolean | null, number, number][];
    const active = new Map<string, number>();
    for (const [symbol, isActive, , last] of rows)
      if (isActive !== false) active.set(symbol, Math.max(last, active.get(symbol) ?? last));
    for (const [symbol, isActive, first] of rows) {
      if (isActive === false && first > (active.get(symbol) ?? Number.NEGATIVE_INFINITY))
        since.set(symbol, Math.min(first, since.get(symbol) ?? first));
    }
    for (const [symbol, lastActive] of active) {
      if (inactive.has(symbol) && !out.has(symbol))
        out.set(symbol, { lastActive, inactiveSince: since.get(symbol) ?? null });
    }
  }
  return out;
}

function* readIntactRows(tree: PublishedTree, dataset: DatasetName): Generator<CellValue[]> {
  const columns = datasets[dataset].columns;
  for (const file of tree.manifest.datasets[dataset].files) yield* readFileRows(tree, file, columns);
}

/** The rows of a file; none if it is damaged. Its contents are then fetched again, and `verify` reports the file. */
function readFileRows(
  tree: PublishedTree,
  file: PublishedFile,
  columns: Parameters<typeof decodeRows>[0],
): CellValue[][] {
  // Nothing is lost with a file without rows, whether or not it is damaged.
  if (!hasRows(file)) return [];
  const { layout, disk, damaged } = tree;
  const path = join(layout.root, file.path);
  const bytes = disk.size(path) === null ? null : disk.read(path);
  if (bytes !== null && sha256(bytes) === file.sha256)
    return decodePublished(file.path, () => decodeRows(columns, bytes));
  damaged.add(file.path);
  return [];
}
