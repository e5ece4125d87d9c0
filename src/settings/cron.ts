import { Cron } from 'croner';
import type { Timetable } from '../base/timetable.ts';

/**
 * Parses a cron expression of five fields, or a name such as `@daily`. Times are in UTC.
 * @throws Error if it is invalid or never occurs
 */
export function parseCron(text: string): Timetable {
  const cron = openCron(text);
  const rhythm: Timetable = {
    // The library has a resolution of one second and returns times strictly before or after its argument.
    findLast: (ms) => cron.previousRuns(1, new Date((Math.floor(ms / 1000) + 1) * 1000))[0]?.getTime() ?? null,
    findNext: (ms) => cron.nextRun(new Date(Math.floor(ms / 1000) * 1000))?.getTime() ?? null,
  };
  if (rhythm.findNext(leapYearMs) === null) throw new Error('it names a day that never occurs');
  return rhythm;
}

/** Start of the search for a first occurrence. The leap year itself does not matter. */
const leapYearMs = Date.UTC(2024, 0, 1);

function openCron(text: string): Cron {
  try {
    // Without a callback it starts no timer.
    return new Cron(text, { paused: true, timezone: 'UTC', mode: '5-part' });
  } catch (error) {
    throw new Error((error as Error).message.replace(/^CronPattern: /, '').replace(/\.$/, ''), { cause: error });
  }
}
