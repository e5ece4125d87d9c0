import type { LateTickRules } from '../../archive/publish/late-ticks.ts';
import type { Window } from '../../core/window.ts';

/** What the polls of a run note for the summary of a night. */
export interface NightCounters {
  /** How late ticks are counted; absent where it polls no ticks. */
  lateRules?: LateTickRules;
  /** Whether responses to its polls contradicted each other. */
  isPagingContradicted: boolean;
  /** The moment of the market lists that it polled, epoch ms; null where none could be had. */
  listedAt: number | null;
  /** Why its lists are suspiciously short, one clause; null where they are not. */
  shortListsReason: string | null;
  /** Symbols whose ticks it was to have up to its end. */
  polledCount: number;
  /** What it asked for and has not got. */
  readonly missingWindows: (Window & { readonly symbol: string })[];
  /** Symbols of which it asked for a time that the service may have thinned out by now. */
  readonly tooLateSymbols: string[];
}

export const createNightCounters = (): NightCounters => ({
  listedAt: null,
  shortListsReason: null,
  polledCount: 0,
  missingWindows: [],
  tooLateSymbols: [],
  isPagingContradicted: false,
});
