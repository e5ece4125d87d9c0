import type { Random } from './ports.ts';
import { dayMs, minuteMs } from './window.ts';

/** The times of a schedule, in epoch milliseconds. */
export interface Timetable {
  /** The last time at or before `ms`; null if there is none. */
  findLast(ms: number): number | null;
  /** The first time after `ms`; null if there is none. */
  findNext(ms: number): number | null;
}

export interface ScheduleRules {
  /** Maximum random delay of a start, in ms. A run always starts before the next scheduled time. */
  readonly jitterMs: number;
  /** Maximum age of a missed time whose run is still made up for, in ms. */
  readonly catchUpMs: number;
}

/** State of one scheduled job. */
export interface ScheduleEntry {
  readonly name: string;
  readonly timetable: Timetable;
  /** Scheduled times up to and including this one are handled. */
  readonly handledThrough: number;
  /** A scheduled time that has passed and whose run has not started yet. */
  readonly waiting: { readonly moment: number; readonly startAt: number } | null;
}

interface ScheduledRun {
  readonly name: string;
  readonly moment: number;
}

export interface ScheduleDecision {
  readonly entries: readonly ScheduleEntry[];
  readonly start: readonly ScheduledRun[];
  /** Scheduled times without a run: the previous run has not ended, or the time was missed by too much. */
  readonly skipped: readonly (ScheduledRun & { readonly why: 'running' | 'missed' })[];
  /** When to decide again: after `nowMs`, at most one minute later. */
  readonly wakeAt: number;
}

/** A start this late still counts as on time, in ms. The clock is read once a minute. */
const delayMsMax = 2 * minuteMs;

/**
 * How far `handledThrough` may be ahead of the clock, in ms. If it is further ahead, the clock has been set back since, and
 * `handledThrough` is reset to the present: otherwise nothing would run until the clock catches up.
 */
const handledAheadMsMax = dayMs;

/** State of a job when the schedule starts. A job that never ran has missed nothing. */
export const createScheduleEntry = (
  name: string,
  timetable: Timetable,
  lastStart: number | null,
  nowMs: number,
): ScheduleEntry => ({
  name,
  timetable: timetable,
  handledThrough: lastStart ?? nowMs,
  waiting: null,
});

/**
 * Decides which jobs to start now. Of several scheduled times that have passed only the latest counts, so a machine that
 * slept makes up for them with one run. A handled time is not repeated if the clock is set back.
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
    const scheduledRun = { name, moment: waiting.moment };
    if (nowMs - waiting.startAt > Math.max(rules.catchUpMs, delayMsMax))
      skipped.push({ ...scheduledRun, why: 'missed' });
    else if (running.has(name)) skipped.push({ ...scheduledRun, why: 'running' });
    else start.push(scheduledRun);
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

const computeNextWake = ({ waiting, timetable }: ScheduleEntry, nowMs: number): number =>
  Math.min(waiting?.startAt ?? Number.POSITIVE_INFINITY, timetable.findNext(nowMs) ?? Number.POSITIVE_INFINITY);

/**
 * Returns the latest scheduled time that is at least `lateMs` ago and has no finished run; null if there is none.
 * @param endedStart start of the last run that ended; if none has ended, the start of the schedule
 */
export function findLateMoment(timetable: Timetable, endedStart: number, nowMs: number, lateMs: number): number | null {
  const moment = timetable.findLast(nowMs - lateMs);
  return moment !== null && moment > endedStart ? moment : null;
}

/** When a job starts next, before any jitter that is not drawn yet; null if never. */
export const computeNextStart = ({ waiting, timetable }: ScheduleEntry, nowMs: number): number | null =>
  waiting?.startAt ?? timetable.findNext(nowMs);
