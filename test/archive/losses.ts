import type { Archive } from '../../src/archive/archive.ts';
import type { LostWindow } from '../../src/core/lost.ts';
import { union, type Window } from '../../src/core/window.ts';
import { noteLost } from '../../src/state/lost.ts';
import { answer, append, day0, hourMs, now, type Pairs, publishedRows, publishNow } from './scratch.ts';

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
  ...{ dataset: 'ticks', symbol, ...window, ticks: pairsIn(window).length },
});

export const fetched = (symbol: string, window: Window, keep?: (t: number) => boolean) =>
  answer(symbol, pairsIn(window, keep), { windows: [window], asked: window, origin: 'backfill', observedAt: now });

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
      { windows: kept, asked: day },
    ),
  );
  await publishNow(archive);
  const windows = gone.map((w) => lost(symbol, w));
  archive.state.db.transaction(() => noteLost(archive.state.db, windows, now));
}

export const covered = (root: string): Window[] =>
  union(publishedRows(root, 'coverage').map((row) => ({ from: row[2] as number, to: row[3] as number })));
