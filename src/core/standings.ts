import type { Window } from './window.ts';

/** How far an observation is trusted: a filled-in import, what was polled, an import that was preferred. */
export const ranks = { import: 0, poll: 1, preferred: 2 } as const;

/** The standing of one observation of a price. The greater (rank, observedAt, price) wins a key. */
export interface Standing {
  readonly rank: number;
  /** Epoch milliseconds. */
  readonly observedAt: number;
}

/** Published ticks of one symbol, all those in the window, that share a standing unless one is noted by itself. */
export interface Stretch extends Window, Standing {
  readonly symbol: string;
}

/** The standing of one published tick. */
export interface KeyStanding extends Standing {
  readonly symbol: string;
  readonly t: number;
}

/**
 * What is known of published keys: a key's own standing first, then the stretch it lies in, else what coverage says of
 * the moment (a stand-in).
 */
export interface KnownStandings {
  contested(symbol: string, t: number): Standing | undefined;
  /** Sorted and disjoint. */
  stretches(symbol: string): readonly Stretch[];
  standIn(symbol: string, t: number): Standing;
}

/**
 * Gathers the standings that have to be remembered, key after key in order of time: neighbours of one standing become a
 * stretch, whoever stands alone is noted by itself. So an import of millions of ticks costs a row for each symbol and day.
 */
export interface StandingNotes {
  readonly contested: KeyStanding[];
  /** Each takes the place of whatever was known of its window. */
  readonly stretches: Stretch[];
  /** The standing of the next key; `isNews`: whether what was known before says otherwise. */
  note(t: number, standing: Standing, isNews: boolean): void;
  /** As `note` for each of these many keys, the first and last of which are given. */
  noteRun(first: number, last: number, count: number, standing: Standing, isNews: boolean): void;
  /** A key comes by that needs no note, or the symbol ends: no stretch reaches over it. */
  pause(): void;
  /** Begins with another symbol, the one before having ended. */
  begin(symbol: string): void;
}

export function startNotes(): StandingNotes {
  const contested: KeyStanding[] = [];
  const stretches: Stretch[] = [];
  let symbol = '';
  let keys = 0;
  let news = false;
  let from = 0;
  let last = 0;
  let rank = 0;
  let observedAt = 0;
  const pause = (): void => {
    if (news && keys === 1) contested.push({ symbol, t: from, rank, observedAt });
    else if (news) stretches.push({ symbol, from, to: last + 1, rank, observedAt });
    keys = 0;
    news = false;
  };
  const noteRun = (first: number, end: number, count: number, standing: Standing, isNews: boolean): void => {
    if (standing.rank !== rank || standing.observedAt !== observedAt) pause();
    if (keys === 0) {
      from = first;
      rank = standing.rank;
      observedAt = standing.observedAt;
    }
    keys += count;
    last = end;
    news ||= isNews;
  };
  return {
    contested,
    stretches,
    pause,
    note: (t, standing, isNews) => noteRun(t, t, 1, standing, isNews),
    noteRun,
    begin(next) {
      symbol = next;
    },
  };
}

export const sameStanding = (a: Standing | undefined, b: Standing): boolean =>
  a !== undefined && a.rank === b.rank && a.observedAt === b.observedAt;
