import { isoUtc } from '../core/time.ts';
import type { readStatus } from '../reading/status.ts';
import { duration, many, number, size } from './amounts.ts';
import { visible } from './visible.ts';

/** The status of an archive for a person. */
export function statusText(status: ReturnType<typeof readStatus>): string {
  const { published, symbols, last_run: run } = status;
  const lines = [
    ['archive', `${status.archive} (upstream ${status.upstream}, generation ${status.generation})`],
    [
      'published',
      `${many(published.ticks, 'tick')}, ${size(published.bytes)}, ${many(published.days, 'day')} (${published.days_complete} complete)`,
    ],
    ['journaled', `${many(status.journaled_ticks, 'tick')} not yet published`],
    ['symbols', `${number(symbols.live)} live of ${number(symbols.known)} known, ${number(symbols.retired)} given up`],
    [
      'covered',
      status.watermark === null
        ? 'no live symbol'
        : `every live symbol up to ${isoUtc(status.watermark)}${status.reached === status.watermark ? '' : `, but for what is lost up to ${isoUtc(status.reached!)}`}, ${duration(status.lag_ms!)} ago`,
    ],
    [
      'gaps',
      `${many(status.gaps.windows, 'window')} of ${many(status.gaps.symbols, 'symbol')}${status.gaps.lost === 0 ? '' : `, ${number(status.gaps.lost)} of them lost after they were had`}`,
    ],
    [
      'last run',
      run === null
        ? 'none'
        : `${run.job}, started ${isoUtc(run.started_at)}, ${run.finished_at === null ? 'not finished' : `exit code ${run.exit_code}`}`,
    ],
  ];
  const behind = status.cursors.slice(0, 5).map(({ symbol, cursor }) => `    ${isoUtc(cursor)}  ${visible(symbol)}`);
  const tail = behind.length === 0 ? '' : `  furthest behind\n${behind.join('\n')}\n`;
  return `${lines.map(([name, value]) => `  ${name!.padEnd(9)}  ${value}`).join('\n')}\n${tail}`;
}
