import { duration, many, number, size } from '../core/format-quantity.ts';
import { isoUtc } from '../core/time.ts';
import { verdictText } from '../core/verdict-text.ts';
import type { readStatus } from '../reading/status.ts';
import { visible } from './escape-control.ts';

type Status = ReturnType<typeof readStatus>;

/** The status of an archive for a person. */
export function statusText(status: Status): string {
  const { published, symbols, last_run: run } = status;
  const [first] = status.damaged;
  const lines = [
    ['archive', `${status.archive} (upstream ${status.upstream}, generation ${status.generation})`],
    ['published', `${many(published.ticks, 'tick')} of ${many(published.days, 'day')}, ${size(published.bytes)}`],
    ['days', daysText(status.days, status.verdict.days)],
    [
      'verified',
      status.verified_through === null
        ? 'not every published byte yet'
        : `every published byte since ${isoUtc(status.verified_through)}`,
    ],
    ...(first === undefined
      ? []
      : [
          [
            'damaged',
            `${many(status.damaged_count, 'file')} not as published: ${visible(first.path)} (${first.kind})${status.damaged_count > 1 ? ', …' : ''}; to mend: oddslake verify --repair`,
          ],
        ]),
    ['journaled', `${many(status.journaled_ticks, 'tick')} not yet published`],
    [
      'symbols',
      `${number(symbols.live)} live of ${number(symbols.known)} known, ${number(symbols.suspended)} suspended`,
    ],
    [
      'covered',
      status.watermark === null
        ? symbols.live === 0
          ? 'no live symbol'
          : `nothing yet of ${many(symbols.live, 'live symbol')}`
        : `every live symbol up to ${isoUtc(status.reached!)}, ${duration(status.lag_ms!)} ago${symbols.suspended === 0 ? '' : `, but for ${number(symbols.suspended)} suspended`}${status.reached === status.watermark ? '' : `; confirmed up to ${isoUtc(status.watermark)}`}`,
    ],
    ['verdict', verdictText(status.verdict)],
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

/** The days that are over, those since the last publish among them, and how many are of each state. */
function daysText({ first, last }: Status['days'], { complete, ...others }: Status['verdict']['days']): string {
  if (first === null || last === null) return 'none is over yet';
  const rest = Object.entries(others).filter(([, count]) => count > 0);
  const counts = [`${complete} complete`, ...rest.map(([state, count]) => `${count} ${state.replaceAll('_', ' ')}`)];
  return `${first === last ? first : `${first} to ${last}`}: ${counts.join(', ')}`;
}
