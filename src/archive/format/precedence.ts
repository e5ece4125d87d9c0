import type { Window } from '../../base/window.ts';

/** How far an observation is trusted: a filled-in import, what was polled, an import that was preferred. */
export const precedenceRanks = { import: 0, poll: 1, preferred: 2 } as const;

/** The standing of one observation of a price. The greater (rank, observedAt, price) wins a key. */
export interface Precedence {
  readonly rank: number;
  /** Epoch milliseconds. */
  readonly observedAt: number;
}

/** Published ticks of one symbol, all those in the window, that share a standing. It lies within one UTC day. */
export interface PrecedenceWindow extends Window, Precedence {
  readonly symbol: string;
}

/**
 * What is known of published keys: the stretch that a key lies in; where there is none, as in a state that was lost or
 * was written by an older version, what coverage says of the moment (a stand-in).
 */
export interface KnownPrecedence {
  /** Sorted and disjoint. */
  getWindows(symbol: string): readonly PrecedenceWindow[];
  inferPrecedence(symbol: string, t: number): Precedence;
}

/** Gathers the standings that have to be remembered, key after key in order of time: neighbours of one standing share a stretch. */
export interface PrecedenceRecorder {
  /** Each takes the place of whatever was known of its window. */
  readonly windows: PrecedenceWindow[];
  /** The standing of the next key; `isNews`: whether what was known before says otherwise. */
  record(t: number, standing: Precedence, isNews: boolean): void;
  /** As `note` for each of the keys from first to last. */
  recordRun(first: number, last: number, standing: Precedence, isNews: boolean): void;
  /** A published key comes by that nothing was observed of, or the symbol ends: no stretch reaches over it. */
  pause(): void;
  /** Begins with another symbol, the one before having ended. */
  begin(symbol: string): void;
}

export function createPrecedenceRecorder(): PrecedenceRecorder {
  const stretches: PrecedenceWindow[] = [];
  let symbol = '';
  let isOpen = false;
  let news = false;
  let from = 0;
  let last = 0;
  let rank = 0;
  let observedAt = 0;
  const pause = (): void => {
    if (news) stretches.push({ symbol, from, to: last + 1, rank, observedAt });
    isOpen = false;
    news = false;
  };
  const noteRun = (first: number, end: number, standing: Precedence, isNews: boolean): void => {
    if (standing.rank !== rank || standing.observedAt !== observedAt) pause();
    if (!isOpen) {
      isOpen = true;
      from = first;
      rank = standing.rank;
      observedAt = standing.observedAt;
    }
    last = end;
    news ||= isNews;
  };
  return {
    windows: stretches,
    pause,
    record: (t, standing, isNews) => noteRun(t, t, standing, isNews),
    recordRun: noteRun,
    begin(next) {
      symbol = next;
    },
  };
}

/** Lays stretches over those known of the same symbol, in whose place they come; both are sorted and disjoint. */
export function overlayPrecedence(
  known: readonly PrecedenceWindow[],
  fresh: readonly PrecedenceWindow[],
): PrecedenceWindow[] {
  const out: PrecedenceWindow[] = [];
  /** Neighbours of one standing that touch become one. */
  const add = (stretch: PrecedenceWindow): void => {
    const last = out.at(-1);
    if (last !== undefined && last.to === stretch.from && hasSamePrecedence(last, stretch))
      out[out.length - 1] = { ...last, to: stretch.to };
    else out.push(stretch);
  };
  let k = 0;
  /** What is left of the known stretch that is next. */
  let rest = known[0];
  const advance = (): void => {
    rest = known[++k];
  };
  for (const stretch of fresh) {
    while (rest !== undefined && rest.from < stretch.from) {
      if (rest.to <= stretch.from) {
        add(rest);
        advance();
      } else {
        add({ ...rest, to: stretch.from });
        rest = { ...rest, from: stretch.from };
      }
    }
    while (rest !== undefined && rest.to <= stretch.to) advance();
    if (rest !== undefined && rest.from < stretch.to) rest = { ...rest, from: stretch.to };
    add(stretch);
  }
  for (; rest !== undefined; advance()) add(rest);
  return out;
}

export const hasSamePrecedence = (a: Precedence | undefined, b: Precedence): boolean =>
  a !== undefined && a.rank === b.rank && a.observedAt === b.observedAt;
