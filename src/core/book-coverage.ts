import type { Evidence, Origin } from './coverage.ts';
import type { Window } from './window.ts';

/** A row of the coverage of order books: answers generated in these milliseconds, and the snapshots they brought. */
export interface BookCoverage extends Window {
  readonly ticks: number;
  readonly fetchedAt: number;
  readonly origin: Origin;
  readonly evidence: Evidence;
}

/**
 * Lays answers, each of them covering its own millisecond, over a symbol's coverage of one day, which is sorted and
 * disjoint. A moment that is covered already stays as it is, but for an answer there that brought more. Adjoining
 * milliseconds of one origin and evidence are one row, `fetchedAt` being the earliest.
 */
export function overlayBookCoverage(
  covered: readonly BookCoverage[],
  answers: readonly { readonly at: number; readonly snapshots: number }[],
): BookCoverage[] {
  const moments = new Map<number, number>();
  for (const { at, snapshots } of answers) moments.set(at, Math.max(snapshots, moments.get(at) ?? 0));
  const single = (w: Window): boolean => w.to === w.from + 1;
  const kept = covered.map((w) => (single(w) ? { ...w, ticks: Math.max(w.ticks, moments.get(w.from) ?? 0) } : w));
  const fresh = [...moments]
    .filter(([at]) => !covered.some((w) => w.from <= at && at < w.to))
    .map(
      ([at, ticks]): BookCoverage => ({
        from: at,
        to: at + 1,
        ticks,
        fetchedAt: at,
        origin: 'poll',
        evidence: 'inferred',
      }),
    );
  const out: BookCoverage[] = [];
  for (const next of [...kept, ...fresh].sort((a, b) => a.from - b.from)) {
    const last = out.at(-1);
    const isJoined = last?.to === next.from && last.origin === next.origin && last.evidence === next.evidence;
    if (last === undefined || !isJoined) out.push(next);
    else {
      const fetchedAt = Math.min(last.fetchedAt, next.fetchedAt);
      out[out.length - 1] = { ...last, to: next.to, ticks: last.ticks + next.ticks, fetchedAt };
    }
  }
  return out;
}
