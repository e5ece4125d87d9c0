import type { Gap } from '../archive/completeness/completeness.ts';
import { formatOwner } from '../archive/format/manifest.ts';
import type { RepairedFile, RepairReport } from '../archive/integrity/repair.ts';
import type { GapList } from '../archive/read/gaps.ts';
import type { readStatus } from '../archive/read/status.ts';
import { formatBytes, formatCount, formatDuration, formatNumber } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import { formatCompleteness } from '../contract/completeness-counts.ts';
import type { CompleteCommands } from './command-name.ts';
import { escapeControls } from './terminal-style.ts';

type ArchiveStatus = ReturnType<typeof readStatus>;

const formatStatusOwner = ({ upstream = '', sources = [] }: ArchiveStatus): string =>
  formatOwner({ upstream, sources });

/**
 * Formats the status of an archive.
 * @param complete completes the command that repairs it
 */
export function formatStatus(status: ArchiveStatus, complete: CompleteCommands = (text) => text): string {
  const { published, symbols, last_run: run } = status;
  const [first] = status.damaged;
  const lines = [
    ['archive', `${status.archive} (${formatStatusOwner(status)}, generation ${status.generation})`],
    [
      'published',
      `${formatCount(published.ticks, 'tick')} of ${formatCount(published.days, 'day')}, ${formatBytes(published.bytes)}`,
    ],
    ['days', formatDays(status.days, status.completeness.days)],
    [
      'verified',
      status.verified_through === null
        ? 'not every published byte has been verified yet'
        : `every published byte since ${formatIsoUtc(status.verified_through)}`,
    ],
    ...(first === undefined
      ? []
      : [
          [
            'damaged',
            `${formatCount(status.damaged_count, 'file')}: ${escapeControls(first.path)} (${first.kind})${status.damaged_count > 1 ? ', …' : ''}; to repair: ${complete('oddslake verify --repair')}`,
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
          ? 'no live symbols'
          : `nothing yet, ${formatCount(symbols.live, 'live symbol')}`
        : `all live symbols up to ${formatIsoUtc(status.reached!)}, ${formatDuration(status.lag_ms!)} ago${symbols.suspended === 0 ? '' : `, except ${formatNumber(symbols.suspended)} suspended`}${status.reached === status.watermark ? '' : `; confirmed up to ${formatIsoUtc(status.watermark)}`}`,
    ],
    ['state', formatCompleteness(status.completeness)],
    [
      'gaps',
      `${formatCount(status.gaps.windows, 'window')} of ${formatCount(status.gaps.symbols, 'symbol')}${status.gaps.lost === 0 ? '' : `, ${formatNumber(status.gaps.lost)} of them lost`}`,
    ],
    [
      'last run',
      run === null
        ? 'none'
        : `${run.job}, started ${formatIsoUtc(run.started_at)}, ${run.finished_at === null ? 'not finished' : `exit code ${run.exit_code}`}`,
    ],
  ];
  const cursorLines = status.cursors
    .slice(0, 5)
    .map(({ symbol, cursor }) => `    ${formatIsoUtc(cursor)}  ${escapeControls(symbol)}`);
  const cursorBlock = cursorLines.length === 0 ? '' : `  furthest behind\n${cursorLines.join('\n')}\n`;
  return `${lines.map(([name, value]) => `  ${name!.padEnd(9)}  ${value}`).join('\n')}\n${cursorBlock}`;
}

/** Range of finished days, including those since the last publish, and their number by state. */
function formatDays(
  { first, last }: ArchiveStatus['days'],
  { complete, ...otherCounts }: ArchiveStatus['completeness']['days'],
): string {
  if (first === null || last === null) return 'no finished day yet';
  const otherStates = Object.entries(otherCounts).filter(([, count]) => count > 0);
  const counts = [
    `${complete} complete`,
    ...otherStates.map(([state, count]) => `${count} ${state.replaceAll('_', ' ')}`),
  ];
  return `${first === last ? first : `${first} to ${last}`}: ${counts.join(', ')}`;
}

/** Formats a list of gaps. */
export function formatGaps({ from, to, gaps, provisional }: GapList): string {
  const windowText = to > from ? `from ${formatIsoUtc(from)} to ${formatIsoUtc(to)}` : '(nothing is covered yet)';
  const { windows, symbols } = provisional;
  const provisionalText =
    windows === 0
      ? ''
      : `${formatCount(windows, 'window')} of ${formatCount(symbols, 'symbol')} ${windows === 1 ? 'is' : 'are'} provisional: covered by inference, not confirmed yet\n`;
  if (gaps.length === 0) return `no gaps ${windowText}\n${provisionalText}`;
  const lines = gaps.map(
    (gap) =>
      `${formatIsoUtc(gap.from)} … ${formatIsoUtc(gap.to)}  ${formatDuration(gap.to - gap.from).padStart(12)}  ${escapeControls(gap.symbol)}  ${formatGapReason(gap)}\n`,
  );
  return `${lines.join('')}${formatCount(gaps.length, 'gap')} of ${formatCount(new Set(gaps.map((gap) => gap.symbol)).size, 'symbol')} ${windowText}\n${provisionalText}`;
}

/** E.g. `failed since 2026-11-19T03:17:00Z: answered 500`. */
function formatGapReason({ reason, detail, since, ticks }: Gap): string {
  if (reason === 'lost') return `lost: ${formatCount(ticks ?? 0, 'published tick')}`;
  const sinceText = since === undefined ? '' : ` since ${formatIsoUtc(since)}`;
  return `${reason}${sinceText}${detail === undefined ? '' : `: ${escapeControls(detail)}`}`;
}

const linesMax = 50;

/** Formats the result of a repair: one line per file, then the lost windows. */
export function formatRepair({ repaired, lost, files, bytes, generation }: RepairReport): string {
  const resultText = repaired.length === 0 ? 'no damage found' : `${formatCount(repaired.length, 'file')} repaired`;
  const ticks = lost.reduce((sum, window) => sum + window.ticks, 0);
  return [
    ...limitLines(repaired.map(formatRepairedFile)),
    ...(lost.length === 0 ? [] : [`${formatCount(ticks, 'tick')} lost in ${formatCount(lost.length, 'window')}:`]),
    ...limitLines(
      lost.map(
        (w) => `  ${w.symbol}  ${formatIsoUtc(w.from)} … ${formatIsoUtc(w.to)}  ${formatCount(w.ticks, 'tick')}`,
      ),
    ),
    `${formatCount(files, 'file')}, ${formatBytes(bytes)}, generation ${generation}: ${resultText}`,
  ]
    .map((line) => `${line}\n`)
    .join('');
}

const limitLines = (lines: readonly string[]): string[] =>
  lines.length <= linesMax
    ? [...lines]
    : [...lines.slice(0, linesMax), `  … and ${formatNumber(lines.length - linesMax)} more`];

function formatRepairedFile({
  path,
  kind,
  outcome,
  moved_to: movedTo,
  rows,
  rows_lost: rowsLost,
}: RepairedFile): string {
  const keptText =
    rows !== null && rowsLost !== null && rowsLost > 0
      ? `, ${formatNumber(rows - rowsLost)} of ${formatCount(rows, 'row')} kept`
      : '';
  const movedText = movedTo === null ? '' : `; the damaged file was moved to ${movedTo}`;
  return `${path}: ${kind}; ${outcome}${keptText}${movedText}`;
}
