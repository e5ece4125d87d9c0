import type { Goal } from './goals.ts';
import type { Spread } from './statistics.ts';

/**
 * Compares the ratios of two runs of a benchmark: the one now and the one in the results of an earlier commit. Absolute
 * figures of two days say little, but a ratio to a peer of the same rounds does. Pure.
 */

/** The results of a benchmark in a commit. */
export interface EarlierResults {
  /** Short hash of the commit that wrote them, and its date. */
  readonly commit: string;
  readonly section: string;
}

/** A figure of a run that may have a ratio to a peer. */
interface ComparedFigure {
  readonly what: string;
  readonly input: string;
  readonly peer: { readonly name: string } | null;
  readonly ratio: Spread | null;
  readonly goal: Pick<Goal, 'isHigherBetter'>;
}

export interface Change {
  readonly what: string;
  readonly input: string;
  readonly peer: string;
  readonly before: Spread;
  readonly now: Spread;
  readonly verdict: 'better' | 'worse' | 'within the noise';
}

/** Ratios without rounds, such as bytes, count as equal up to this difference. */
const exactShare = 0.01;

export function findChanges(earlier: string, comparisons: readonly ComparedFigure[]): Change[] {
  const before = parseRatios(earlier);
  return comparisons.flatMap(({ what, input, peer, ratio, goal }) => {
    const old = before.get(keyOf(what, input, peer?.name ?? '–'));
    if (ratio === null || old === undefined) return [];
    return [{ what, input, peer: peer?.name ?? '–', before: old, now: ratio, verdict: judge(old, ratio, goal) }];
  });
}

/** Rounds that overlap could be either's: the difference is noise. */
function judge(before: Spread, now: Spread, { isHigherBetter }: ComparedFigure['goal']): Change['verdict'] {
  const isHigher = now.min > before.max * (1 + exactShare);
  const isLower = now.max < before.min * (1 - exactShare);
  if (!isHigher && !isLower) return 'within the noise';
  return isHigher === isHigherBetter ? 'better' : 'worse';
}

/** The ratios of a section of bench/RESULTS.md. */
function parseRatios(section: string): Map<string, Spread> {
  const found = new Map<string, Spread>();
  for (const line of section.split('\n')) {
    const cells = splitRow(line);
    const [what, input, , peer, ratio] = cells;
    if (cells.length < 7 || what === undefined || input === undefined || peer === undefined) continue;
    const [, median, min, max] = /^([\d.]+)(?: \(([\d.]+)–([\d.]+)\))?$/.exec(ratio ?? '') ?? [];
    if (median === undefined) continue;
    const value = Number(median);
    found.set(keyOf(what, input, peer), { median: value, min: Number(min ?? value), max: Number(max ?? value) });
  }
  return found;
}

/** Cells of a row of a Markdown table; empty for any other line. */
export const splitRow = (line: string): string[] =>
  line.startsWith('| ')
    ? line
        .slice(2, -2)
        .split(/(?<!\\) \| /)
        .map((cell) => cell.replaceAll('\\|', '|').trim())
    : [];

/** A peer's figure stands behind its name; the best of several peers may be another; the bytes of our own files vary. */
const keyOf = (what: string, input: string, peer: string): string =>
  [
    what,
    input.replace(/^\d+ files, \d+ MB$/, 'files'),
    peer.replace(/:.*$/, '').replace(/^.*, the (smallest|fastest) of \d+$/, '$1'),
  ].join('|');
