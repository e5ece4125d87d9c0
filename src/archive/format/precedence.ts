import type { Window } from '../../base/window.ts';

/** Ranks of observations by origin: an import that only fills gaps, a poll, an import with --prefer. */
export const precedenceRanks = { import: 0, poll: 1, preferred: 2 } as const;

/**
 * Precedence of one observation of a price. The observation with the greatest (rank, observedAt, price) has precedence.
 */
export interface Precedence {
  readonly rank: number;
  /** Epoch milliseconds. */
  readonly observedAt: number;
}

/** A window of one symbol in which all published ticks share a precedence. It is within one UTC day. */
export interface PrecedenceWindow extends Window, Precedence {
  readonly symbol: string;
}

/**
 * Known precedence of published keys. Keys outside all windows get a precedence that is inferred from coverage. Such
 * keys occur after the state was lost.
 */
export interface KnownPrecedence {
  /** Sorted and disjoint. */
  getWindows(symbol: string): readonly PrecedenceWindow[];
  inferPrecedence(symbol: string, t: number): Precedence;
  /**
   * In a union: the precedence of a published row against another row of its key, as both archives publish it. What this archive
   * knows besides stays, where its row is kept.
   */
  findPublished?(symbol: string, t: number): Precedence | undefined;
}

/**
 * Collects the precedence to store, key by key in time order. Adjacent keys with the same precedence share a window.
 */
export type PrecedenceRecorder = ReturnType<typeof createPrecedenceRecorder>;

export function createPrecedenceRecorder() {
  const windows: PrecedenceWindow[] = [];
  let symbol = '';
  let isOpen = false;
  let hasChange = false;
  let from = 0;
  let last = 0;
  let rank = 0;
  let observedAt = 0;
  const pause = (): void => {
    if (hasChange) windows.push({ symbol, from, to: last + 1, rank, observedAt });
    isOpen = false;
    hasChange = false;
  };
  const recordRun = (first: number, end: number, precedence: Precedence, isChanged: boolean): void => {
    if (precedence.rank !== rank || precedence.observedAt !== observedAt) pause();
    if (!isOpen) {
      isOpen = true;
      from = first;
      rank = precedence.rank;
      observedAt = precedence.observedAt;
    }
    last = end;
    hasChange ||= isChanged;
  };
  return {
    /** Each replaces what was known for its window. */
    windows,
    /** Ends the current window. Called at a published key without a known observation, and at the end of a symbol. */
    pause,
    /** Records the precedence of the next key. `isChanged` is true if it differs from the known one. */
    record: (t: number, precedence: Precedence, isChanged: boolean) => recordRun(t, t, precedence, isChanged),
    /** Like `record`, for every key from `first` to `last`, inclusive. */
    recordRun,
    /** Starts a new symbol. The previous one must have ended with `pause`. */
    begin(next: string) {
      symbol = next;
    },
  };
}

/** Overlays new windows on the known windows of the same symbol, which they replace. Both are sorted and disjoint. */
export function overlayPrecedence(
  known: readonly PrecedenceWindow[],
  fresh: readonly PrecedenceWindow[],
): PrecedenceWindow[] {
  const out: PrecedenceWindow[] = [];
  /** Adjacent windows with the same precedence are joined. */
  const add = (window: PrecedenceWindow): void => {
    const last = out.at(-1);
    if (last !== undefined && last.to === window.from && hasSamePrecedence(last, window))
      out[out.length - 1] = { ...last, to: window.to };
    else out.push(window);
  };
  let k = 0;
  /** The remainder of the next known window. */
  let remainder = known[0];
  const advance = (): void => {
    remainder = known[++k];
  };
  for (const window of fresh) {
    while (remainder !== undefined && remainder.from < window.from) {
      if (remainder.to <= window.from) {
        add(remainder);
        advance();
      } else {
        add({ ...remainder, to: window.from });
        remainder = { ...remainder, from: window.from };
      }
    }
    while (remainder !== undefined && remainder.to <= window.to) advance();
    if (remainder !== undefined && remainder.from < window.to) remainder = { ...remainder, from: window.to };
    add(window);
  }
  for (; remainder !== undefined; advance()) add(remainder);
  return out;
}

export const hasSamePrecedence = (a: Precedence | undefined, b: Precedence): boolean =>
  a !== undefined && a.rank === b.rank && a.observedAt === b.observedAt;

/** Whether observation `a` wins over observation `b` of the same key. `isGreater`: whether the value of `a` is greater. */
export const hasPrecedence = (a: Precedence, b: Precedence, isGreater: boolean): boolean =>
  a.rank !== b.rank ? a.rank > b.rank : a.observedAt !== b.observedAt ? a.observedAt > b.observedAt : isGreater;
