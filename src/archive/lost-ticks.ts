import type { Covered } from '../core/coverage.ts';
import { judgeAnswers, type LostWindow } from '../core/lost.ts';
import type { PartColumns } from '../core/merge.ts';
import { partOf } from '../core/part.ts';
import { firstAtOrAfter } from '../core/search.ts';
import { dayFloor, type Window } from '../core/window.ts';
import { type Archive, readPublished } from './archive.ts';
import { dayPath } from './layout.ts';
import { fileAt } from './manifest.ts';
import { decodeTicks } from './parquet/ticks-file.ts';

/** What the answers of a bin cover, its lost windows being judged by the ticks that are there once it is merged. */
export function judgeBin(
  answers: Map<string, Covered[]>,
  lostOfDay: ReadonlyMap<string, readonly LostWindow[]>,
  columns: PartColumns,
): { covered: ReadonlyMap<string, readonly Covered[]>; restored: LostWindow[]; lacking: LostWindow[] } {
  const covered = new Map<string, readonly Covered[]>(answers);
  const restored: LostWindow[] = [];
  const lacking: LostWindow[] = [];
  const timesOf = timesIn(columns);
  for (const [symbol, ofSymbol] of answers) {
    const lost = lostOfDay.get(symbol);
    if (lost === undefined) continue;
    const judged = judgeAnswers(ofSymbol, lost, (window) => countIn(timesOf(symbol), window));
    covered.set(symbol, judged.claimed);
    restored.push(...judged.restored);
    lacking.push(...judged.lacking);
  }
  return { covered, restored, lacking };
}

/** The times of a symbol's ticks, rising; none where it has none. */
export function timesIn({ symbols, offsets, t }: PartColumns): (symbol: string) => Float64Array {
  const index = new Map(symbols.map((symbol, i) => [symbol, i]));
  return (symbol) => {
    const at = index.get(symbol);
    return at === undefined ? t.subarray(0, 0) : t.subarray(offsets[at]!, offsets[at + 1]!);
  };
}

/** How many of these times, which rise, are in a window, its end excluded. */
export const countIn = (t: Float64Array, { from, to }: Window): number =>
  firstAtOrAfter(t, to) - firstAtOrAfter(t, from);

/**
 * How many ticks are published in each of these lost windows, in their order. Reads one part after the other.
 * @throws DamageError where one is damaged
 */
export function heldTicks(archive: Archive, lost: readonly LostWindow[]): number[] {
  const manifest = archive.manifest();
  const held = new Map<LostWindow, number>();
  const pathOf = ({ symbol, from }: LostWindow): string =>
    dayPath('ticks', dayFloor(from), partOf(symbol, manifest.parts));
  for (const [path, windows] of Map.groupBy(lost, pathOf)) {
    const file = fileAt(manifest, 'ticks', path);
    if (file === undefined) continue;
    const timesOf = timesIn(decodeTicks(readPublished(archive, file)));
    for (const window of windows) held.set(window, countIn(timesOf(window.symbol), window));
  }
  return lost.map((window) => held.get(window) ?? 0);
}
