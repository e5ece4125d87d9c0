import { join } from 'node:path';
import { parseDayStart } from '../base/time.ts';
import { dayMs, floorToDay } from '../base/window.ts';
import type { Origin } from '../contract/raw-page.ts';
import { type Disk, sha256 } from './disk/file-system.ts';
import type { CoveredWindow, Evidence } from './format/coverage.ts';
import { type DatasetName, datasets, readCoverageColumns } from './format/datasets.ts';
import type { ArchiveLayout } from './format/layout.ts';
import { listManifestFiles, type Manifest, type PublishedFile } from './format/manifest.ts';
import { precedenceRanks } from './format/precedence.ts';
import { joinOldSegments, restoreSegments } from './journal/coverage.ts';
import { commitIdKey, evidenceSinceKey, manifestHashKey, setMeta } from './journal/database.ts';
import { acceptWindow, recordLost } from './journal/gap-records.ts';
import { restoreListings } from './journal/nightly-memory.ts';
import { recordPrecedence } from './journal/precedence.ts';
import { recordHashed } from './journal/published-files.ts';
import type { State } from './journal/state.ts';
import { recordServedFrom, restoreActivity, restorePolledFrom, restoreSymbol } from './journal/symbols.ts';
import { type CellValue, decodeRows } from './parquet/rows.ts';

/** A published tree to read from. */
interface PublishedTree {
  readonly manifest: Manifest;
  readonly layout: ArchiveLayout;
  readonly disk: Disk;
  /** Files that are damaged, as far as they were read. */
  readonly damaged: Set<string>;
}

/**
 * Fills an empty state from the published tree, where `.oddslake/` was lost: coverage, symbols and the generation.
 * What was journaled and not published is gone; the next poll asks for it again, since nothing covers it. Gone too is
 * what no dataset holds: the runs, when each tick was observed (coverage's origin and time stand in), and that a symbol
 * is suspended: it is, once more, after as many days as the first time.
 */
export function rebuildState(
  state: State,
  manifest: Manifest,
  layout: ArchiveLayout,
  disk: Disk,
  settleMs: number,
): void {
  const tree = { manifest, layout, disk, damaged: new Set<string>() };
  // Read before anything is written: others may be waiting for the state.
  const text = disk.read(layout.manifestPath);
  const symbols = [...readIntactRows(tree, 'symbols')];
  const active = new Set(symbols.filter((row) => row[1] !== null && row[5] !== false).map((row) => row[0] as string));
  const excepted = new Set([...(manifest.lost ?? []), ...(manifest.accepted ?? [])].map(({ symbol }) => symbol));
  const coverage = readTickCoverage(tree, settleMs);
  const activity = readActivity(
    tree,
    new Set(symbols.filter((row) => row[5] === false).map((row) => row[0] as string)),
  );
  const { db } = state;
  db.transaction(() => {
    // Another process may have been quicker.
    if (state.generation() > 0) return;
    for (const row of symbols) restoreSymbol(db, row);
    for (const [symbol, { lastActive, inactiveSince }] of activity)
      restoreActivity(db, symbol, lastActive, inactiveSince);
    for (const [symbol, { coveredFrom, windows, imported, polledFrom }] of coverage) {
      restoreSegments(db, symbol, joinOldSegments(windows, settleMs));
      restorePolledFrom(db, symbol, coveredFrom, polledFrom);
      // Collecting had come beyond it: its lifetime began no earlier, as far back as the service went. Where windows are
      // excepted nobody waited for them.
      const isReached = coveredFrom <= (manifest.reached ?? Number.NEGATIVE_INFINITY) && !excepted.has(symbol);
      if (active.has(symbol) && tree.damaged.size === 0 && isReached) recordServedFrom(db, symbol, coveredFrom);
      const noted = imported.map(({ from, to, fetchedAt: observedAt }) => ({
        from,
        to,
        observedAt,
        rank: precedenceRanks.import,
      }));
      recordPrecedence(
        db,
        noted.map((window) => ({ symbol, ...window })),
      );
    }
    // All of them had been hashed since then.
    if (typeof manifest.verified_through === 'number')
      recordHashed(db, listManifestFiles(manifest), manifest.verified_through);
    const complete = Object.entries(manifest.days).filter(([, day]) => day.state === 'complete');
    restoreListings(
      db,
      complete.map(([date]) => parseDayStart(date)),
    );
    recordLost(db, manifest.lost ?? [], manifest.created_at);
    // Whoever accepted one was told of it.
    for (const { accepted_at: acceptedAt, ...window } of manifest.accepted ?? [])
      acceptWindow(db, { ...window, acceptedAt, reportedAt: manifest.created_at });
    setMeta(db, 'generation', String(manifest.generation));
    setMeta(db, evidenceSinceKey, String(manifest.created_at));
    if (manifest.commit_id !== undefined) setMeta(db, commitIdKey, manifest.commit_id);
    setMeta(db, manifestHashKey, sha256(text));
  });
}

interface SymbolCoverage {
  /** Where what is covered of it starts. */
  readonly coveredFrom: number;
  /** Sorted and disjoint. */
  windows: CoveredWindow[];
  /** Those that an import covers, as they are published: none reaches over midnight. */
  readonly imported: CoveredWindow[];
  /** Start of the first stretch that a poll had answered; null where none had. */
  polledFrom: number | null;
}

/** A row of ticks' coverage from `symbol` on. */
type TickCoverageRow = [string, number, number, number, number, Origin, Evidence];

/** Stretches of a symbol that are held before old ones are joined: so what is held does not grow with every day. */
const bufferedWindowsMax = 16;

/** What the ticks' coverage says of each symbol. */
function readTickCoverage(tree: PublishedTree, settleMs: number): Map<string, SymbolCoverage> {
  const out = new Map<string, SymbolCoverage>();
  const settledAt = createSettledTimeLookup(tree.manifest, settleMs);
  // Days come in order, and a file is sorted by symbol and time: so each symbol's stretches are sorted.
  for (const row of readIntactRows(tree, 'coverage')) {
    if (row[0] !== 'ticks') continue;
    const [symbol, from, to, , fetchedAt, origin, evidence] = row.slice(1) as TickCoverageRow;
    const held: SymbolCoverage = out.get(symbol) ?? { coveredFrom: from, windows: [], imported: [], polledFrom: null };
    out.set(symbol, held);
    const { proven, inferred } = settledAt(symbol, from);
    const covered = {
      from,
      to,
      fetchedAt: Math.max(fetchedAt, Math.min(to + settleMs, evidence === 'inferred' ? inferred : proven)),
      origin,
      evidence,
    };
    held.windows.push(covered);
    // A day that is provisional had settled by inferred windows as well, which proven ones hide in what is published.
    const settledAtLeast = Math.min(to + settleMs, inferred);
    if (evidence !== 'inferred' && settledAtLeast > covered.fetchedAt)
      held.windows.push({ ...covered, fetchedAt: settledAtLeast, evidence: 'inferred' });
    if (origin === 'import') held.imported.push(covered);
    if (origin === 'poll') held.polledFrom ??= from;
    if (held.windows.length > bufferedWindowsMax && held.windows.length % bufferedWindowsMax === 0)
      held.windows = joinOldSegments(held.windows, settleMs);
  }
  return out;
}

/**
 * By when at least a symbol's windows of a day were answered. Rows that were joined have the earliest `fetched_at` of all;
 * that a day had settled is known by its state, of each symbol that the manifest does not name as missing.
 */
function createSettledTimeLookup(
  { days }: Manifest,
  settleMs: number,
): (symbol: string, t: number) => { readonly proven: number; readonly inferred: number } {
  const missingOf = new Map<number, ReadonlySet<string> | null>();
  for (const [date, { state, expected, covered, missing }] of Object.entries(days)) {
    const isNamed = missing.length === expected - covered;
    missingOf.set(
      parseDayStart(date),
      state !== 'incomplete' && state !== 'empty' && isNamed ? new Set(missing) : null,
    );
  }
  const provenDays = new Set(
    Object.entries(days).flatMap(([date, { state }]) => (state === 'complete' ? [parseDayStart(date)] : [])),
  );
  return (symbol, t) => {
    const day = floorToDay(t);
    const missing = missingOf.get(day);
    if (!missing || missing.has(symbol))
      return { proven: Number.NEGATIVE_INFINITY, inferred: Number.NEGATIVE_INFINITY };
    const at = day + dayMs + settleMs;
    return { proven: provenDays.has(day) ? at : Number.NEGATIVE_INFINITY, inferred: at };
  };
}

interface SymbolActivity {
  /** The last poll that showed it active. */
  readonly lastActive: number;
  /** The first poll after that; null where none named it again. */
  readonly inactiveSince: number | null;
}

const activityColumns = datasets.markets.filter(({ name }) =>
  ['symbol', 'is_active', 'first_seen', 'last_seen'].includes(name),
);

/** When symbols that are inactive now were active last: the market lists of each day tell, the latest day first. */
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
  const columns = dataset === 'coverage' ? readCoverageColumns : datasets[dataset];
  for (const file of tree.manifest.datasets[dataset].files) yield* readFileRows(tree, file, columns);
}

/** None where the file is damaged: what it said is asked for again, and verify names it. */
function readFileRows(
  tree: PublishedTree,
  file: PublishedFile,
  columns: Parameters<typeof decodeRows>[0],
): CellValue[][] {
  const { layout, disk, damaged } = tree;
  const path = join(layout.root, file.path);
  const bytes = disk.size(path) === null ? null : disk.read(path);
  if (bytes !== null && sha256(bytes) === file.sha256) return decodeRows(columns, bytes);
  damaged.add(file.path);
  return [];
}
