import type { Clock } from '../../core/clock.ts';
import { type JudgeRules, judge } from '../../core/completeness.ts';
import type { SymbolFacts } from '../../core/market.ts';
import { dayOf } from '../../core/time.ts';
import type { Counts } from '../../core/verdict.ts';
import { verifiedThrough } from '../../core/verified.ts';
import { acceptedWindows } from '../../state/accepted.ts';
import { type Damage, knownDamage } from '../../state/damage.ts';
import { readHashTimes } from '../../state/hash-times.ts';
import type { Move } from '../../state/intent.ts';
import { sha256 } from '../disk/file-system.ts';
import { type After, daysToJudge, readKnownState, spanOf, stateAfter } from '../known-state.ts';
import { symbolsPath } from '../layout.ts';
import { acceptedInManifest, formatVersion, lostInManifest, type Manifest } from '../manifest.ts';
import type { Archive } from '../open-archive.ts';
import { keysOfRows } from '../parquet/row-group-index.ts';
import { encodeRows, type Value } from '../parquet/rows.ts';
import { datasets } from '../parquet/schema.ts';
import { encodedFile, type FileFacts } from './file-entry.ts';
import { nextFiles, nextRemoved, type Stage, stageFile } from './staging.ts';

// What each new generation has, whether it takes in what is journaled or lacks what is lost.

/** Stages the dataset of symbols; none where no symbol is known. */
export function stageSymbols(archive: Archive, stage: Stage, symbols: readonly SymbolFacts[]): void {
  if (symbols.length === 0) return;
  const rows = symbols.map((s): Value[] => [
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
  const facts: FileFacts = {
    date: null,
    rows: rows.length,
    t_min: symbols.reduce((min, s) => Math.min(min, s.firstSeen), Number.POSITIVE_INFINITY),
    t_max: symbols.reduce((max, s) => Math.max(max, s.lastSeen), Number.NEGATIVE_INFINITY),
    symbols: rows.length,
  };
  const bytes = encodeRows(datasets.symbols, rows, archive.groupRows);
  stageFile(archive, stage, encodedFile('symbols', symbolsPath, bytes, facts, keysOfRows('symbols', rows)));
}

/** By what a generation is judged, and when. */
export interface JudgedBy extends JudgeRules {
  readonly clock: Clock;
}

/**
 * Whether the last generation says something else of gaps, suspension, lists or damage than is so by now, though nothing came to
 * be published: symbols that failed, a file that was found damaged or mended.
 */
export function isVerdictOutdated(archive: Archive, base: Manifest, by: JudgedBy): boolean {
  if (base.verdict === undefined) return false;
  const { db } = archive.state;
  const nowMs = by.clock.nowMs();
  const window = spanOf(db, nowMs);
  const { counts } = judge(readKnownState(archive, by, nowMs), { window, isEndOpen: true });
  const told = ({ gaps, suspended, listed, damaged }: Counts): string =>
    JSON.stringify([gaps, suspended, listed, damaged]);
  return told(base.verdict) !== told(counts);
}

/**
 * The manifest of a stage.
 * @param damage what of the published files is known not to be as published, once the stage is committed
 */
export function nextManifest(
  archive: Archive,
  stage: Stage,
  after: After,
  by: JudgedBy,
  damage: readonly Damage[] = knownDamage(archive.state.db),
): Manifest {
  const files = nextFiles(stage);
  const nowMs = by.clock.nowMs();
  const { db, identity } = archive.state;
  const state = stateAfter(db, identity.parts, after, by, nowMs, damage);
  const dates = [...files.ticks.files, ...files.coverage.files].map((file) => file.date!);
  const found = judge(state, { days: daysToJudge(dates, state), window: spanOf(db, nowMs), isEndOpen: true });
  return {
    format_version: formatVersion,
    generation: stage.generation,
    created_at: nowMs,
    writer: archive.writer,
    upstream: identity.upstream,
    parts: identity.parts,
    previous_sha256: stage.base.generation === 0 ? null : sha256(Buffer.from(archive.manifestText())),
    watermark: found.watermark,
    reached: found.reached,
    verified_through: verifiedAfter(archive, stage, files, nowMs),
    commit_id: stage.commitId,
    days: Object.fromEntries([...found.days].map(([day, state]) => [dayOf(day), state])),
    verdict: found.counts,
    datasets: files,
    ...lostInManifest(after.lost),
    ...acceptedInManifest(acceptedWindows(db)),
    ...nextRemoved(stage),
  };
}

/** Since when every byte of the next generation has been hashed, epoch ms. */
function verifiedAfter({ state }: Archive, stage: Stage, files: Manifest['datasets'], nowMs: number): number | null {
  const hashedAt = readHashTimes(state.db);
  const now = new Set([...stage.files.keys(), ...stage.same.map(({ path }) => path)]);
  const all = Object.values(files).flatMap((dataset) => dataset.files);
  return verifiedThrough(
    all.map((file) => ({ bytes: file.bytes, hashedAt: now.has(file.path) ? nowMs : hashedAt(file) })),
  );
}

/** The moves of a stage in the order in which files change: whoever reads coverage finds the ticks that it speaks of. */
export const movesOf = ({ moves }: Stage): Move[] => [...moves].sort((a, b) => orderOf(a.to) - orderOf(b.to));

const orderOf = (path: string): number => (path.startsWith('ticks/') ? 0 : path.startsWith('coverage/') ? 2 : 1);
