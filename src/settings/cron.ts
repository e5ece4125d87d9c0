import { Cron } from 'croner';
import type { Timetable } from '../base/schedule.ts';

/**
 * The moments of a cron expression of five fields (or a name such as `@daily`), in UTC.
 * @throws Error saying what is wrong with it, a moment that never comes included
 */
export function parseCron(text: string): Timetable {
  const cron = openCron(text);
  const rhythm: Timetable = {
    // The library looks at whole seconds, and at what is strictly before or after them.
    findLast: (ms) => cron.previousRuns(1, new Date((Math.floor(ms / 1000) + 1) * 1000))[0]?.getTime() ?? null,
    findNext: (ms) => cron.nextRun(new Date(Math.floor(ms / 1000) * 1000))?.getTime() ?? null,
  };
  if (rhythm.findNext(leapYearMs) === null) throw new Error('it names a day that never comes');
  return rhythm;
}

/** Any fixed moment will do: five fields come round within some years. */
const leapYearMs = Date.UTC(2024, 0, 1);

function openCron(text: string): Cron {
  try {
    // Only asked for times: without a function to call it starts no timer.
    return new Cron(text, { paused: true, timezone: 'UTC', mode: '5-part' });
  } catch (error) {
    throw new Error((error as Error).message.replace(/^CronPattern: /, '').replace(/\.$/, ''), { cause: error });
  }
}
