import { basename, dirname, join } from 'node:path';
import type { Clock } from '../../base/ports.ts';
import { formatDay } from '../../base/time.ts';
import type { CompletenessCounts } from '../../contract/completeness-counts.ts';
import type { Archive } from '../archive.ts';
import { type CompletenessRules, computeCompleteness } from '../completeness/completeness.ts';
import type { BackgroundWrites } from '../disk/background-writes.ts';
import { sha256 } from '../disk/file-system.ts';
import type { DatasetName } from '../format/datasets.ts';
import { createPartLookup, type DayPartLookup } from '../format/day-parts.ts';
import { parseDatasetName, privateFolderName } from '../format/layout.ts';
import {
  findFileWithRows,
  findManifestFile,
  formatVersion,
  listFilesWithRows,
  type Manifest,
  type PublishedFile,
  toManifestAccepted,
  toManifestLost,
  toManifestOwner,
} from '../format/manifest.ts';
import { toManifestSelection } from '../format/selection.ts';
import type { PublishedWithdrawal } from '../format/withdrawals.ts';
import { getMeta, manifestHashKey } from '../journal/database.ts';
import { readAcceptedWindows } from '../journal/gap-records.ts';
import {
  type CommitState,
  type FileMove,
  isLastCommit,
  readCommitState,
  readOpenIntent,
  SupersededError,
} from '../journal/intent.ts';
import { toManifestLists } from '../journal/nightly-memory.ts';
import {
  computeVerifiedThrough,
  type FileDamage,
  readHashTimes,
  readRecordedDamage,
  recordHashed,
  recordRowGroups,
} from '../journal/published-files.ts';
import { readSelections } from '../journal/selection-store.ts';
import {
  computeStateAfterCommit,
  listDaysToJudge,
  readCurrentState,
  readKnownWindow,
  type StateAfterCommit,
} from '../known-state.ts';
import type { FileRecord } from '../parquet/row-group-index.ts';
import { readFileNow, readPublishedFile } from '../read-published-file.ts';
import type { EncodedFile } from './encode-partition.ts';

/** Files that a publish has written to .oddslake/staging, and their destinations. They take effect with the commit. */
export interface Stage {
  /** The manifest that the stage is built on. */
  readonly base: Manifest;
  /** The parts of days: those of the base, until the stage has chosen those of its input. */
  parts: DayPartLookup;
  /** The files that are being synced. Null: each file is synced before the next one is staged. */
  readonly writes: BackgroundWrites | null;
  /** Whether `finishWrites` has waited for all of `writes`. */
  isDurable: boolean;
  readonly generation: number;
  /** ID of the commit. The staged files are in a folder of this name, which no other publish writes to. */
  readonly commitId: string;
  /** The commit that the stage is built on. */
  readonly builtOn: CommitState;
  readonly moves: FileMove[];
  /** The files of the next manifest that differ from the base, by path. */
  readonly stagedFiles: Map<string, { readonly dataset: DatasetName; readonly file: PublishedFile }>;
  /** Paths of base files that the next manifest no longer lists. */
  readonly removedPaths: Set<string>;
  /** Row group records of the staged files. */
  readonly fileRecords: FileRecord[];
  /** Base files that were encoded again with the same hash. */
  readonly unchangedFiles: PublishedFile[];
}

/**
 * Starts a stage, and removes staged files of an interrupted publish that did not commit. Requires the write lock.
 * @param builtOn must be read before `base`, so that the commit fails if another publish came in between
 * @param writes set to sync the files in the background; `finishWrites` has to be called before the commit
 * @param resumed the name of the stage, whose files of an interrupted run stay: see `reuseStaged`
 */
export function startStage(
  archive: Archive,
  base: Manifest,
  builtOn: CommitState,
  writes: BackgroundWrites | null = null,
  resumed?: string,
): Stage {
  removeStaging(archive, resumed);
  const commitId = resumed ?? archive.createCommitId();
  return {
    writes,
    isDurable: false,
    generation: base.generation + 1,
    commitId,
    builtOn,
    base,
    parts: createPartLookup(base),
    moves: [],
    stagedFiles: new Map(),
    removedPaths: new Set(),
    fileRecords: [],
    unchangedFiles: [],
  };
}

/**
 * Removes staged files unless a committed publish still needs them. Runs in a transaction, so that no publish commits
 * meanwhile; a publish whose staged files are gone does not commit.
 * @param spared name of a stage whose files stay
 */
export function removeStaging({ disk, layout, state }: Archive, spared?: string): void {
  if (disk.size(layout.stagingFolder) === null) return;
  const listFolders = (folder: string): string[] => disk.list(folder).map((name) => join(folder, name));
  state.db.transaction(() => {
    if (readOpenIntent(state.db) !== undefined) return;
    try {
      if (spared === undefined) return disk.remove(layout.stagingFolder);
      for (const stage of listFolders(layout.stagingFolder).flatMap(listFolders))
        if (basename(stage) !== spared) disk.remove(stage);
    } catch (error) {
      // A publisher that lost its lock is still writing there; the next stage removes its files.
      if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY') throw error;
    }
  });
}

/** Whether a publish failed because another one committed first. This can happen only after a loss of the lock. */
export function isSuperseded({ layout, state }: Archive, { builtOn, commitId }: Stage, error: unknown): boolean {
  if (error instanceof SupersededError) return true;
  const { code, path } = error as NodeJS.ErrnoException;
  // Only another publish removes staged files.
  if (code === 'ENOENT' && path?.startsWith(layout.stagingFolder) === true) return true;
  // A failure after this publish's own commit has another cause.
  return readCommitState(state.db).commitId !== commitId && !isLastCommit(state.db, builtOn);
}

/** Stages a file of a dataset, unless the same bytes are already published and intact. */
export function stageFile(archive: Archive, stage: Stage, { dataset, bytes, statistics, record }: EncodedFile): void {
  const { path, sha256: hash } = record;
  cancelRemoval(stage, path);
  const before = findManifestFile(stage.base, dataset, path);
  if (before?.sha256 === hash && isPublishedIntact(archive, path, hash)) {
    stage.unchangedFiles.push(before);
    return;
  }
  stageBytes(archive, stage, path, bytes);
  stage.fileRecords.push(record);
  const { date, rows, ...others } = statistics;
  const { generation } = stage;
  // In the order of the manifest.
  const file = { path, date, rows, bytes: bytes.length, sha256: hash, ...others, generation };
  stage.stagedFiles.set(path, { dataset, file });
}

/**
 * Whether the published file has this hash. Candles and symbols are rebuilt without being read, so only this detects
 * damage.
 */
function isPublishedIntact(archive: Archive, path: string, hash: string): boolean {
  const bytes = readFileNow(archive, path);
  return bytes !== null && sha256(bytes) === hash;
}

/** Records the row groups and the hash time of the staged files. Runs in the commit's transaction. */
export function recordStagedFiles({ state }: Archive, stage: Stage, nowMs: number): void {
  recordRowGroups(state.db, stage.fileRecords);
  recordHashed(state.db, [...stage.fileRecords, ...stage.unchangedFiles], nowMs);
}

/** Drops a file from the next manifest. The commit removes it. */
export function stageRemoval(stage: Stage, path: string): void {
  stage.moves.push({ from: null, to: path });
  stage.removedPaths.add(path);
}

/**
 * Undoes `stageRemoval` for a path that is staged after it. With both moves, a commit that is finished after a crash could
 * remove the new file.
 */
function cancelRemoval({ moves, removedPaths }: Stage, path: string): void {
  removedPaths.delete(path);
  for (let i = moves.length - 1; i >= 0; i--) if (moves[i]!.to === path && moves[i]!.from === null) moves.splice(i, 1);
}

/** Stages bytes for a path without changing the next manifest. Returns the absolute path of the staged file. */
export function stageBytes(
  archive: Archive,
  stage: Stage,
  path: string,
  bytes: Uint8Array | Iterable<Uint8Array>,
  stagedAs = path,
): string {
  const from = toStagedPath(stage, stagedAs);
  const target = join(archive.layout.root, from);
  if (stage.writes === null) {
    archive.disk.makeFolder(dirname(target));
    archive.disk.write(target, bytes);
  } else {
    archive.disk.makeVolatileFolder(dirname(target));
    stage.writes.add(archive.disk.writeInBackground(target, bytes));
    stage.isDurable = false;
  }
  stage.moves.push({ from, to: path });
  return target;
}

/** Stages a file that an interrupted run of a resumed stage has left whole. Returns its path; null if there is none. */
export function reuseStaged(
  { disk, layout }: Archive,
  stage: Stage,
  file: PublishedFile,
  stagedAs: string,
): string | null {
  const from = toStagedPath(stage, stagedAs);
  const target = join(layout.root, from);
  if (disk.size(target) !== file.bytes || sha256(disk.read(target)) !== file.sha256) return null;
  stage.moves.push({ from, to: file.path });
  return target;
}

/**
 * Waits until the staged files and their names are durable. Without it, those that are synced in the background cannot be
 * committed.
 */
export async function finishWrites({ disk, layout }: Archive, stage: Stage): Promise<void> {
  const { writes, moves } = stage;
  if (writes === null) return;
  const folders = new Set<string>();
  for (const { from } of moves) {
    // These folders were created without a sync.
    for (let path = from === null ? '.' : dirname(from); path !== '.'; path = dirname(path)) folders.add(path);
  }
  for (const folder of folders) writes.add(disk.syncFolderInBackground(join(layout.root, folder)));
  await writes.wait(0);
  stage.isDurable = true;
}

/** The path under which a file is staged, relative to the root. */
const toStagedPath = ({ generation, commitId }: Stage, path: string): string =>
  `${privateFolderName}/staging/${generation}/${commitId}/${path}`;

/**
 * Reads a file of the next generation: the staged one, or the published one that stays. Undefined if there is none, or if
 * it has no rows.
 * @throws DamageError if the published file is missing or differs
 */
export function readNextFile(
  archive: Archive,
  stage: Stage,
  dataset: DatasetName,
  path: string,
): Uint8Array | undefined {
  if (stage.stagedFiles.has(path)) return archive.disk.read(join(archive.layout.root, toStagedPath(stage, path)));
  const file = stage.removedPaths.has(path) ? undefined : findFileWithRows(stage.base, dataset, path);
  return file === undefined ? undefined : readPublishedFile(archive, file);
}

/** The `removed` list of the next manifest, without files that exist again; no field if it is empty. */
function listRemovedFiles({ base, generation, removedPaths, stagedFiles }: Stage): Pick<Manifest, 'removed'> {
  const before = (base.removed ?? []).filter(({ path }) => !stagedFiles.has(path) && !removedPaths.has(path));
  const removed = [...before, ...[...removedPaths].map((path) => ({ path, generation }))];
  return removed.length === 0 ? {} : { removed };
}

/** The files of the base manifest with the staged changes applied, sorted by path within each dataset. */
export function listNextFiles(
  stage: Stage,
  withdrawn: readonly PublishedWithdrawal[] = stage.base.datasets.coverage.withdrawn ?? [],
): Manifest['datasets'] {
  const out = {} as Record<DatasetName, { files: readonly PublishedFile[] }>;
  const changed = new Set([...stage.stagedFiles.values()].map((staged) => staged.dataset));
  for (const path of stage.removedPaths) changed.add(parseDatasetName(path));
  for (const [dataset, { files }] of Object.entries(stage.base.datasets)) {
    if (!changed.has(dataset as DatasetName) && files.every((file, i) => i === 0 || files[i - 1]!.path < file.path)) {
      out[dataset as DatasetName] = { files };
      continue;
    }
    const byPath = new Map(files.map((file) => [file.path, file]));
    for (const path of stage.removedPaths) byPath.delete(path);
    for (const [path, staged] of stage.stagedFiles) if (staged.dataset === dataset) byPath.set(path, staged.file);
    out[dataset as DatasetName] = { files: [...byPath.values()].sort((a, b) => (a.path < b.path ? -1 : 1)) };
  }
  return withdrawn.length === 0 ? out : { ...out, coverage: { ...out.coverage, withdrawn } };
}

// Parts of every new generation, whether a publish or a repair creates it.

/** The rules and the clock for judging a generation. */
export interface JudgeContext extends CompletenessRules {
  readonly clock: Clock;
}

/**
 * Whether the published completeness is out of date in gaps, suspension, selection, market lists or damage,
 * although there is nothing to publish: symbols failed, or a file was found damaged or was repaired.
 */
export function isPublishedCompletenessOutdated(archive: Archive, base: Manifest, rules: JudgeContext): boolean {
  if (base.completeness === undefined) return false;
  const { db } = archive.state;
  const nowMs = rules.clock.nowMs();
  const window = readKnownWindow(db, nowMs);
  const { counts } = computeCompleteness(readCurrentState(archive, rules, nowMs), { window, isEndOpen: true });
  const toComparable = ({
    gaps,
    suspended,
    excluded,
    forgotten,
    lists_complete,
    damaged,
  }: CompletenessCounts): string => JSON.stringify([gaps, suspended, excluded, forgotten, lists_complete, damaged]);
  const { selection } = toManifestSelection(readSelections(db));
  return (
    toComparable(base.completeness) !== toComparable(counts) ||
    JSON.stringify(base.selection) !== JSON.stringify(selection)
  );
}

/**
 * Creates the manifest of a stage.
 * @param damage known file damage after the commit
 */
export function createNextManifest(
  archive: Archive,
  stage: Stage,
  after: StateAfterCommit,
  rules: JudgeContext,
  damage: readonly FileDamage[] = readRecordedDamage(archive.state.db),
): Manifest {
  const files = listNextFiles(stage, after.withdrawn);
  const nowMs = rules.clock.nowMs();
  const { db, identity } = archive.state;
  const state = computeStateAfterCommit(db, { datasets: files }, identity, after, rules, nowMs, damage);
  const rowFiles = (['ticks', 'coverage'] as const).flatMap((name) => listFilesWithRows({ datasets: files }, name));
  const dates = rowFiles.map((file) => file.date!);
  const completeness = computeCompleteness(state, {
    days: listDaysToJudge(dates, state),
    window: readKnownWindow(db, nowMs, after),
    isEndOpen: true,
  });
  return {
    format_version: formatVersion,
    generation: stage.generation,
    created_at: nowMs,
    writer: archive.writer,
    ...toManifestOwner(identity),
    previous_sha256: stage.base.generation === 0 ? null : getMeta(db, manifestHashKey)!,
    watermark: completeness.watermark,
    reached: completeness.reached,
    verified_through: computeManifestVerifiedThrough(archive, stage, files, nowMs),
    commit_id: stage.commitId,
    days: Object.fromEntries([...completeness.days].map(([day, state]) => [formatDay(day), state])),
    completeness: completeness.counts,
    datasets: { ...files, markets: { ...files.markets, ...toManifestLists(db) } },
    ...toManifestLost(after.lost),
    ...toManifestAccepted(readAcceptedWindows(db)),
    ...toManifestSelection(readSelections(db)),
    ...listRemovedFiles(stage),
  };
}

/** The time since which every byte of the next generation has been hashed, epoch ms; null if some never were. */
function computeManifestVerifiedThrough(
  { state }: Archive,
  stage: Stage,
  files: Manifest['datasets'],
  nowMs: number,
): number | null {
  const hashedAt = readHashTimes(state.db);
  const hashedNow = new Set([...stage.stagedFiles.keys(), ...stage.unchangedFiles.map(({ path }) => path)]);
  const all = Object.values(files).flatMap((dataset) => dataset.files);
  return computeVerifiedThrough(all, (file) => (hashedNow.has(file.path) ? nowMs : hashedAt(file)));
}

/**
 * The moves of a stage in execution order: ticks before coverage, so that readers of coverage find the ticks it covers, and
 * removals last, so that a glob over a dataset finds a file at any moment.
 */
export const sortMoves = ({ moves }: Stage): FileMove[] => [...moves].sort((a, b) => toMoveOrder(a) - toMoveOrder(b));

function toMoveOrder({ from, to }: FileMove): number {
  if (from === null) return 3;
  return to.startsWith('ticks/') ? 0 : to.startsWith('coverage/') ? 2 : 1;
}
