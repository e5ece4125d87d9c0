import type { Clock } from '../../core/clock.ts';
import { type CompletenessRules, computeCompleteness } from '../../core/completeness.ts';
import type { SymbolFacts } from '../../core/market.ts';
import { formatDay } from '../../core/time.ts';
import type { CompletenessCounts } from '../../core/verdict.ts';
import { computeVerifiedThrough } from '../../core/verified.ts';
import { readAcceptedWindows } from '../../state/accepted.ts';
import { type FileDamage, readRecordedDamage } from '../../state/damage.ts';
import { readHashTimes } from '../../state/hash-times.ts';
import type { FileMove } from '../../state/intent.ts';
import { sha256 } from '../disk/file-system.ts';
import {
  computeStateAfterCommit,
  listDaysToJudge,
  readCurrentState,
  readKnownWindow,
  type StateAfterCommit,
} from '../known-state.ts';
import { symbolsPath } from '../layout.ts';
import { formatVersion, type Manifest, toManifestAccepted, toManifestLost } from '../manifest.ts';
import type { Archive } from '../open-archive.ts';
import { createRowKeyReader } from '../parquet/row-group-index.ts';
import { type CellValue, encodeRows } from '../parquet/rows.ts';
import { datasets } from '../parquet/schema.ts';
import { createEncodedFile, type FileStatistics } from './file-entry.ts';
import { listNextFiles, listRemovedFiles, type Stage, stageFile } from './staging.ts';

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
