import type { Archive } from '../src/archive/archive.ts';
import { systemDisk } from '../src/archive/disk/file-system.ts';
import { toDayPath } from '../src/archive/format/layout.ts';
import type { PartColumns } from '../src/archive/format/tick-columns.ts';
import { insertCoverage } from '../src/archive/journal/coverage-store.ts';
import { readCommitState } from '../src/archive/journal/intent.ts';
import { recordRowGroups } from '../src/archive/journal/published-files.ts';
import { addTickDeltas } from '../src/archive/journal/tick-counts.ts';
import { openArchive } from '../src/archive/open-archive.ts';
import { commitStage } from '../src/archive/publish/commit.ts';
import { stageTable } from '../src/archive/publish/day-tables.ts';
import { encodeTickFile } from '../src/archive/publish/encode-partition.ts';
import { listNextFiles, type Stage, stageFile, startStage } from '../src/archive/publish/staging.ts';
import { compareUtf8 } from '../src/base/symbol-name.ts';
import { dayMs } from '../src/base/window.ts';
import { createBenchKey } from './key.ts';

// A real archive of many ticks, built fast: part files by the archive's own encoder, one generation by its own commit.

const firstDay = Date.UTC(2026, 4, 1);
/** Ticks of a symbol's day: about one a minute. */
export const ticksPerDay = 1440;
const daysDefault = 30;
const parts = 4;

interface BenchArchive {
  readonly symbols: readonly string[];
  /** UTC midnights. */
  readonly days: readonly number[];
  readonly ticks: number;
  readonly key: string;
}

/** Random-walk prices in steps of 0.001, or incompressible ones: about 10 bytes per tick instead of 3. */
type Prices = 'walk' | 'noise';

/** @param days each has four part files of ticks, and four of coverage */
export async function createBenchArchive(
  root: string,
  ticks: number,
  prices: Prices = 'walk',
  days: number = daysDefault,
): Promise<BenchArchive> {
  const count = Math.max(parts, Math.round(ticks / (days * ticksPerDay)));
  const symbols = Array.from({ length: count }, (_, i) => `KXMARKET-26MAY-${String(i).padStart(5, '0')}`);
  const midnights = Array.from({ length: days }, (_, i) => firstDay + i * dayMs);
  const options = { root, create: true, upstream: 'https://bench.test', parts, writer: 'oddslake bench', settleMs: 0 };
  const archive = openArchive(options, systemDisk);
  const byPart = Map.groupBy(symbols.toSorted(compareUtf8), (_, i) => Math.floor((i * parts) / count));
  const stage = startStage(archive, archive.readManifest(), readCommitState(archive.state.db));
  for (const day of midnights) {
    for (const [part, ofPart] of byPart) {
      const columns = createDayColumns(ofPart, day, prices);
      stageFile(archive, stage, encodeTickFile(toDayPath('ticks', day, part), day, columns, archive.groupRows));
      const window = [day, day + dayMs, ticksPerDay, day + dayMs];
      const covered = ofPart.map((symbol) => ['ticks', symbol, ...window, 'poll', 'confirmed', null]);
      stageTable(archive, stage, 'coverage', { day, part }, covered);
    }
  }
  commitAll(archive, stage, symbols, days);
  const key = await createBenchKey(archive.layout.root);
  archive.close();
  return { symbols, days: midnights, ticks: symbols.length * days * ticksPerDay, key };
}

/** Random times within the day. */
function createDayColumns(symbols: readonly string[], day: number, prices: Prices): PartColumns {
  const rows = symbols.length * ticksPerDay;
  const [t, p] = [new Float64Array(rows), new Float64Array(rows)];
  let row = 0;
  for (let s = 0; s < symbols.length; s++) {
    let price = 1 + Math.floor(Math.random() * 999);
    for (let i = 0; i < ticksPerDay; i++, row++) {
      price = Math.min(999, Math.max(1, price + Math.floor(Math.random() * 5) - 2));
      t[row] = day + Math.floor(((i + Math.random()) * dayMs) / ticksPerDay);
      p[row] = prices === 'walk' ? price / 1000 : Math.random();
    }
  }
  return { symbols, offsets: Float64Array.from({ length: symbols.length + 1 }, (_, i) => i * ticksPerDay), t, p };
}

function commitAll(archive: Archive, stage: Stage, symbols: readonly string[], days: number): void {
  const base = stage.base;
  const last = firstDay + days * dayMs;
  const manifest = { ...base, generation: stage.generation, created_at: last, datasets: listNextFiles(stage) };
  commitStage(archive, stage, manifest, stage.moves, () => {
    const { db } = archive.state;
    recordRowGroups(db, stage.fileRecords);
    for (const symbol of symbols) {
      addTickDeltas(db, [{ symbol, added: days * ticksPerDay, first: firstDay, last: last - 1 }], last);
      insertCoverage(db, symbol, [
        { from: firstDay, to: last, fetchedAt: last, origin: 'poll', evidence: 'confirmed' },
      ]);
    }
  });
}
