import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  createScheduleEntry,
  decideRuns,
  type ScheduleDecision,
  type ScheduleEntry,
  type Timetable,
} from '../../src/base/timetable.ts';
import { checkProperty } from '../harness/properties.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const start = Date.UTC(2026, 6, 10);

/** A time every `period`, starting at the epoch. */
const every = (period: number): Timetable => ({
  findLast: (ms) => Math.floor(ms / period) * period,
  findNext: (ms) => (Math.floor(ms / period) + 1) * period,
});
const rules = { jitterMs: 0, catchUpMs: 6 * hour };
const nobody: ReadonlySet<string> = new Set();
const look = (entry: ScheduleEntry, nowMs: number, running = nobody, own = rules, chance = 0.5): ScheduleDecision =>
  decideRuns([entry], running, nowMs, own, () => chance);
const hourly = (lastStart: number | null, nowMs = start) => createScheduleEntry('job', every(hour), lastStart, nowMs);

describe('a scheduled job', () => {
  test('starts once at its scheduled time, and is checked every minute', () => {
    const before = look(hourly(null, start + 1), start + 10 * minute);
    expect(before).toMatchObject({ start: [], skipped: [], wakeAt: start + 11 * minute });
    const near = look(before.entries[0]!, start + hour - 5);
    expect(near).toMatchObject({ start: [], wakeAt: start + hour });
    const at = look(near.entries[0]!, start + hour);
    expect(at).toMatchObject({ start: [{ name: 'job', moment: start + hour }], wakeAt: start + hour + minute });
    expect(look(at.entries[0]!, start + hour + minute).start).toEqual([]);
  });

  test('that never ran has missed nothing', () => {
    expect(look(hourly(null, start + 30 * minute), start + 30 * minute).start).toEqual([]);
  });

  test('makes up for all missed starts with one run', () => {
    const late = start + 5 * hour + 20 * minute;
    const decision = look(hourly(start + 5, late), late);
    expect(decision.start).toEqual([{ name: 'job', moment: start + 5 * hour }]);
    expect(look(decision.entries[0]!, late + minute).start).toEqual([]);
  });

  test('makes up for nothing after a manual start', () => {
    expect(look(hourly(start + 5 * minute), start + 20 * minute).start).toEqual([]);
  });

  test('skips a start whose time is long past', () => {
    const daily = createScheduleEntry('job', every(day), start - 3 * day, start + 7 * hour);
    const decision = look(daily, start + 7 * hour);
    expect(decision).toMatchObject({ start: [], skipped: [{ name: 'job', moment: start, why: 'missed' }] });
    expect(look(decision.entries[0]!, start + day).start).toEqual([{ name: 'job', moment: start + day }]);
  });

  test('starts on time without catch-up, even if the clock is read late', () => {
    const strict = { jitterMs: 0, catchUpMs: 0 };
    expect(look(hourly(null, start + 1), start + hour + minute, nobody, strict).start).toHaveLength(1);
    expect(look(hourly(null, start + 1), start + hour + 3 * minute, nobody, strict).skipped).toHaveLength(1);
  });

  test('is skipped while its previous run has not ended', () => {
    const decision = look(hourly(start), start + hour, new Set(['job']));
    expect(decision).toMatchObject({ start: [], skipped: [{ moment: start + hour, why: 'running' }] });
    expect(look(decision.entries[0]!, start + hour + minute).start).toEqual([]);
    expect(look(hourly(start), start + hour, new Set(['another'])).start).toHaveLength(1);
  });

  test('starts with jitter, before the next scheduled time', () => {
    const loose = { jitterMs: 40 * minute, catchUpMs: 0 };
    const waiting = look(hourly(start), start + hour, nobody, loose);
    expect(waiting).toMatchObject({ start: [], wakeAt: start + hour + minute });
    const startAt = start + hour + 20 * minute;
    expect(look(waiting.entries[0]!, startAt - 10, nobody, loose)).toMatchObject({ start: [], wakeAt: startAt });
    expect(look(waiting.entries[0]!, startAt, nobody, loose).start).toEqual([{ name: 'job', moment: start + hour }]);
    const wide = { jitterMs: 10 * hour, catchUpMs: 0 };
    const last = look(hourly(start), start + hour, nobody, wide, 0.999999).entries[0]!.waiting!;
    expect(last.startAt).toBeLessThan(start + 2 * hour);
  });

  test('does not run again when the clock is set back', () => {
    const ran = look(hourly(start), start + hour).entries[0]!;
    const back = look(ran, start + hour - 10 * minute);
    expect(back.start).toEqual([]);
    expect(look(back.entries[0]!, start + hour + minute).start).toEqual([]);
    expect(look(back.entries[0]!, start + 2 * hour).start).toEqual([{ name: 'job', moment: start + 2 * hour }]);
  });

  test('recovers after the clock was in the future', () => {
    const future = look(hourly(start), start + 4000 * day).entries[0]!;
    const right = look(future, start + 30 * minute);
    expect(right.start).toEqual([]);
    expect(look(right.entries[0]!, start + hour).start).toEqual([{ name: 'job', moment: start + hour }]);
    expect(look(hourly(start + 4000 * day), start + 30 * minute).entries[0]!.handledThrough).toBe(start + 30 * minute);
  });

  test('without further times does not start', () => {
    const over: Timetable = { findLast: () => start - 50 * day, findNext: () => null };
    expect(look(createScheduleEntry('job', over, start - day, start), start)).toMatchObject({
      start: [],
      wakeAt: start + minute,
    });
  });
});

interface Step {
  /** Jumps of the wall clock in addition to the elapsed time. */
  readonly jumpMs: number;
  readonly runMs: number;
}

/** Simulates a schedule on a clock that jumps, with runs of given durations. */
function play(periods: readonly number[], steps: readonly Step[], own: typeof rules, seed: number) {
  let nowMs = start;
  let random = seed;
  const chance = () => {
    random = (random * 16807) % 2147483647;
    return random / 2147483647;
  };
  let entries: readonly ScheduleEntry[] = periods.map((period, i) =>
    createScheduleEntry(`J${i}`, every(period), null, nowMs),
  );
  const busyUntil = new Map<string, number>();
  const log: { name: string; moment: number; at: number; what: string; overlap: boolean }[] = [];
  let elapsed = 0;
  for (const { jumpMs, runMs } of steps) {
    const running = new Set([...busyUntil].filter(([, until]) => elapsed < until).map(([name]) => name));
    const decision = decideRuns(entries, running, nowMs, own, chance);
    entries = decision.entries;
    expect(decision.wakeAt).toBeGreaterThan(nowMs);
    expect(decision.wakeAt).toBeLessThanOrEqual(nowMs + minute);
    for (const turn of decision.start) {
      log.push({ ...turn, at: nowMs, what: 'start', overlap: running.has(turn.name) });
      busyUntil.set(turn.name, elapsed + runMs);
    }
    for (const { why, ...turn } of decision.skipped) log.push({ ...turn, at: nowMs, what: why, overlap: false });
    elapsed += decision.wakeAt - nowMs;
    nowMs = decision.wakeAt + jumpMs;
  }
  return { log, end: nowMs };
}

const periods = fc.array(fc.integer({ min: 2, max: 180 }), { minLength: 1, maxLength: 3 });
const jitter = fc.constantFrom(0, 30_000, 10 * minute);
const calm = fc.record({ jumpMs: fc.constant(0), runMs: fc.integer({ min: 0, max: 3 * hour }) });
/** One step in ten is a jump. Jumps back add up to less than a day, because a larger one resets the schedule. */
const shaky = fc
  .array(
    fc.record({
      jumpMs: fc.oneof(
        { weight: 9, arbitrary: fc.constant(0) },
        { weight: 1, arbitrary: fc.integer({ min: -8 * hour, max: 30 * hour }) },
      ),
      runMs: fc.integer({ min: 0, max: 3 * hour }),
    }),
    { minLength: 50, maxLength: 400 },
  )
  .map((steps) => {
    let back = 0;
    return steps.map((step): Step => {
      if (back - step.jumpMs >= day) return { ...step, jumpMs: 0 };
      back += Math.max(0, -step.jumpMs);
      return step;
    });
  });
const seed = fc.integer({ min: 1, max: 1e9 });

describe('any schedule', () => {
  test('handles every scheduled time in order with a correct clock', () => {
    checkProperty(
      [periods, fc.array(calm, { minLength: 50, maxLength: 400 }), jitter, seed],
      200,
      (minutes, steps, j, n) => {
        const own = { jitterMs: j, catchUpMs: 0 };
        const lengths = minutes.map((m) => m * minute);
        const { log, end } = play(lengths, steps, own, n);
        lengths.forEach((period, i) => {
          const turns = log.filter(({ name }) => name === `J${i}`);
          const first = every(period).findNext(start)!;
          // The last time may still be delayed by its jitter.
          expect(turns.map(({ moment }) => moment)).toEqual(turns.map((_, k) => first + k * period));
          expect(first + turns.length * period).toBeGreaterThan(end - period - minute);
          for (const { moment, at, overlap, what } of turns) {
            expect(overlap).toBe(false);
            expect(what).not.toBe('missed');
            expect(at - moment).toBeGreaterThanOrEqual(0);
            expect(at - moment).toBeLessThanOrEqual(Math.min(j, period));
          }
        });
      },
    );
  });

  test('runs no time twice and no job concurrently with itself, however the clock jumps', () => {
    checkProperty([periods, shaky, jitter, seed], 200, (minutes, steps, j, n) => {
      const lengths = minutes.map((m) => m * minute);
      const { log } = play(lengths, steps, { jitterMs: j, catchUpMs: 6 * hour }, n);
      const keys = log.map(({ name, moment }) => `${name} ${moment}`);
      expect(new Set(keys).size).toBe(keys.length);
      for (const { moment, at, overlap } of log) {
        expect(overlap).toBe(false);
        if (steps.every(({ jumpMs }) => jumpMs >= 0)) expect(at).toBeGreaterThanOrEqual(moment);
      }
    });
  });
});
