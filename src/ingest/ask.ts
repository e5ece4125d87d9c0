import type { Window } from '../core/window.ts';

/**
 * A window to be asked for, and why.
 * - `whole`: nothing is known of it
 * - `low`, `high`: what the answer of its parent may have left out before its first or after its last tick
 * - `earlier`: what lies before the start that the answer of its parent stated
 */
export interface Ask extends Window {
  readonly kind: 'whole' | 'low' | 'high' | 'earlier';
  /** For low and high: claimed from it where the side makes asking needless. */
  readonly parent?: Answer;
  /** A part of a window that was refused; the older half is asked for only where the recent one was answered. */
  readonly part?: 'some' | 'older half';
}

export interface Span {
  readonly first: number;
  readonly last: number;
}

/** What matters of an answer for paging. Times in epoch ms. */
export interface Answer extends Claims {
  /** Elements received, usable or not. */
  readonly count: number;
  /** First and last usable tick inside the ask; null where there is none. */
  readonly span: Span | null;
  /** First and last usable tick, inside the ask or not. */
  readonly brought: Span | null;
  readonly observedAt: number;
  readonly asked: Window;
  /** The window that stood in the request for it. */
  readonly requested: Window;
}

export interface Claims {
  /** What the answer speaks for: asked, claimed by the service, before it was generated, without the gaps it names. */
  readonly answered: readonly Window[];
  /** What was asked and lies before the answer's generation, but the service did not claim. */
  readonly unclaimed: readonly Window[];
  /** Whether it claimed anything of what was asked, if only to say that it lacks it. */
  readonly spoke: boolean;
}
