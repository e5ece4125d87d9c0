import { describe, expect, test } from 'vitest';
import { runScheduleLoop, type ScheduledJob } from '../../../src/collector/schedule/loop.ts';
import { InterruptedError } from '../../../src/context/context.ts';
import { parseCron } from '../../../src/settings/cron.ts';
import { createVirtualClock } from '../../client/virtual-clock.ts';

const minute = 60_000;
const hour = 60 * minute;

/** A schedule on a virtual clock. Every job takes `takesMs`, or ends when the signal is aborted. */
function kept(crons: Record<string, string>, takesMs: number) {
  const clock = createVirtualClock();
  const stop = new AbortController();
  const events: string[] = [];
  const lines: { job?: string; message: string }[] = [];
  const say = (facts: object, message: string) => void lines.push({ ...facts, message });
  const jobs = Object.entries(crons).map(
    ([name, cron]): ScheduledJob => ({
      name,
      timetable: parseCron(cron),
      lastStart: null,
      async run() {
        events.push(`${name} starts ${new Date(clock.nowMs()).toISOString().slice(11, 16)}`);
        await clock.sleep(takesMs, stop.signal).catch(() => {});
        events.push(`${name} ends`);
      },
    }),
  );
  const log = { debug: say, info: say, warn: say, error: say };
  const parts = { clock, random: () => 0, log, signal: stop.signal };
  let over = false;
  const ended = runScheduleLoop(jobs, { jitterMs: 0, catchUpMs: hour }, parts).then(() => {
    over = true;
  });
  return { clock, events, lines, ended, isOver: () => over, stop: () => stop.abort(new InterruptedError('SIGTERM')) };
}

// The virtual clock starts at 22:13:20.
describe('a running schedule', () => {
  test('runs different jobs concurrently, and never the same job twice', async () => {
    const { clock, events, lines, ended, stop } = kept({ often: '*/10 * * * *', hourly: '30 * * * *' }, 15 * minute);
    await clock.pass(50 * minute);
    expect(events.filter((event) => event.includes('starts'))).toEqual([
      'often starts 22:20',
      'hourly starts 22:30',
      'often starts 22:40',
      'often starts 23:00',
    ]);
    const left = lines.filter(({ message }) => message.includes('has not ended'));
    expect(left.map(({ job }) => job)).toEqual(['often', 'often']);
    stop();
    await ended;
  });

  test('waits for running jobs when stopped, and starts no more', async () => {
    const { clock, events, ended, isOver, stop } = kept({ job: '20 * * * *' }, 30 * minute);
    await clock.pass(10 * minute);
    expect(events).toEqual(['job starts 22:20']);
    expect(isOver()).toBe(false);
    stop();
    await ended;
    expect(events).toEqual(['job starts 22:20', 'job ends']);
    await clock.pass(2 * hour);
    expect(events).toHaveLength(2);
  });
});
