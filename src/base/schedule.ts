import type { Random } from './ports.ts';
import { dayMs, minuteMs } from './window.ts';

/** The moments of a schedule, in epoch milliseconds. */
export interface Timetable {
  /** The last moment at or before `ms`; null where there was none. */
  findLast(ms: number): number | null;
  /** The first moment after `ms`; null where none will come. */
  findNext(ms: number): number | null;
}

export interface ScheduleRules {
  /** A run starts up to so long after its moment, in ms, but always before the next one. */
  readonly jitterMs: number;
  /** How old a missed moment may be for its run to be made up for, in ms. */
  readonly catchUpMs: number;
}

/** Where one job stands with its schedule. */
export interface ScheduleEntry {
  readonly name: string;
  readonly timetable: Timetable;
  /** Moments up to here are dealt with. */
  readonly handledThrough: number;
  /** A moment that has come and whose run is still to start. */
  readonly waiting: { readonly moment: number; readonly startAt: number } | null;
}

export interface ScheduledRun {
  readonly name: string;
  readonly moment: number;
}

export interface ScheduleDecision {
  readonly entries: readonly ScheduleEntry[];
  readonly start: readonly ScheduledRun[];
  /** Moments without a run: the one before is still running, or they were missed for too long. */
  readonly skipped: readonly (ScheduledRun & { readonly why: 'running' | 'missed' })[];
  /** When to look again; after `nowMs`, by a minute at most. */
  readonly wakeAt: number;
}

/** How late a run may start and still count as in time, in ms: the clock is looked at every minute. */
const delayMsMax = 2 * minuteMs;

/**
 * How far ahead of the clock a dealt-with moment may lie, in ms. Further ahead, the clock was wrong then, and has been
 * set back since: waiting until it gets there again would be no schedule at all.
 */
const handledAheadMsMax = dayMs;

/** A job as it stands when the schedule begins. One that never ran has missed nothing. */
export const createScheduleEntry = (
  name: string,
  rhythm: Timetable,
  lastStart: number | null,
  nowMs: number,
): ScheduleEntry => ({
  name,
  timetable: rhythm,
  handledThrough: lastStart ?? nowMs,
  waiting: null,
});

/**
 * What to start now. Of the moments that have come since the last look only the latest counts, so that a machine that
 * slept makes up for them with one run; a moment that was dealt with never comes again when the clock goes back.
 */
export function decideRuns(
  entries: readonly ScheduleEntry[],
  running: ReadonlySet<string>,
  nowMs: number,
  rules: ScheduleRules,
  random: Random,
): ScheduleDecision {
  const start: ScheduledRun[] = [];
  const skipped: (ScheduledRun & { why: 'running' | 'missed' })[] = [];
  const after = entries.map((entry): ScheduleEntry => {
    const due = markDue(entry, nowMs, rules, random);
    const { name, waiting } = due;
    if (waiting === null || waiting.startAt > nowMs) return due;
    const turn = { name, moment: waiting.moment };
    if (nowMs - waiting.startAt > Math.max(rules.catchUpMs, delayMsMax)) skipped.push({ ...turn, why: 'missed' });
    else if (running.has(name)) skipped.push({ ...turn, why: 'running' });
    else start.push(turn);
    return { ...due, waiting: null };
  });
  const wakeAt = Math.min(nowMs + minuteMs, ...after.map((entry) => computeNextWake(entry, nowMs)));
  return { entries: after, start, skipped, wakeAt };
}

function markDue(entry: ScheduleEntry, nowMs: number, { jitterMs }: ScheduleRules, random: Random): ScheduleEntry {
  if (entry.handledThrough > nowMs + handledAheadMsMax) return { ...entry, handledThrough: nowMs, waiting: null };
  const moment = entry.timetable.findLast(nowMs);
  if (moment === null || moment <= entry.handledThrough) return entry;
  const gap = (entry.timetable.findNext(moment) ?? Number.POSITIVE_INFINITY) - moment;
  const startAt = moment + Math.floor(random() * Math.min(jitterMs, gap));
  return { ...entry, handledThrough: moment, waiting: { moment, startAt } };
}

/** When an entry next calls for a decision. */
const computeNextWake = ({ waiting, timetable }: ScheduleEntry, nowMs: number): number =>
  Math.min(waiting?.startAt ?? Number.POSITIVE_INFINITY, timetable.findNext(nowMs) ?? Number.POSITIVE_INFINITY);

/**
 * The latest moment that lies `lateMs` back or more, where no run begun at or after it has ended.
 * @param endedStart when the last run that has ended began; where none has, since when the schedule is kept
 */
export function findLateMoment(rhythm: Timetable, endedStart: number, nowMs: number, lateMs: number): number | null {
  const moment = rhythm.findLast(nowMs - lateMs);
  return moment !== null && moment > endedStart ? moment : null;
}

/** When a job starts next, as far as that is known; null where no moment will come. */
export const computeNextStart = ({ waiting, timetable }: ScheduleEntry, nowMs: number): number | null =>
  waiting?.startAt ?? timetable.findNext(nowMs);
