import { createHash } from 'node:crypto';
import type { Archive } from '../../src/archive/archive.ts';
import type { LostWindow } from '../../src/archive/format/coverage.ts';
import { listDayParts } from '../../src/archive/format/day-parts.ts';
import { findManifestFile, toManifestLost } from '../../src/archive/format/manifest.ts';
import { insertCoverage, readPublishedCoverage } from '../../src/archive/journal/coverage-store.ts';
import { recordLost } from '../../src/archive/journal/gap-records.ts';
import { readCommitState } from '../../src/archive/journal/intent.ts';
import { decodeTicks } from '../../src/archive/parquet/ticks-file.ts';
import { commitStage } from '../../src/archive/publish/commit.ts';
import { readPartCoverage, stageTable, toCoverageRows } from '../../src/archive/publish/day-tables.ts';
import { encodeTickFile } from '../../src/archive/publish/encode-partition.ts';
import { listNextFiles, stageFile, startStage } from '../../src/archive/publish/staging.ts';
import { readPublishedFile } from '../../src/archive/read-published-file.ts';
import { floorToDay, subtract, union, type Window } from '../../src/base/window.ts';
import { answer, append, day0, hourMs, now, type Pairs, pathOfSymbol, publishedRows, publishNow } from './scratch.ts';

// Archives of which windows were lost, as a repair leaves them.

/** Ticks of every ten minutes. */
export const pairsIn = ({ from, to }: Window, keep: (t: number) => boolean = () => true): Pairs => {
  const out: [number, number][] = [];
  for (let t = Math.ceil(from / 600_000) * 600_000; t < to; t += 600_000) {
    if (keep(t)) out.push([t, (t / 600_000) % 7]);
  }
  return out;
};

export const hours = (from: number, to: number): Window => ({ from: day0 + from * hourMs, to: day0 + to * hourMs });
export const lost = (symbol: string, window: Window): LostWindow => ({
  dataset: 'ticks',
  symbol,
  ...window,
  ticks: pairsIn(window).length,
});

export const fetched = (symbol: string, window: Window, keep?: (t: number) => boolean) =>
  answer(symbol, pairsIn(window, keep), {
    windows: [window],
    requestedWindow: window,
    origin: 'backfill',
    observedAt: now,
  });

/** What a mended archive looks like: some windows of its first day are gone, with their coverage. */
export async function withLosses(archive: Archive, symbol: string, gone: readonly Window[]): Promise<void> {
  const day = hours(0, 24);
  const isGone = (t: number): boolean => gone.some((w) => w.from <= t && t < w.to);
  const cuts = [day.from, ...gone.flatMap((w) => [w.from, w.to]), day.to];
  const kept = cuts.slice(1).flatMap((to, i) => (cuts[i]! < to && !isGone(cuts[i]!) ? [{ from: cuts[i]!, to }] : []));
  append(
    archive,
    answer(
      symbol,
      pairsIn(day, (t) => !isGone(t)),
      { windows: kept, requestedWindow: day },
    ),
  );
  await publishNow(archive);
  const windows = gone.map((w) => lost(symbol, w));
  archive.state.db.transaction(() => recordLost(archive.state.db, windows, now));
}

export const covered = (root: string): Window[] =>
  union(publishedRows(root, 'coverage').map((row) => ({ from: row[2] as number, to: row[3] as number })));

/**
 * Takes ticks and their coverage out of a published archive as a repair does that could keep nothing of them, the windows
 * of symbols being such that each lies within one UTC day and is covered wholly.
 */
export async function loseTicks(archive: Archive, gone: readonly (Window & { symbol: string })[]): Promise<void> {
  const { state } = archive;
  const base = archive.readManifest();
  const stage = startStage(archive, base, readCommitState(state.db));
  const windows: LostWindow[] = [];
  const isGone = (symbol: string, t: number): boolean =>
    gone.some((w) => w.symbol === symbol && w.from <= t && t < w.to);
  for (const [path, ofPart] of Map.groupBy(gone, (w) => pathOfSymbol(archive, 'ticks', w.symbol, floorToDay(w.from)))) {
    const part = decodeTicks(readPublishedFile(archive, findManifestFile(base, 'ticks', path)!));
    const left = part.symbols.map((symbol, i) => {
      const rows = [...part.t.subarray(part.offsets[i]!, part.offsets[i + 1]!)].map((t, k): [number, number] => [
        t,
        part.p[part.offsets[i]! + k]!,
      ]);
      return { symbol, rows, kept: rows.filter(([t]) => !isGone(symbol, t)) };
    });
    for (const { symbol, ...w } of ofPart) {
      const { rows } = left.find((one) => one.symbol === symbol) ?? { rows: [] };
      windows.push({ dataset: 'ticks', symbol, ...w, ticks: rows.filter(([t]) => w.from <= t && t < w.to).length });
    }
    const some = left.filter(({ kept }) => kept.length > 0);
    const rows = some.flatMap(({ kept }) => kept);
    const columns = {
      symbols: some.map(({ symbol }) => symbol),
      offsets: Float64Array.from([
        0,
        ...some.map((_, i) => some.slice(0, i + 1).reduce((n, s) => n + s.kept.length, 0)),
      ]),
      t: Float64Array.from(rows, ([t]) => t),
      p: Float64Array.from(rows, ([, p]) => p),
    };
    stageFile(archive, stage, encodeTickFile(path, floorToDay(ofPart[0]!.from), columns, archive.groupRows));
  }
  for (const day of new Set(gone.map((w) => floorToDay(w.from)))) {
    for (const part of listDayParts(base, day)) {
      const coverage = readPartCoverage(archive, base, part);
      for (const [symbol, stretches] of coverage.ticks) {
        const mine = gone.filter((w) => w.symbol === symbol);
        const rest = stretches.flatMap((stretch) => subtract([stretch], mine).map((w) => ({ ...stretch, ...w })));
        coverage.ticks.set(symbol, rest);
      }
      stageTable(archive, stage, 'coverage', part, toCoverageRows(coverage));
    }
  }
  const manifest = {
    ...base,
    generation: stage.generation,
    datasets: listNextFiles(stage),
    ...toManifestLost(windows),
    previous_sha256: createHash('sha256').update(archive.readManifestText()).digest('hex'),
  };
  commitStage(archive, stage, manifest, stage.moves, () => {
    for (const symbol of new Set(gone.map((w) => w.symbol))) {
      const covered = readPublishedCoverage(state.db, symbol);
      const mine = gone.filter((w) => w.symbol === symbol);
      state.db.run('delete from coverage where symbol = ?', symbol);
      const rest = covered.flatMap((s) => subtract([s], mine).map((w) => ({ ...s, ...w })));
      insertCoverage(state.db, symbol, rest);
    }
    for (const { symbol, ticks } of windows)
      state.db.run('update symbols set ticks = ticks - ? where symbol = ?', ticks, symbol);
    recordLost(state.db, windows, now);
  });
}
