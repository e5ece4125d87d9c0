import { join } from 'node:path';
import type { Clock } from '../../base/ports.ts';
import { formatDay } from '../../base/time.ts';
import type { CompletenessCounts } from '../../contract/completeness-counts.ts';
import { type CompletenessRules, computeCompleteness } from '../completeness/completeness.ts';
import { sha256 } from '../disk/file-system.ts';
import { type DatasetName, datasets } from '../format/datasets.ts';
import { symbolsPath } from '../format/layout.ts';
import {
  findManifestFile,
  formatVersion,
  type Manifest,
  type PublishedFile,
  toManifestAccepted,
  toManifestLost,
} from '../format/manifest.ts';
import type { SymbolFacts } from '../format/market.ts';
import { computeVerifiedThrough } from '../format/verified-through.ts';
import { readAcceptedWindows } from '../journal/gap-records.ts';
import {
  type CommitState,
  type FileMove,
  isLastCommit,
  readCommitState,
  readOpenIntent,
  SupersededError,
} from '../journal/intent.ts';
import {
  type FileDamage,
  readHashTimes,
  readRecordedDamage,
  recordHashed,
  recordRowGroups,
} from '../journal/published-files.ts';
import {
  computeStateAfterCommit,
  listDaysToJudge,
  readCurrentState,
  readKnownWindow,
  type StateAfterCommit,
} from '../known-state.ts';
import { type Archive, readFileNow } from '../open-archive.ts';
import { createRowKeyReader, type FileRecord } from '../parquet/row-group-index.ts';
import { type CellValue, encodeRows } from '../parquet/rows.ts';
import { createEncodedFile, type EncodedFile, type FileStatistics } from './encode-partition.ts';

/** What a publish has written under .oddslake/staging and where it shall go. Nothing of it counts before the commit. */
export interface Stage {
  readonly generation: number;
  /** Of the commit that it is for. Its files are in a folder of that name, which no other publish writes to. */
  readonly commitId: string;
  /** The commit that it is built on, */
  readonly builtOn: CommitState;
  /** and its manifest. */
  readonly base: Manifest;
  readonly moves: FileMove[];
  /** The files of the next manifest that differ from the base, by path. */
  readonly stagedFiles: Map<string, { readonly dataset: DatasetName; readonly file: PublishedFile }>;
  /** Files of the base that the next manifest names no more, by path. */
  readonly removedPaths: Set<string>;
  /** What the staged files are made of. */
  readonly fileRecords: FileRecord[];
  /** Files of the base that were made again, hashed and found the same. */
  readonly unchangedFiles: PublishedFile[];
}

/**
 * Starts a stage; what a broken publish left staged goes, since it never counted. Holder of the write lock only.
 * @param builtOn read before `base`: where a publish came in between, the commit is refused
 */
export function startStage(archive: Archive, base: Manifest, builtOn: CommitState): Stage {
  removeStaging(archive);
  const commitId = archive.createCommitId();
  return {
    generation: base.generation + 1,
    commitId,
    builtOn,
    base,
    moves: [],
    stagedFiles: new Map(),
    removedPaths: new Set(),
    fileRecords: [],
    unchangedFiles: [],
  };
}

/**
 * Removes what is staged, unless a committed publish still needs its files. In a transaction, so that none is committed
 * meanwhile: one that finds its files gone does not commit.
 */
export function removeStaging({ disk, layout, state }: Archive): void {
  if (disk.size(layout.stagingFolder) === null) return;
  state.db.transaction(() => {
    if (readOpenIntent(state.db) !== undefined) return;
    try {
      disk.remove(layout.stagingFolder);
    } catch (error) {
      // A publisher that has lost its lock still writes there: the next one removes it.
      if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY') throw error;
    }
  });
}

/** Whether a publish failed since another one came in between, which only the loss of a lock allows. */
export function isSuperseded({ layout, state }: Archive, { builtOn, commitId }: Stage, error: unknown): boolean {
  if (error instanceof SupersededError) return true;
  const { code, path } = error as NodeJS.ErrnoException;
  // Only another publish removes what is staged.
  if (code === 'ENOENT' && path?.startsWith(layout.stagingFolder) === true) return true;
  // After its own commit it fails by itself.
  return readCommitState(state.db).commitId !== commitId && !isLastCommit(state.db, builtOn);
}

/** Stages a file of a dataset; one whose bytes are published already, and still intact, is left as it is. */
export function stageFile(archive: Archive, stage: Stage, { dataset, bytes, statistics, record }: EncodedFile): void {
  const { path, sha256: hash } = record;
  const before = findManifestFile(stage.base, dataset, path);
  if (before?.sha256 === hash && isPublishedIntact(archive, path, hash)) {
    stage.unchangedFiles.push(before);
    return;
  }
  stageBytes(archive, stage, path, bytes);
  stage.fileRecords.push(record);
  const file = { path, ...statistics, bytes: bytes.length, sha256: hash, generation: stage.generation };
  stage.stagedFiles.set(path, { dataset, file: orderManifestFields(file) });
}

/** Candles and symbols are never read before they are made anew: what became of them meanwhile is seen only here. */
function isPublishedIntact(archive: Archive, path: string, hash: string): boolean {
  const bytes = readFileNow(archive, path);
  return bytes !== null && sha256(bytes) === hash;
}

/** Notes what the files of a stage are made of, and that they are as published now; in the commit's transaction. */
export function recordStagedFiles({ state }: Archive, stage: Stage, nowMs: number): void {
  recordRowGroups(state.db, stage.fileRecords);
  recordHashed(state.db, [...stage.fileRecords, ...stage.unchangedFiles], nowMs);
}

/** Takes a file out of the next manifest: the commit removes it. */
export function stageRemoval(stage: Stage, path: string): void {
  stage.moves.push({ from: null, to: path });
  stage.removedPaths.add(path);
}

/** Stages bytes for a path, those of a file that no manifest names or that it names already; gives back where they are. */
export function stageBytes(
  archive: Archive,
  stage: Stage,
  path: string,
  bytes: Uint8Array | Iterable<Uint8Array>,
): string {
  const from = `.oddslake/staging/${stage.generation}/${stage.commitId}/${path}`;
  const target = join(archive.layout.root, from);
  archive.disk.makeFolder(join(target, '..'));
  archive.disk.write(target, bytes);
  stage.moves.push({ from, to: path });
  return target;
}

const orderManifestFields = (f: PublishedFile): PublishedFile => ({
  path: f.path,
  date: f.date,
  rows: f.rows,
  bytes: f.bytes,
  sha256: f.sha256,
  t_min: f.t_min,
  t_max: f.t_max,
  symbols: f.symbols,
  generation: f.generation,
});

/** What the next manifest says of files that are no more: nothing where there are none. One that is back counts no more. */
export function listRemovedFiles({ base, generation, removedPaths, stagedFiles }: Stage): Pick<Manifest, 'removed'> {
  const before = (base.removed ?? []).filter(({ path }) => !stagedFiles.has(path) && !removedPaths.has(path));
  const removed = [...before, ...[...removedPaths].map((path) => ({ path, generation }))];
  return removed.length === 0 ? {} : { removed };
}

/** The base manifest with the staged files in it; each dataset's files sorted by path. */
export function listNextFiles(stage: Stage): Manifest['datasets'] {
  const out = {} as Record<DatasetName, { files: PublishedFile[] }>;
  for (const [dataset, { files }] of Object.entries(stage.base.datasets)) {
    const byPath = new Map(files.map((file) => [file.path, file]));
    for (const path of stage.removedPaths) byPath.delete(path);
    for (const [path, staged] of stage.stagedFiles) if (staged.dataset === dataset) byPath.set(path, staged.file);
    out[dataset as DatasetName] = { files: [...byPath.values()].sort((a, b) => (a.path < b.path ? -1 : 1)) };
  }
  return out;
}

// What each new generation has, whether it takes in what is journaled or lacks what is lost.

/** Stages the dataset of symbols; none where no symbol is known. */
export function stageSymbols(archive: Archive, stage: Stage, symbols: readonly SymbolFacts[]): void {
  if (symbols.length === 0) return;
  const rows = symbols.map((s): CellValue[] => [
    s.symbol,
    s.canonicalId,
    s.source,
    s.question,
    s.category,
    s.isActive,
    s.opensAt,
    s.closesAt,
    s.resolvedAt,
    s.outcome,
    s.firstSeen,
    s.lastSeen,
    s.firstTick,
    s.lastTick,
    s.ticks,
  ]);
  const facts: FileStatistics = {
    date: null,
    rows: rows.length,
    t_min: symbols.reduce((min, s) => Math.min(min, s.firstSeen), Number.POSITIVE_INFINITY),
    t_max: symbols.reduce((max, s) => Math.max(max, s.lastSeen), Number.NEGATIVE_INFINITY),
    symbols: rows.length,
  };
  const bytes = encodeRows(datasets.symbols, rows, archive.groupRows);
  stageFile(
    archive,
    stage,
    createEncodedFile('symbols', symbolsPath, bytes, facts, createRowKeyReader('symbols', rows)),
  );
}

/** By what a generation is judged, and when. */
export interface JudgeContext extends CompletenessRules {
  readonly clock: Clock;
}

/**
 * Whether the last generation says something else of gaps, suspension, lists or damage than is so by now, though nothing came to
 * be published: symbols that failed, a file that was found damaged or mended.
 */
export function isPublishedVerdictOutdated(archive: Archive, base: Manifest, by: JudgeContext): boolean {
  if (base.verdict === undefined) return false;
  const { db } = archive.state;
  const nowMs = by.clock.nowMs();
  const window = readKnownWindow(db, nowMs);
  const { counts } = computeCompleteness(readCurrentState(archive, by, nowMs), { window, isEndOpen: true });
  const told = ({ gaps, suspended, listed, damaged }: CompletenessCounts): string =>
    JSON.stringify([gaps, suspended, listed, damaged]);
  return told(base.verdict) !== told(counts);
}

/**
 * The manifest of a stage.
 * @param damage what of the published files is known not to be as published, once the stage is committed
 */
export function createNextManifest(
  archive: Archive,
  stage: Stage,
  after: StateAfterCommit,
  by: JudgeContext,
  damage: readonly FileDamage[] = readRecordedDamage(archive.state.db),
): Manifest {
  const files = listNextFiles(stage);
  const nowMs = by.clock.nowMs();
  const { db, identity } = archive.state;
  const state = computeStateAfterCommit(db, identity.parts, after, by, nowMs, damage);
  const dates = [...files.ticks.files, ...files.coverage.files].map((file) => file.date!);
  const found = computeCompleteness(state, {
    days: listDaysToJudge(dates, state),
    window: readKnownWindow(db, nowMs),
    isEndOpen: true,
  });
  return {
    format_version: formatVersion,
    generation: stage.generation,
    created_at: nowMs,
    writer: archive.writer,
    upstream: identity.upstream,
    parts: identity.parts,
    previous_sha256: stage.base.generation === 0 ? null : sha256(Buffer.from(archive.readManifestText())),
    watermark: found.watermark,
    reached: found.reached,
    verified_through: computeManifestVerifiedThrough(archive, stage, files, nowMs),
    commit_id: stage.commitId,
    days: Object.fromEntries([...found.days].map(([day, state]) => [formatDay(day), state])),
    verdict: found.counts,
    datasets: files,
    ...toManifestLost(after.lost),
    ...toManifestAccepted(readAcceptedWindows(db)),
    ...listRemovedFiles(stage),
  };
}

/** Since when every byte of the next generation has been hashed, epoch ms. */
function computeManifestVerifiedThrough(
  { state }: Archive,
  stage: Stage,
  files: Manifest['datasets'],
  nowMs: number,
): number | null {
  const hashedAt = readHashTimes(state.db);
  const now = new Set([...stage.stagedFiles.keys(), ...stage.unchangedFiles.map(({ path }) => path)]);
  const all = Object.values(files).flatMap((dataset) => dataset.files);
  return computeVerifiedThrough(
    all.map((file) => ({ bytes: file.bytes, hashedAt: now.has(file.path) ? nowMs : hashedAt(file) })),
  );
}

/** The moves of a stage in the order in which files change: whoever reads coverage finds the ticks that it speaks of. */
export const sortMoves = ({ moves }: Stage): FileMove[] =>
  [...moves].sort((a, b) => toMoveOrder(a.to) - toMoveOrder(b.to));

const toMoveOrder = (path: string): number => (path.startsWith('ticks/') ? 0 : path.startsWith('coverage/') ? 2 : 1);
