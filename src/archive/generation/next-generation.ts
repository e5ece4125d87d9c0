import type { Clock } from '../../core/clock.ts';
import { completeness } from '../../core/completeness.ts';
import type { Covered } from '../../core/coverage.ts';
import type { LingerRules } from '../../core/life.ts';
import type { LostWindow } from '../../core/lost.ts';
import type { SymbolFacts } from '../../core/market.ts';
import { dayOf, dayStart } from '../../core/time.ts';
import type { Move } from '../../state/intent.ts';
import type { Archive } from '../archive.ts';
import { sha256 } from '../disk/disk.ts';
import { symbolsPath } from '../layout.ts';
import { formatVersion, lostInManifest, type Manifest } from '../manifest.ts';
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
  { clock, named, rules }: JudgedBy,
): Manifest {
  const files = nextFiles(stage);
  const dates = new Set([...files.ticks.files, ...files.coverage.files].map((file) => file.date!));
  for (const { from } of lost) dates.add(dayOf(from));
  const days = [...dates].sort().map(dayStart);
  const found = completeness({ symbols, coverage, lost, named, days, nowMs: clock.nowMs(), rules });
  return {
    format_version: formatVersion,
    generation: stage.generation,
    created_at: clock.nowMs(),
    writer: archive.writer,
    upstream: archive.state.identity.upstream,
    parts: archive.state.identity.parts,
    previous_sha256: stage.base.generation === 0 ? null : sha256(Buffer.from(archive.manifestText())),
    watermark: found.watermark,
    days: Object.fromEntries([...found.days].map(([day, state]) => [dayOf(day), state])),
    datasets: files,
    ...lostInManifest(lost),
    ...(found.reached !== found.watermark && { reached: found.reached }),
    ...nextRemoved(stage),
  };
}

/** The moves of a stage in the order in which files change: whoever reads coverage finds the ticks that it speaks of. */
export const movesOf = ({ moves }: Stage): Move[] => [...moves].sort((a, b) => orderOf(a.to) - orderOf(b.to));

const orderOf = (path: string): number => (path.startsWith('ticks/') ? 0 : path.startsWith('coverage/') ? 2 : 1);
