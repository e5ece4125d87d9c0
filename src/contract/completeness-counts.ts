import { formatDay, parseDayStart } from '../base/time.ts';
import { dayMs, floorToDay, intersect, subtract, type Window } from '../base/window.ts';
import { type DayState, dayStates, explainDay, type GapReason, gapReasons } from './day-reasons.ts';

/** Whether the day has no known gaps other than exceptions; provisional days count. */
export const isDayComplete = ({ state }: Pick<DayState, 'state'>): boolean => state !== 'incomplete';

/**
 * Completeness levels of an archive, from worst to best. `damaged`: published files are damaged. The others are as for
 * days.
 */
export const archiveStates = [
  'damaged',
  'incomplete',
  'provisional',
  'complete_with_exceptions',
  'complete',
  'empty',
] as const;

export type ArchiveState = 'damaged' | DayState['state'];

/** Completeness as counts, for the manifest, the run summary, the status and the metrics. */
export interface CompletenessCounts {
  readonly state: ArchiveState;
  /** Number of past days in each state. */
  readonly days: Readonly<Record<DayState['state'], number>>;
  /** Number of windows that are not covered, by reason. */
  readonly gaps: Readonly<Record<GapReason, number>>;
  /** Number of inferred windows. */
  readonly inferred_windows: number;
  /** Number of symbols that are polled. */
  readonly live: number;
  /** Number of symbols that would be polled if they were not suspended. */
  readonly suspended: number;
  /** Number of active symbols that `source.include` and `source.exclude` leave out; absent if there are none. */
  readonly excluded?: number;
  /** Number of symbols that users forgot; absent if there are none. */
  readonly forgotten?: number;
  /** Whether the market lists were complete on the last day on which they were requested. */
  readonly lists_complete: boolean;
  /** Number of files that are missing or have a checksum mismatch, and the affected days of ticks and coverage (YYYY-MM-DD). */
  readonly damaged: { readonly files: number; readonly dates: readonly string[] };
}

/** Number of symbols that are not collected, by decision. */
interface UnselectedCounts {
  readonly excluded?: number;
  readonly forgotten?: number;
}

/** Counts without those that are zero: most archives collect every symbol. */
const toUnselectedCounts = ({ excluded = 0, forgotten = 0 }: UnselectedCounts): UnselectedCounts => ({
  ...(excluded > 0 && { excluded }),
  ...(forgotten > 0 && { forgotten }),
});

interface CompletenessFindings {
  readonly days: ReadonlyMap<number, Pick<DayState, 'state'>>;
  readonly gaps: readonly { readonly reason: GapReason }[];
  readonly provisional: { readonly windows: number };
  readonly live: readonly unknown[];
  readonly suspended: number;
  readonly unselected?: UnselectedCounts;
  readonly areListsComplete: boolean;
  readonly damage: { readonly files: number; readonly days: ReadonlySet<number> } | null;
  readonly nowMs: number;
}

/** Counts the findings of a completeness check. */
export function countCompleteness({
  days,
  gaps,
  provisional,
  live,
  suspended,
  unselected = {},
  areListsComplete,
  damage,
  nowMs,
}: CompletenessFindings): CompletenessCounts {
  const dayCounts = countDays([...days].flatMap(([day, { state }]) => (day + dayMs <= nowMs ? [state] : [])));
  const gapCounts = Object.fromEntries(gapReasons.map((reason) => [reason, 0])) as Record<GapReason, number>;
  for (const { reason } of gaps) gapCounts[reason]++;
  const counts = {
    days: dayCounts,
    gaps: gapCounts,
    inferred_windows: provisional.windows,
    live: live.length,
    suspended,
    ...toUnselectedCounts(unselected),
    lists_complete: areListsComplete,
    damaged: { files: damage?.files ?? 0, dates: [...(damage?.days ?? [])].sort((a, b) => a - b).map(formatDay) },
  };
  return { state: computeArchiveState(counts), ...counts };
}

function countDays(states: readonly DayState['state'][]): Record<DayState['state'], number> {
  const counts = Object.fromEntries(dayStates.map((state) => [state, 0])) as Record<DayState['state'], number>;
  for (const state of states) counts[state]++;
  return counts;
}

/** How many of the past days on which a symbol was expected are complete. Every output that says so uses this. */
export function countCompleteDays({ days }: Pick<CompletenessCounts, 'days'>): { complete: number; total: number } {
  const all = dayStates.reduce((sum, state) => sum + days[state], 0);
  return { complete: days.complete, total: all - days.empty };
}

/** The state of an archive: the worst state of its days, gaps and files. */
function computeArchiveState({
  days,
  gaps,
  inferred_windows,
  live,
  suspended,
  lists_complete,
  damaged,
}: Omit<CompletenessCounts, 'state'>): ArchiveState {
  if (damaged.files > 0) return 'damaged';
  if (!lists_complete || days.incomplete > 0 || gaps.failed + gaps['never asked'] + gaps.damaged > 0)
    return 'incomplete';
  if (days.provisional + inferred_windows > 0) return 'provisional';
  const exceptions = gapReasons.some(
    (reason) => gaps[reason] > 0 && (isExceptedReason(reason) || reason === 'suspended'),
  );
  if (days.complete_with_exceptions + suspended > 0 || exceptions) return 'complete_with_exceptions';
  return days.complete > 0 || live > 0 ? 'complete' : 'empty';
}

/** The completeness in a manifest. */
interface PublishedCompleteness {
  readonly days: Readonly<Record<string, DayState>>;
  readonly reached: number | null;
  /** Absent before the first publish. */
  readonly completeness?: CompletenessCounts;
}

/** The number of damaged files, and the UTC midnights of the affected days of ticks and coverage. */
interface DamageFindings {
  readonly files: number;
  readonly days: ReadonlySet<number>;
}

/**
 * Updates the published completeness: adds damage found since the publish, and counts days that have ended since as
 * incomplete. Used by callers that check often or cannot read the state database.
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
  // Nothing is published yet.
  const { gaps, inferred_windows, suspended, live, lists_complete, ...rest } = published.completeness ?? {
    gaps: Object.fromEntries(gapReasons.map((reason) => [reason, 0])) as Record<GapReason, number>,
    inferred_windows: 0,
    suspended: 0,
    lists_complete: true,
    live: 0,
  };
  const last = Object.keys(days).reduce((max, date) => Math.max(max, parseDayStart(date)), Number.NEGATIVE_INFINITY);
  const endedDays = live > 0 && Number.isFinite(last) ? Math.max(0, (floorToDay(nowMs) - dayMs - last) / dayMs) : 0;
  const dayCounts = countDays(states);
  const counts = {
    days: { ...dayCounts, incomplete: dayCounts.incomplete + endedDays },
    gaps,
    inferred_windows,
    live,
    suspended,
    ...toUnselectedCounts(rest),
    lists_complete,
    damaged: { files: damage.files, dates: [...damage.days].sort((a, b) => a - b).map(formatDay) },
  };
  return { state: computeArchiveState(counts), ...counts };
}

/** Returns the days of a manifest. Days whose ticks or coverage are damaged become incomplete. */
export function updatePublishedDays(
  { days }: Pick<PublishedCompleteness, 'days'>,
  damage: DamageFindings,
): PublishedCompleteness['days'] {
  if (damage.days.size === 0) return days;
  const damageDay = (date: string, day: DayState): DayState => {
    const from = parseDayStart(date);
    if (!damage.days.has(from) || day.state === 'empty') return day;
    const others = (day.reasons ?? []).filter(({ reason }) => reason !== 'damaged');
    const damaged = { reason: 'damaged', symbols: 0, from, to: from + dayMs } as const;
    return { ...day, state: 'incomplete', ...explainDay(date, [damaged, ...others]) };
  };
  return Object.fromEntries(Object.entries(days).map(([date, day]) => [date, damageDay(date, day)]));
}

/** Number of windows that are known to stay missing: lost, expired or accepted. */
export const countExceptedGaps = ({ gaps }: Pick<CompletenessCounts, 'gaps'>): number =>
  gapReasons.reduce((sum, reason) => sum + (isExceptedReason(reason) ? gaps[reason] : 0), 0);

/** A gap with its reason. */
export interface GapWindow extends Window {
  readonly reason: GapReason;
  /** What the upstream responded, or why the gap was accepted. */
  readonly detail?: string;
  /** When the reason became known, epoch ms. */
  readonly since?: number;
  /** Number of ticks in a lost window. */
  readonly ticks?: number;
}

/**
 * Splits the gaps of one symbol, sorted and disjoint, at the ends of `marks`, so that each part has one reason. If several
 * marks overlap, the first reason in the order of `gapReasons` applies.
 */
export function splitByReason(gaps: readonly Window[], marks: readonly GapWindow[]): GapWindow[] {
  const out: GapWindow[] = [];
  let rest = [...gaps];
  for (const mark of marks.toSorted((a, b) => gapReasons.indexOf(a.reason) - gapReasons.indexOf(b.reason))) {
    if (rest.length === 0) break;
    const covered = intersect(rest, [mark]);
    if (covered.length === 0) continue;
    for (const { from, to } of covered) out.push({ ...mark, from, to });
    rest = subtract(rest, [mark]);
  }
  for (const { from, to } of rest) out.push({ from, to, reason: 'never asked' });
  return out.sort((a, b) => a.from - b.from);
}

/**
 * Whether gaps with this reason are exceptions. Exceptions neither hold back the watermark nor increase the lag, and
 * only one run fails because of them.
 */
const isExceptedReason = (reason: GapReason): boolean =>
  reason === 'lost' || reason === 'accepted' || reason === 'expired';
