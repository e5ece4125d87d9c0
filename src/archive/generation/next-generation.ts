import type { Clock } from '../../core/clock.ts';
import { completeness } from '../../core/completeness.ts';
import type { Covered } from '../../core/coverage.ts';
import type { LingerRules } from '../../core/life.ts';
import type { LostWindow } from '../../core/lost.ts';
import type { SymbolFacts } from '../../core/market.ts';
import { dayOf, dayStart } from '../../core/time.ts';
import { verifiedThrough } from '../../core/verified.ts';
import { dayFloor, dayMs, type Window } from '../../core/window.ts';
import { acceptedWindows } from '../../state/accepted.ts';
import { settledGaps } from '../../state/excepted.ts';
import { readHashTimes } from '../../state/hash-times.ts';
import type { Move } from '../../state/intent.ts';
import { wholeListings } from '../../state/listings.ts';
import { allOwedWindows } from '../../state/owed.ts';
import type { Archive } from '../archive.ts';
import { sha256 } from '../disk/disk.ts';
import { symbolsPath } from '../layout.ts';
import { acceptedInManifest, formatVersion, lostInManifest, type Manifest } from '../manifest.ts';
import { datasets } from '../parquet/datasets.ts';
import { encodeRows, type Value } from '../parquet/parquet.ts';
import { keysOfRows } from '../parquet/row-groups.ts';
import { encodedFile, type FileFacts } from './encoded-file.ts';
import { nextFiles, nextRemoved, type Stage, stageFile } from './stage.ts';

// What each new generation has, whether it takes in what is journaled or lacks what is lost.

/** Stages the dataset of symbols; none where no symbol is known. */
export function stageSymbols(archive: Archive, stage: Stage, symbols: readonly SymbolFacts[]): void {
  if (symbols.length === 0) return;
  const rows = symbols.map((s): Value[] => [
    ...[s.symbol, s.canonicalId, s.source, s.question, s.category, s.isActive, s.opensAt, s.closesAt, s.resolvedAt],
    ...[s.outcome, s.firstSeen, s.lastSeen, s.firstTick, s.lastTick, s.ticks],
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

/** By what days and watermark are judged. */
export interface JudgedBy {
  readonly clock: Clock;
  /** Symbols named by hand, or null where market lists decide which are polled. */
  readonly named: ReadonlySet<string> | null;
  readonly rules: LingerRules;
  /** The market lists that are polled: a day is complete only if each was had whole within it. None: no list decides. */
  readonly views?: readonly string[];
}

/** What will be known once a stage is committed. */
export interface After {
  readonly symbols: readonly SymbolFacts[];
  readonly coverage: ReadonlyMap<string, readonly Covered[]>;
  readonly lost: readonly LostWindow[];
}

/** The manifest of a stage. */
export function nextManifest(
  archive: Archive,
  stage: Stage,
  { symbols, coverage, lost }: After,
  { clock, named, rules, views = [] }: JudgedBy,
): Manifest {
  const files = nextFiles(stage);
  const nowMs = clock.nowMs();
  const dates = new Set([...files.ticks.files, ...files.coverage.files].map((file) => file.date!));
  for (const { from } of lost) dates.add(dayOf(from));
  const { db } = archive.state;
  for (const day of owedDays(allOwedWindows(db).values(), nowMs)) dates.add(dayOf(day));
  const days = [...dates].sort().map(dayStart);
  const listedWhole = views.length === 0 ? undefined : wholeListings(db, views);
  const excepted = settledGaps(db);
  const found = completeness({ listedWhole, symbols, coverage, lost, excepted, named, days, nowMs, rules });
  return {
    format_version: formatVersion,
    generation: stage.generation,
    created_at: nowMs,
    writer: archive.writer,
    upstream: archive.state.identity.upstream,
    parts: archive.state.identity.parts,
    previous_sha256: stage.base.generation === 0 ? null : sha256(Buffer.from(archive.manifestText())),
    watermark: found.watermark,
    reached: found.reached,
    verified_through: verifiedAfter(archive, stage, files, nowMs),
    commit_id: stage.commitId,
    days: Object.fromEntries([...found.days].map(([day, state]) => [dayOf(day), state])),
    datasets: files,
    ...lostInManifest(lost),
    ...acceptedInManifest(acceptedWindows(db)),
    ...nextRemoved(stage),
  };
}

/** Days that somebody asked for in vain are days that something is missing of, be there nothing else; at most so many. */
const owedDaysMax = 3660;

function owedDays(bySymbol: Iterable<readonly Window[]>, nowMs: number): Set<number> {
  const days = new Set<number>();
  for (const { from, to } of [...bySymbol].flat())
    for (let day = dayFloor(from); day < Math.min(to, nowMs) && days.size < owedDaysMax; day += dayMs) days.add(day);
  return days;
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
