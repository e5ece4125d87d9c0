import type { Random } from './ports.ts';
import { dayMs, minuteMs } from './window.ts';

/** Scheduled times of a job, in epoch milliseconds. */
export interface Timetable {
  /** The last time at or before `ms`; null if there is none. */
  findLast(ms: number): number | null;
  /** The first time after `ms`; null if there is none. */
  findNext(ms: number): number | null;
}

export interface ScheduleRules {
  /** Maximum random delay of a start, in ms. A run always starts before the next scheduled time. */
  readonly jitterMs: number;
  /** Maximum delay of a missed run, in ms. Runs that would start later are skipped. */
  readonly catchUpMs: number;
}

/** State of one scheduled job. */
export interface ScheduleEntry {
  readonly name: string;
  readonly timetable: Timetable;
  /** All scheduled times up to and including this time are handled. */
  readonly handledThrough: number;
  /** The pending run: its scheduled time has passed, but it has not started yet. */
  readonly waiting: { readonly moment: number; readonly startAt: number } | null;
}

interface ScheduledRun {
  readonly name: string;
  readonly moment: number;
}

export interface ScheduleDecision {
  readonly entries: readonly ScheduleEntry[];
  readonly start: readonly ScheduledRun[];
  /** Scheduled times that are skipped because the previous run has not ended, or because their time is long past. */
  readonly skipped: readonly (ScheduledRun & { readonly why: 'running' | 'missed' })[];
  /** When to decide again: after `nowMs`, at most one minute later. */
  readonly wakeAt: number;
}

/** A start with at most this delay counts as on time, in ms. The clock is read once a minute. */
const delayMsMax = 2 * minuteMs;

/**
 * Maximum time by which `handledThrough` may be ahead of the clock, in ms. If it is further ahead, the clock was set back, and
 * `handledThrough` is reset to the current time. Otherwise no run would start until the clock reaches it.
 */
const handledAheadMsMax = dayMs;

/** Initial state of a job. A job without an earlier run has no missed runs. */
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
 * Decides which jobs to start now. If several scheduled times of a job have passed, only one run starts. If the clock is
 * set back, handled times are not repeated.
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

/** Time of the next start of a job; null if there is none. If no run is pending, the time does not include jitter. */
export const computeNextStart = ({ waiting, timetable }: ScheduleEntry, nowMs: number): number | null =>
  waiting?.startAt ?? timetable.findNext(nowMs);
