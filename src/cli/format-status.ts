import { formatBytes, formatCount, formatDuration, formatNumber } from '../core/format-quantity.ts';
import { formatIsoUtc } from '../core/time.ts';
import { formatCompleteness } from '../core/verdict-text.ts';
import type { readStatus } from '../reading/status.ts';
import { escapeControls } from './escape-control.ts';

type ArchiveStatus = ReturnType<typeof readStatus>;

/** The status of an archive for a person. */
export function formatStatus(status: ArchiveStatus): string {
  const { published, symbols, last_run: run } = status;
  const [first] = status.damaged;
  const lines = [
    ['archive', `${status.archive} (upstream ${status.upstream}, generation ${status.generation})`],
    [
      'published',
      `${formatCount(published.ticks, 'tick')} of ${formatCount(published.days, 'day')}, ${formatBytes(published.bytes)}`,
    ],
    ['days', formatDays(status.days, status.verdict.days)],
    [
      'verified',
      status.verified_through === null
        ? 'not every published byte yet'
        : `every published byte since ${formatIsoUtc(status.verified_through)}`,
    ],
    ...(first === undefined
      ? []
      : [
          [
            'damaged',
            `${formatCount(status.damaged_count, 'file')} not as published: ${escapeControls(first.path)} (${first.kind})${status.damaged_count > 1 ? ', …' : ''}; to mend: oddslake verify --repair`,
          ],
        ]),
    ['journaled', `${formatCount(status.journaled_ticks, 'tick')} not yet published`],
    [
      'symbols',
      `${formatNumber(symbols.live)} live of ${formatNumber(symbols.known)} known, ${formatNumber(symbols.suspended)} suspended`,
    ],
    [
      'covered',
      status.watermark === null
        ? symbols.live === 0
          ? 'no live symbol'
          : `nothing yet of ${formatCount(symbols.live, 'live symbol')}`
        : `every live symbol up to ${formatIsoUtc(status.reached!)}, ${formatDuration(status.lag_ms!)} ago${symbols.suspended === 0 ? '' : `, but for ${formatNumber(symbols.suspended)} suspended`}${status.reached === status.watermark ? '' : `; confirmed up to ${formatIsoUtc(status.watermark)}`}`,
    ],
    ['verdict', formatCompleteness(status.verdict)],
    [
      'gaps',
      `${formatCount(status.gaps.windows, 'window')} of ${formatCount(status.gaps.symbols, 'symbol')}${status.gaps.lost === 0 ? '' : `, ${formatNumber(status.gaps.lost)} of them lost after they were had`}`,
    ],
    [
      'last run',
      run === null
        ? 'none'
        : `${run.job}, started ${formatIsoUtc(run.started_at)}, ${run.finished_at === null ? 'not finished' : `exit code ${run.exit_code}`}`,
    ],
  ];
  const behind = status.cursors
    .slice(0, 5)
    .map(({ symbol, cursor }) => `    ${formatIsoUtc(cursor)}  ${escapeControls(symbol)}`);
  const tail = behind.length === 0 ? '' : `  furthest behind\n${behind.join('\n')}\n`;
  return `${lines.map(([name, value]) => `  ${name!.padEnd(9)}  ${value}`).join('\n')}\n${tail}`;
}

/** The days that are over, those since the last publish among them, and how many are of each state. */
function formatDays(
  { first, last }: ArchiveStatus['days'],
  { complete, ...others }: ArchiveStatus['verdict']['days'],
): string {
  if (first === null || last === null) return 'none is over yet';
  const rest = Object.entries(others).filter(([, count]) => count > 0);
  const counts = [`${complete} complete`, ...rest.map(([state, count]) => `${count} ${state.replaceAll('_', ' ')}`)];
  return `${first === last ? first : `${first} to ${last}`}: ${counts.join(', ')}`;
}
