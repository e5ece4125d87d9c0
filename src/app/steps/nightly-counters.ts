import type { LateRules } from '../../archive/publish/late-ticks.ts';
import type { Window } from '../../core/window.ts';

/** What the polls of a run note for the summary of a night. */
export interface NightNotes {
  /** How late ticks are counted; absent where it polls no ticks. */
  late?: LateRules;
  /** Whether responses to its polls contradicted each other. */
  isPagingContradicted: boolean;
  /** The moment of the market lists that it polled, epoch ms; null where none could be had. */
  listedAt: number | null;
  /** Why its lists are suspiciously short, one clause; null where they are not. */
  shortLists: string | null;
  /** Symbols whose ticks it was to have up to its end. */
  polled: number;
  /** What it asked for and has not got. */
  readonly lacking: (Window & { readonly symbol: string })[];
  /** Symbols of which it asked for a time that the service may have thinned out by now. */
  readonly tooLate: string[];
}

export const startNotes = (): NightNotes => ({
  listedAt: null,
  shortLists: null,
  polled: 0,
  lacking: [],
  tooLate: [],
  isPagingContradicted: false,
});
