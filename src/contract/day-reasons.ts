import { formatCount, formatDuration } from '../base/format-quantity.ts';
import { addDays, parseDayStart } from '../base/time.ts';
import { dayMs, minuteMs, type Window } from '../base/window.ts';

// Why a day is not complete, and what completes it. The only place that has words for it.

/**
 * Why a window of a symbol's lifetime is not covered:
 * - `damaged`: its ticks are in a damaged file, until a repair determines which ticks remain
 * - `lost`: its published ticks were lost
 * - `accepted`: an operator accepted it as a gap
 * - `expired`: the upstream no longer serves the window
 * - `suspended`: the upstream says that the symbol does not exist
 * - `failed`: it was requested without success
 * - `never asked`: no request for it is known
 */
export const gapReasons = ['damaged', 'lost', 'accepted', 'expired', 'suspended', 'failed', 'never asked'] as const;
export type GapReason = (typeof gapReasons)[number];

/**
 * Why a day is not complete. The reasons of gaps, and:
 * - `not over`: the day had not ended
 * - `lists incomplete`: not every market list was fetched completely within the day, so that its symbols are not known
 * - `lists unproven`: the lists were fetched, and are not known to be whole; `detail` says why
 * - `inferred`: covered by inference, without proof
 */
export const dayReasonNames = [
  'not over',
  'damaged',
  'failed',
  'never asked',
  'lists incomplete',
  'suspended',
  'lost',
  'expired',
  'accepted',
  'lists unproven',
  'inferred',
] as const satisfies readonly (GapReason | string)[];
export type DayReasonName = (typeof dayReasonNames)[number];

/** One reason. The window is the smallest that contains those of all its symbols, within the day; epoch ms. */
export interface DayReason extends Window {
  readonly reason: DayReasonName;
  /** Number of symbols with this reason; 0 if it concerns the day as a whole. */
  readonly symbols: number;
  /** What is known of the cause, one clause. */
  readonly detail?: string;
}

/** What is said of a day that is not complete. */
interface DayExplanation {
  readonly reasons: readonly DayReason[];
  /** The reasons as text: `coverage of the last 37 min of 12 symbols is inferred`. */
  readonly reason: string;
  /** What completes the day, as a clause, with its command at the end if there is one; null if nothing does. */
  readonly next_action: string | null;
}

/**
 * Completeness of a UTC day. `complete`: every expected symbol is covered to the end of the day by proven windows, and the
 * market lists are known to be whole.
 * `provisional`: the same, including inferred windows and other complete lists. `complete_with_exceptions`: the same, except for suspended symbols and for lost, accepted or expired windows.
 * `empty`: no symbol is expected. `incomplete`: all other days.
 */
export const dayStates = ['complete', 'provisional', 'complete_with_exceptions', 'incomplete', 'empty'] as const;

export interface DayState {
  readonly state: (typeof dayStates)[number];
  /** Number of symbols whose lifetime overlaps the day. */
  readonly expected: number;
  /** Number of symbols that are covered for the complete day, up to the time of the publish. */
  readonly covered: number;
  /** Some of the symbols without coverage, at most 20. */
  readonly missing: readonly string[];
  /** Suspended symbols and accepted, lost or expired windows, which do not make the day incomplete. */
  readonly exceptions: number;
  /** Why it is not complete; absent if it is complete or empty. */
  readonly reasons?: DayExplanation['reasons'];
  /** The same as text, and what completes the day. */
  readonly reason?: DayExplanation['reason'];
  readonly next_action?: DayExplanation['next_action'];
}

/** A day that is not complete. */
export interface OpenDay extends DayExplanation {
  /** YYYY-MM-DD. */
  readonly date: string;
  readonly state: DayState['state'];
}

type ExplainedState = Pick<DayState, 'state' | 'expected' | 'covered'> & Partial<Pick<DayExplanation, 'reasons'>>;

/** The reasons of a day in the order of `dayReasonNames`, as text, and the next action. `date` is YYYY-MM-DD. */
export function explainDay(date: string, reasons: readonly DayReason[]): DayExplanation {
  const sorted = reasons.toSorted((a, b) => dayReasonNames.indexOf(a.reason) - dayReasonNames.indexOf(b.reason));
  return {
    reasons: sorted,
    reason: sorted.map((reason) => formatReason(date, reason)).join('; '),
    next_action: suggestDayAction(date, date, sorted),
  };
}

const reasonTexts: Readonly<Record<DayReasonName, (what: string, symbols: number, detail: string) => string>> = {
  'not over': () => 'the day was not over at the last publish',
  'lists incomplete': () => 'the market lists of the day are incomplete, so that symbols may be unknown',
  'lists unproven': (_what, _symbols, detail) => `market lists not proven whole: ${detail}`,
  damaged: (what, symbols) => (symbols === 0 ? 'a file is damaged' : `${what} in damaged files`),
  failed: (what) => `requests for ${what} failed`,
  'never asked': (what, symbols) => `${what} ${toBe(what, symbols)} not requested yet`,
  suspended: (what, symbols) => `${what} ${toBe(what, symbols)} suspended: unknown to the service`,
  lost: (what) => `ticks of ${what} were lost`,
  expired: (what, symbols) => `${what} ${toBe(what, symbols)} no longer served`,
  accepted: (what, symbols) => `${what} ${toBe(what, symbols)} accepted as a gap`,
  // Symbols are neither: windows of them are.
  inferred: (what) => `coverage of ${what} is inferred`,
};

/** The verb of one symbol, or of several or a time of them. */
const toBe = (what: string, symbols: number): string => (symbols === 1 && what.startsWith('1 ') ? 'is' : 'are');

function formatReason(date: string, { reason, symbols, from, to, detail = '' }: DayReason): string {
  const what = formatExtent(parseDayStart(date), { from, to }, formatCount(symbols, 'symbol'));
  return reasonTexts[reason](what, symbols, detail);
}

/** The part of the day that is concerned: `12 symbols`, `the last 37 min of 12 symbols`. */
function formatExtent(day: number, { from, to }: Window, symbols: string): string {
  const [isFirst, isLast] = [from <= day, to >= day + dayMs];
  if (isFirst && isLast) return symbols;
  // The rounded duration would be a day.
  if ((isFirst || isLast) && to - from > dayMs - minuteMs / 2) return `almost the whole day of ${symbols}`;
  if (isLast) return `the last ${formatDuration(to - from)} of ${symbols}`;
  if (isFirst) return `the first ${formatDuration(to - from)} of ${symbols}`;
  const [start, end] = [formatTimeOfDay(from), formatTimeOfDay(to)];
  return start === end ? `${symbols} at ${start} UTC` : `${symbols} between ${start} and ${end} UTC`;
}

const formatTimeOfDay = (t: number): string => new Date(t).toISOString().slice(11, 16);

/**
 * What completes the days from `first` to `last` (YYYY-MM-DD), as a clause, with its command at the end; null if nothing
 * does. The first reason that an action helps decides.
 */
function suggestDayAction(first: string, last: string, reasons: readonly DayReason[]): string | null {
  const range = `--from ${first} --to ${addDays(last, 1)}`;
  const hasAny = (...names: readonly DayReasonName[]): boolean => reasons.some(({ reason }) => names.includes(reason));
  if (hasAny('damaged')) return 'to repair the file: oddslake verify --repair';
  if (hasAny('not over')) return 'the nights after its end complete it';
  const isUnproven = hasAny('inferred');
  const command = `oddslake backfill ${isUnproven ? '--recheck inferred ' : ''}${range}`;
  if (hasAny('failed', 'never asked')) return `the next night fetches them, or: ${command}`;
  // A list of a past day cannot be fetched any more.
  if (hasAny('lists incomplete')) return `the day stays incomplete; to list its gaps: oddslake gaps ${range}`;
  if (isUnproven) return `nights prove recent windows; to request what can be proven by now: ${command}`;
  if (hasAny('lists unproven')) return 'the day stays provisional, because its lists cannot be fetched any more';
  if (hasAny('suspended')) return 'to request suspended symbols now: oddslake symbols retry';
  if (hasAny('lost')) return 'to restore lost ticks: oddslake verify --repair';
  if (hasAny('expired', 'accepted')) return `there is nothing left to do; to list the windows: oddslake gaps ${range}`;
  return null;
}

/** Lists the past days that are neither complete nor empty, the newest first. */
export const listOpenDays = (days: Iterable<readonly [string, ExplainedState]>, nowMs: number): OpenDay[] =>
  [...days]
    .filter(([date, { state }]) => state !== 'complete' && state !== 'empty' && parseDayStart(date) + dayMs <= nowMs)
    .map(([date, day]): OpenDay => {
      const { state, covered, expected, reasons = [] } = day;
      const explanation = explainDay(date, reasons);
      if (reasons.length > 0) return { date, state, ...explanation };
      const share = `${covered} of ${formatCount(expected, 'symbol')} covered`;
      return { date, state, ...explanation, reason: covered === expected ? 'not proven yet' : share };
    })
    .sort((a, b) => (a.date < b.date ? 1 : -1));

/** One day, or several in a row of which the same is to be said. */
interface OpenDays {
  /** `2026-11-20`, or `2026-11-18 to 2026-11-20`. */
  readonly days: string;
  readonly count: number;
  readonly state: DayState['state'];
  readonly reason: string;
}

/** Joins successive days of which the same is to be said. `days` are the newest first, and so is the result. */
export function groupOpenDays(days: readonly OpenDay[]): OpenDays[] {
  const groups: { first: string; readonly last: OpenDay; count: number }[] = [];
  for (const day of days) {
    const group = groups.at(-1);
    const isNext = group !== undefined && addDays(day.date, 1) === group.first;
    if (isNext && group.last.state === day.state && group.last.reason === day.reason) {
      group.first = day.date;
      group.count++;
    } else groups.push({ first: day.date, last: day, count: 1 });
  }
  return groups.map(({ first, last, count }) => ({
    days: first === last.date ? first : `${first} to ${last.date}`,
    count,
    state: last.state,
    reason: last.reason,
  }));
}

/**
 * How many past days are complete, and which of the newest are not, as a clause: `31 of 33 days complete (all but 2026-10-29 and
 * 2026-11-30)`. One early window without proof holds the watermark back for ever, and says nothing of the days after it.
 * @param openDays all of them, the newest first
 */
export function describeCompleteDays(complete: number, total: number, openDays: readonly OpenDay[]): string {
  const count = `${complete} of ${formatCount(total, 'day')} complete`;
  // Days that have ended since the last publish are counted and not listed.
  if (complete === 0 || openDays.length === 0 || openDays.length !== total - complete) return count;
  const same = { state: 'incomplete', reason: '', reasons: [], next_action: null } as const;
  const [last, previous, earlier] = groupOpenDays(openDays.map(({ date }) => ({ date, ...same })));
  const since = earlier === undefined ? '' : ` since ${addDays(earlier.days.slice(-10), 1)}`;
  const open = [previous, last].flatMap((group) => group?.days ?? []);
  return `${count} (all${since} but ${open.join(' and ')})`;
}

/** Whether nothing completes the day: a list of a past day cannot be fetched any more. */
export const isLastingDay = ({ reasons }: Pick<OpenDay, 'reasons'>): boolean =>
  reasons.some(({ reason }) => reason === 'lists incomplete') && !reasons.some(({ reason }) => reason === 'damaged');

/** Whether the day is incomplete, and something completes it. Others are provisional, or stay as they are. */
const isCurable = (day: OpenDay): boolean => day.state === 'incomplete' && !isLastingDay(day);

const shownDaysMax = 3;

/**
 * The newest days, where there is little room, incomplete ones first. Days of which the same is to be said are one line.
 * @param days the newest first
 * @param count number of all open days, of which `days` may be a part
 */
export function selectShownDays(
  days: readonly OpenDay[],
  count: number = days.length,
): { readonly lines: readonly string[]; readonly more: number } {
  const rank = ({ state }: OpenDays): number => Number(state !== 'incomplete');
  const shown = groupOpenDays(days)
    .toSorted((a, b) => rank(a) - rank(b))
    .slice(0, shownDaysMax);
  return { lines: shown.map(formatOpenDays), more: count - shown.reduce((sum, group) => sum + group.count, 0) };
}

/** The command that completes open days, the newest first; null if none does. */
export function suggestOpenDaysCommand(days: readonly OpenDay[]): string | null {
  const [last, first] = [days[0], days.at(-1)];
  if (last === undefined || first === undefined) return null;
  const action = suggestDayAction(
    first.date,
    last.date,
    days.flatMap(({ reasons }) => reasons),
  );
  return /oddslake .*/.exec(action ?? '')?.[0] ?? null;
}

/** `2026-11-20 provisional: coverage of the last 37 min of 12 symbols is inferred`. */
export const formatOpenDays = ({ days, state, reason }: OpenDays): string =>
  `${days} ${state.replaceAll('_', ' ')}: ${reason}`;

/** The open days that a JSON document lists, and the number of all. */
export interface OpenDayList {
  readonly open_days: readonly OpenDay[];
  readonly open_days_count: number;
}

const listedDaysMax = 20;

/** Cuts a list of open days, the newest first, for a JSON document. Days that something completes stay in it before others. */
export function toOpenDayList(days: readonly OpenDay[]): OpenDayList {
  const kept = new Set([...new Set([...days.filter(isCurable), ...days])].slice(0, listedDaysMax));
  return { open_days: days.filter((day) => kept.has(day)), open_days_count: days.length };
}
