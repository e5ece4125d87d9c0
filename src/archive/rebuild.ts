import { join } from 'node:path';
import type { Covered, Origin } from '../core/coverage.ts';
import { ranks } from '../core/merge.ts';
import { joinOld, restoreSegments } from '../state/coverage.ts';
import { noteLost } from '../state/lost.ts';
import { enterStretch } from '../state/standings.ts';
import { manifestHashKey, type State, setMeta } from '../state/state.ts';
import { restoreActivity, restorePolled, restoreSymbol } from '../state/symbols.ts';
import { type Disk, sha256 } from './disk/disk.ts';
import type { Layout } from './layout.ts';
import type { Manifest, PublishedFile } from './manifest.ts';
import { type DatasetName, datasets } from './parquet/datasets.ts';
import { decodeRows, type Value } from './parquet/parquet.ts';

/** A published tree to read from. */
interface Tree {
  readonly manifest: Manifest;
  readonly layout: Layout;
  readonly disk: Disk;
  /** Files that are damaged, as far as they were read. */
  readonly damaged: Set<string>;
}

/**
 * Fills an empty state from the published tree, where `.oddslake/` was lost: coverage, symbols and the generation.
 * What was journaled and not published is gone; the next poll asks for it again, since nothing covers it. Gone too is
 * what no dataset holds: the runs, which keys were contested (coverage's origin and time stand in), and that a symbol
 * was given up on: it is, once more, after as many failures as the first time.
 */
export function rebuildState(state: State, manifest: Manifest, layout: Layout, disk: Disk, settleMs: number): void {
  const tree = { manifest, layout, disk, damaged: new Set<string>() };
  // Read before anything is written: others may be waiting for the state.
  const text = disk.read(layout.manifest);
  const symbols = [...intactRows(tree, 'symbols')];
  const listed = symbols.filter((row) => row[1] !== null && row[5] !== false).map((row) => row[0] as string);
  const coverage = coverageOfTicks(tree, new Set(listed), settleMs);
  const activity = activityOf(tree, new Set(symbols.filter((row) => row[5] === false).map((row) => row[0] as string)));
  const { db } = state;
  db.transaction(() => {
    // Another process may have been quicker.
    if (state.generation() > 0) return;
    for (const row of symbols) restoreSymbol(db, row);
    for (const [symbol, { lastActive, inactiveSince }] of activity)
      restoreActivity(db, symbol, lastActive, inactiveSince);
    for (const [symbol, { stretches, imported, polledFrom }] of coverage) {
      restoreSegments(db, symbol, joinOld(stretches, settleMs));
      restorePolled(db, symbol, stretches[0]!.from, polledFrom);
      for (const { fetchedAt: observedAt, ...window } of imported)
        enterStretch(db, { symbol, ...window, rank: ranks.import, observedAt });
    }
    noteLost(db, manifest.lost ?? [], manifest.created_at);
    setMeta(db, 'generation', String(manifest.generation));
    setMeta(db, manifestHashKey, sha256(text));
  });
}

interface OfSymbol {
  /** Sorted and disjoint. */
  stretches: Covered[];
  /** Those that an import covers, as they are published: none reaches over midnight. */
  readonly imported: Covered[];
  /** Start of the first stretch that a poll had answered; null where none had. */
  polledFrom: number | null;
  /** Whether a hole before the watermark came last, so that what follows lies behind it. */
  isBehindHole: boolean;
  /** The same of the stretch behind the last hole before the watermark; null where no poll answered that one. */
  polledLater: number | null;
}

const newlyHeld = (): OfSymbol => ({
  stretches: [],
  imported: [],
  polledFrom: null,
  isBehindHole: false,
  polledLater: null,
});

/** Stretches of a symbol that are held before old ones are joined: so what is held does not grow with every day. */
const heldMax = 16;

/**
 * What the ticks' coverage says of each symbol. Those that are `listed` are covered up to the watermark without a hole,
 * from their first poll on: a hole before the watermark is older than that poll, as one that broke off leaves it. What
 * follows it has to be a poll's: an import or a backfill may follow a hole that polls still have to close, of a symbol
 * that the watermark did not wait for.
 */
function coverageOfTicks(tree: Tree, listed: ReadonlySet<string>, settleMs: number): Map<string, OfSymbol> {
  const out = new Map<string, OfSymbol>();
  const watermark = tree.manifest.watermark ?? Number.NEGATIVE_INFINITY;
  // Days come in order, and a file is sorted by symbol and time: so each symbol's stretches are sorted.
  for (const row of intactRows(tree, 'coverage')) {
    if (row[0] !== 'ticks') continue;
    const [symbol, from, to, , fetchedAt, origin] = row.slice(1) as [string, number, number, number, number, Origin];
    const held = out.get(symbol) ?? newlyHeld();
    out.set(symbol, held);
    const end = held.stretches.at(-1)?.to ?? from;
    if (end < from && listed.has(symbol)) {
      held.isBehindHole = from <= watermark;
      if (held.isBehindHole) held.polledLater = null;
    }
    held.stretches.push({ from, to, fetchedAt, origin });
    if (origin === 'import') held.imported.push(held.stretches.at(-1)!);
    if (origin === 'poll') held.polledFrom ??= from;
    if (origin === 'poll' && held.isBehindHole) held.polledLater ??= from;
    if (held.stretches.length > heldMax && held.stretches.length % heldMax === 0)
      held.stretches = joinOld(held.stretches, settleMs);
  }
  // What a damaged file covers looks like a hole.
  if (tree.damaged.size > 0) return out;
  for (const held of out.values())
    if (held.stretches.at(-1)!.to >= watermark) held.polledFrom = held.polledLater ?? held.polledFrom;
  return out;
}

interface Activity {
  /** The last poll that showed it active. */
  readonly lastActive: number;
  /** The first poll after that; null where none named it again. */
  readonly inactiveSince: number | null;
}

const seen = datasets.markets.filter(({ name }) => ['symbol', 'is_active', 'first_seen', 'last_seen'].includes(name));

/** When symbols that are inactive now were active last: the market lists of each day tell, the latest day first. */
function activityOf(tree: Tree, inactive: Set<string>): Map<string, Activity> {
  const out = new Map<string, Activity>();
  const since = new Map<string, number>();
  for (const file of tree.manifest.datasets.markets.files.toReversed()) {
    if (out.size === inactive.size) break;
    const rows = rowsOf(tree, file, seen) as [string, boolean | null, number, number][];
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

function* intactRows(tree: Tree, dataset: DatasetName): Generator<Value[]> {
  for (const file of tree.manifest.datasets[dataset].files) yield* rowsOf(tree, file, datasets[dataset]);
}

/** None where the file is damaged: what it said is asked for again, and verify names it. */
function rowsOf(tree: Tree, file: PublishedFile, columns: Parameters<typeof decodeRows>[0]): Value[][] {
  const { layout, disk, damaged } = tree;
  const path = join(layout.root, file.path);
  const bytes = disk.size(path) === null ? null : disk.read(path);
  if (bytes !== null && sha256(bytes) === file.sha256) return decodeRows(columns, bytes);
  damaged.add(file.path);
  return [];
}
