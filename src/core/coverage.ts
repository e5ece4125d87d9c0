import { dayFloor, intersection, isEmpty, union, type Window } from './window.ts';

/** Who asked: the running poll, a backfill of the past, or an import of files. */
export type Origin = 'poll' | 'backfill' | 'import';

/** A stretch of one symbol's time that was asked and answered. `fetchedAt`: when its latest answer was generated. */
export interface Covered extends Window {
  readonly fetchedAt: number;
  readonly origin: Origin;
}

const sameOrigin = (a: Covered, b: Covered): boolean => a.origin === b.origin;

/** The later answer speaks for a moment; between equals the origin decides, so that no order of arrival does. */
const speaksOver = (a: Covered, b: Covered): boolean =>
  a.fetchedAt !== b.fetchedAt ? a.fetchedAt > b.fetchedAt : a.origin > b.origin;

/**
 * Lays answers over each other: the result is sorted and disjoint, and each moment belongs to the latest answer.
 * Neighbours of one answer are joined. Of stretches in any order; an upstream that names many holes may make many.
 */
export function overlay(stretches: readonly Covered[]): Covered[] {
  const latestFirst = answersOf(stretches).sort((a, b) => (speaksOver(a, b) ? -1 : 1));
  const out: Covered[] = [];
  for (const next of latestFirst) {
    // What later answers leave of it goes between them.
    let { from } = next;
    for (let at = firstBehind(out, from); from < next.to; at++) {
      const to = Math.min(next.to, out[at]?.from ?? next.to);
      if (from < to) out.splice(at++, 0, { ...next, from, to });
      from = out[at]?.to ?? next.to;
    }
  }
  return out;
}

/** Of sorted, disjoint stretches the index of the first that ends after a moment; by bisection. */
function firstBehind(sorted: readonly Window[], t: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]!.to <= t) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Lays new answers over what is sorted and disjoint already; looks only at what they touch. */
export function overlayOnto(sorted: readonly Covered[], added: readonly Covered[]): Covered[] {
  const fresh = added.filter((w) => !isEmpty(w));
  if (fresh.length === 0) return [...sorted];
  const from = fresh.reduce((min, w) => Math.min(min, w.from), Number.POSITIVE_INFINITY);
  const to = fresh.reduce((max, w) => Math.max(max, w.to), Number.NEGATIVE_INFINITY);
  const before = sorted.filter((w) => w.to < from);
  const after = sorted.filter((w) => w.from > to);
  const near = sorted.slice(before.length, sorted.length - after.length);
  return [...before, ...overlay([...near, ...fresh]), ...after];
}

/** The stretches of each answer joined: a long window comes cut by days. */
function answersOf(stretches: readonly Covered[]): Covered[] {
  const byAnswer = Map.groupBy(stretches, ({ origin, fetchedAt }) => `${fetchedAt} ${origin}`);
  return [...byAnswer.values()].flatMap((pieces) => {
    const { origin, fetchedAt } = pieces[0]!;
    return union(pieces).map((w) => ({ ...w, fetchedAt, origin }));
  });
}

/** What of a stretch lies outside of `taken`. */
export function without(piece: Covered, taken: Window): Covered[] {
  if (isEmpty(intersection(piece, taken))) return [piece];
  const left = { ...piece, to: taken.from };
  const right = { ...piece, from: taken.to };
  return [left, right].filter((w) => !isEmpty(w));
}

/** As published: adjoining windows of one origin become one, with the latest `fetchedAt`. Never joins over midnight. */
export function joinForPublishing(sorted: readonly Covered[]): Covered[] {
  return join(sorted, (a, b) => sameOrigin(a, b) && dayFloor(a.from) === dayFloor(b.from));
}

/**
 * Joins neighbours of one origin that are final and end before `beforeMs`, so that what is kept of a symbol does not
 * grow with every night. That they were answered `settleMs` after their end stays true of the whole.
 */
export function joinFinal(sorted: readonly Covered[], settleMs: number, beforeMs: number): Covered[] {
  const final = (s: Covered): boolean => s.to <= beforeMs && s.fetchedAt >= s.to + settleMs;
  return join(sorted, (a, b) => sameOrigin(a, b) && final(a) && final(b));
}

function join(sorted: readonly Covered[], same: (a: Covered, b: Covered) => boolean): Covered[] {
  const out: Covered[] = [];
  for (const next of sorted) {
    const last = out.at(-1);
    if (last !== undefined && last.to === next.from && same(last, next)) {
      out[out.length - 1] = { ...last, to: next.to, fetchedAt: Math.max(last.fetchedAt, next.fetchedAt) };
    } else out.push(next);
  }
  return out;
}

/** The part that is final: what was answered at least `settleMs` after it. */
export function settled(stretches: readonly Covered[], settleMs: number): Window[] {
  return stretches
    .map((s) => ({ from: s.from, to: Math.min(s.to, s.fetchedAt - settleMs) }))
    .filter((w) => !isEmpty(w));
}
