import { formatCount } from '../base/format-quantity.ts';
import { formatDay, parseDayStart } from '../base/time.ts';
import { dayMs, floorToDay, intersect, subtract, type Window } from '../base/window.ts';

/**
 * How whole a UTC day is. `complete`: every symbol expected is covered to its end by proven windows, answered at least
 * `settleMs` after each moment. `provisional`: the same, but for inferred windows. `complete_with_exceptions`: but for
 * suspended symbols and excepted windows. `empty`: no symbol is expected.
 */
export const dayStates = ['complete', 'provisional', 'complete_with_exceptions', 'incomplete', 'empty'] as const;

export interface DayState {
  readonly state: (typeof dayStates)[number];
  /** Symbols whose lifetime meets the day. */
  readonly expected: number;
  /** Those covered throughout, as far as the day had gone when it was published. */
  readonly covered: number;
  /** Some of the others, at most 20. */
  readonly missing: readonly string[];
  /** Suspended symbols, and accepted, lost or expired windows, that the state looks away from. */
  readonly exceptions: number;
}

/** Whether nothing of a day is missing as far as is known, be it provisionally or but for exceptions. */
export const isDayWhole = ({ state }: Pick<DayState, 'state'>): boolean => state !== 'incomplete';

/** How whole an archive is, the gravest first: the states of days, and that published files are damaged. */
export const archiveStates = [
  'damaged',
  'incomplete',
  'provisional',
  'complete_with_exceptions',
  'complete',
  'empty',
] as const;

export type ArchiveState = 'damaged' | DayState['state'];

/** A verdict in figures, as manifest, summary, status and metrics have it. */
export interface CompletenessCounts {
  readonly state: ArchiveState;
  /** How many days that are over are of each state. */
  readonly days: Readonly<Record<DayState['state'], number>>;
  /** Windows that are not covered, by reason. */
  readonly gaps: Readonly<Record<GapReason, number>>;
  /** Windows that are covered by inference alone. */
  readonly provisional: number;
  /** Symbols that polls are for. */
  readonly live: number;
  /** Symbols that polls would be for, were they not suspended. */
  readonly suspended: number;
  /** Whether the market lists of the last day on which they were asked for were had whole. */
  readonly listed: boolean;
  /** Files that are known not to be as published, and the days, YYYY-MM-DD, whose ticks or coverage are among them. */
  readonly damaged: { readonly files: number; readonly dates: readonly string[] };
}

interface CompletenessFindings {
  readonly days: ReadonlyMap<number, Pick<DayState, 'state'>>;
  readonly gaps: readonly { readonly reason: GapReason }[];
  readonly provisional: { readonly windows: number };
  readonly live: readonly unknown[];
  readonly suspended: number;
  readonly listed: boolean;
  readonly damage: { readonly files: number; readonly days: ReadonlySet<number> } | null;
  readonly nowMs: number;
}

/** Puts a verdict into figures. */
export function countCompleteness({
  days,
  gaps,
  provisional,
  live,
  suspended,
  listed,
  damage,
  nowMs,
}: CompletenessFindings): CompletenessCounts {
  const ofDays = countDays([...days].flatMap(([day, { state }]) => (day + dayMs <= nowMs ? [state] : [])));
  const ofGaps = Object.fromEntries(gapReasons.map((reason) => [reason, 0])) as Record<GapReason, number>;
  for (const { reason } of gaps) ofGaps[reason]++;
  const counted = {
    days: ofDays,
    gaps: ofGaps,
    provisional: provisional.windows,
    live: live.length,
    suspended,
    listed,
    damaged: { files: damage?.files ?? 0, dates: [...(damage?.days ?? [])].sort((a, b) => a - b).map(formatDay) },
  };
  return { state: computeArchiveState(counted), ...counted };
}

/** How many days are of each state. */
export function countDays(states: readonly DayState['state'][]): Record<DayState['state'], number> {
  const counts = Object.fromEntries(dayStates.map((state) => [state, 0])) as Record<DayState['state'], number>;
  for (const state of states) counts[state]++;
  return counts;
}

/** The state of an archive: that of the worst that there is of it. */
function computeArchiveState({
  days,
  gaps,
  provisional,
  live,
  suspended,
  listed,
  damaged,
}: Omit<CompletenessCounts, 'state'>): ArchiveState {
  if (damaged.files > 0) return 'damaged';
  if (!listed || days.incomplete > 0 || gaps.failed + gaps['never asked'] + gaps.damaged > 0) return 'incomplete';
  if (days.provisional + provisional > 0) return 'provisional';
  const exceptions = gapReasons.some(
    (reason) => gaps[reason] > 0 && (isExceptedReason(reason) || reason === 'suspended'),
  );
  if (days.complete_with_exceptions + suspended > 0 || exceptions) return 'complete_with_exceptions';
  return days.complete > 0 || live > 0 ? 'complete' : 'empty';
}

/** What a manifest says of how whole its generation is. */
export interface PublishedCompleteness {
  readonly days: Readonly<Record<string, DayState>>;
  readonly reached: number | null;
  /** Absent from what older versions wrote. */
  readonly verdict?: CompletenessCounts;
}

/** Files that are known not to be as published: how many, and the UTC midnights of those of ticks and coverage. */
export interface DamageFindings {
  readonly files: number;
  readonly days: ReadonlySet<number>;
}

/**
 * Brings what was published up to a later moment: damage that was found since counts, and so do days that have ended
 * since, which nobody has judged. For those that look often, or cannot read the state.
 */
export function updatePublishedCompleteness(
  published: PublishedCompleteness,
  damage: DamageFindings,
  nowMs: number,
): CompletenessCounts {
  const days = updatePublishedDays(published, damage);
  const states = Object.entries(days).flatMap(([date, { state }]) =>
    parseDayStart(date) + dayMs <= nowMs ? [state] : [],
  );
  // Of an older manifest no gap is known: its days say whether there are any.
  const { gaps, provisional, suspended, live, listed } = published.verdict ?? {
    gaps: Object.fromEntries(gapReasons.map((reason) => [reason, 0])) as Record<GapReason, number>,
    provisional: 0,
    suspended: 0,
    listed: true,
    live: published.reached === null ? 0 : 1,
  };
  const last = Object.keys(days).reduce((max, date) => Math.max(max, parseDayStart(date)), Number.NEGATIVE_INFINITY);
  const ended = live > 0 && Number.isFinite(last) ? Math.max(0, (floorToDay(nowMs) - dayMs - last) / dayMs) : 0;
  const ofDays = countDays(states);
  const counted = {
    days: { ...ofDays, incomplete: ofDays.incomplete + ended },
    gaps,
    provisional,
    live,
    suspended,
    listed,
    damaged: { files: damage.files, dates: [...damage.days].sort((a, b) => a - b).map(formatDay) },
  };
  return { state: computeArchiveState(counted), ...counted };
}

/** The days of a manifest: one whose ticks or coverage are known to be damaged is incomplete. */
export function updatePublishedDays(
  { days }: Pick<PublishedCompleteness, 'days'>,
  damage: DamageFindings,
): PublishedCompleteness['days'] {
  if (damage.days.size === 0) return days;
  return Object.fromEntries(
    Object.entries(days).map(([date, day]) => [
      date,
      damage.days.has(parseDayStart(date)) && day.state !== 'empty' ? { ...day, state: 'incomplete' as const } : day,
    ]),
  );
}

/** The state of an archive in words: `complete with exceptions`. */
export const formatArchiveState = (state: ArchiveState): string => state.replaceAll('_', ' ');

/** A verdict as one clause: `incomplete: 2 days, 3 gaps; 4 windows are provisional`. */
export function formatCompleteness(verdict: CompletenessCounts): string {
  const { state, days, gaps, provisional, suspended, listed, damaged } = verdict;
  const open = gaps.failed + gaps['never asked'] + gaps.damaged;
  const excepted = gapReasons.reduce((sum, reason) => sum + (isExceptedReason(reason) ? gaps[reason] : 0), 0);
  const some = (count: number, text: string): string[] => (count === 0 ? [] : [text]);
  const missing = [
    ...some(damaged.files, `${formatCount(damaged.files, 'file')} not as published`),
    ...some(days.incomplete, `${formatCount(days.incomplete, 'day')} incomplete`),
    ...some(open, formatCount(open, 'gap')),
    ...(listed ? [] : ['the last market lists were not had whole']),
  ].join(', ');
  const inferred = days.provisional + provisional;
  const unproven = [
    ...some(provisional, formatCount(provisional, 'window')),
    ...some(days.provisional, formatCount(days.provisional, 'day')),
  ].join(' and ');
  const told = [
    ...some(missing.length, missing),
    ...some(inferred, `${unproven} ${provisional + days.provisional === 1 ? 'is' : 'are'} provisional`),
    ...some(suspended, `${formatCount(suspended, 'symbol')} suspended`),
    ...some(excepted, `${formatCount(excepted, 'window')} lost, expired or accepted`),
  ];
  return [formatArchiveState(state), ...some(told.length, told.join('; '))].join(': ');
}

/**
 * Why a window of a symbol's lifetime is not covered:
 * - `damaged`: its ticks are in a file that is not as published, until a repair says what is left of them
 * - `lost`: its ticks were published once, and were lost
 * - `accepted`: somebody said that it stays a gap
 * - `expired`: the service goes back no further by now
 * - `suspended`: the service says that it does not know the symbol
 * - `failed`: it was asked for, in vain
 * - `never asked`: no request was for it, as far as is known
 */
export const gapReasons = ['damaged', 'lost', 'accepted', 'expired', 'suspended', 'failed', 'never asked'] as const;
export type GapReason = (typeof gapReasons)[number];

/** A window that has a reason to be a gap. */
export interface GapWindow extends Window {
  readonly reason: GapReason;
  /** In words: what the service answered, or why it was accepted. */
  readonly detail?: string;
  /** Since when that is known, epoch ms. */
  readonly since?: number;
  /** How many ticks a lost window had. */
  readonly ticks?: number;
}

/**
 * Cuts the gaps of one symbol, in order and disjoint, where their reasons change. Where several marks hold a window, the
 * one that says the most counts, in the order of `gapReasons`: what is lost, accepted or expired is nothing that the next
 * run brings.
 */
export function splitByReason(gaps: readonly Window[], marks: readonly GapWindow[]): GapWindow[] {
  const out: GapWindow[] = [];
  let rest = [...gaps];
  for (const mark of marks.toSorted((a, b) => gapReasons.indexOf(a.reason) - gapReasons.indexOf(b.reason))) {
    if (rest.length === 0) break;
    const taken = intersect(rest, [mark]);
    if (taken.length === 0) continue;
    for (const { from, to } of taken) out.push({ ...mark, from, to });
    rest = subtract(rest, [mark]);
  }
  for (const { from, to } of rest) out.push({ from, to, reason: 'never asked' });
  return out.sort((a, b) => a.from - b.from);
}

/** Whether a gap for that reason is told as a failure by one run only, and holds up neither watermark nor lag. */
export const isExceptedReason = (reason: GapReason): boolean =>
  reason === 'lost' || reason === 'accepted' || reason === 'expired';
