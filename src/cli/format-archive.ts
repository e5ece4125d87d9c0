import type { Gap } from '../archive/completeness/completeness.ts';
import { formatOwner } from '../archive/format/manifest.ts';
import type { RepairedFile, RepairReport } from '../archive/integrity/repair.ts';
import type { GapList } from '../archive/read/gaps.ts';
import type { readStatus } from '../archive/read/status.ts';
import { exitCodes, formatExitCode } from '../base/errors.ts';
import { formatBytes, formatCount, formatDuration, formatNumber } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import { formatCompleteness } from '../contract/completeness-counts.ts';
import { formatOpenDays, groupOpenDays, type OpenDayList, suggestOpenDaysAction } from '../contract/day-reasons.ts';
import type { CompleteCommands } from './command-name.ts';
import { keepTogether, wrapAction, wrapAdvice, wrapText } from './table.ts';
import { escapeControls, plainStyle, type TerminalStyle } from './terminal-style.ts';

type ArchiveStatus = ReturnType<typeof readStatus>;

const formatStatusOwner = ({ upstream = '', sources = [] }: ArchiveStatus): string =>
  formatOwner({ upstream, sources });

/**
 * Formats the status of an archive. On a terminal, long values continue below.
 * @param complete completes the commands in it
 */
export function formatStatus(
  status: ArchiveStatus,
  { width }: TerminalStyle = plainStyle,
  complete: CompleteCommands = (text) => text,
): string {
  const { published, symbols, completeness, verified_through: verifiedThrough } = status;
  const [first] = status.damaged;
  const rows: readonly (readonly [name: string, ...values: string[]])[] = [
    ['archive', `${keepTogether(status.archive)} (${formatStatusOwner(status)}, generation ${status.generation})`],
    [
      'published',
      `${formatCount(published.ticks, 'tick')} of ${formatCount(published.days, 'day')}, ${formatBytes(published.bytes)}`,
    ],
    ['days', formatDays(status.days, completeness.days), ...formatOpenDayLines(status)],
    [
      'verified',
      verifiedThrough === null
        ? 'not every published byte yet; to verify them all: oddslake verify'
        : `every ${first === undefined ? '' : 'other '}published byte since ${formatIsoUtc(verifiedThrough)}`,
    ],
    ...(first === undefined
      ? []
      : [
          [
            'damaged',
            `${formatCount(status.damaged_count, 'file')}: ${keepTogether(escapeControls(first.path))} (${first.kind})${status.damaged_count > 1 ? ', …' : ''}; to repair: oddslake verify --repair`,
          ] as const,
        ]),
    [
      'journaled',
      `${formatCount(status.journaled_ticks, 'tick')} not yet published${status.journaled_ticks === 0 ? '' : ', those fetched twice counted twice; the next run publishes them, or: oddslake publish'}`,
    ],
    [
      'symbols',
      [
        `${formatNumber(symbols.live)} live of ${formatNumber(symbols.known)} known`,
        `${formatNumber(symbols.suspended)} suspended`,
        ...(symbols.excluded === undefined ? [] : [`${formatNumber(symbols.excluded)} excluded`]),
        ...(symbols.forgotten === undefined ? [] : [`${formatNumber(symbols.forgotten)} forgotten`]),
      ].join(', '),
    ],
    [
      'covered',
      status.watermark === null
        ? symbols.live === 0
          ? 'no live symbols'
          : `nothing yet, ${formatCount(symbols.live, 'live symbol')}`
        : `all live symbols up to ${formatIsoUtc(status.reached!)}, ${formatDuration(status.lag_ms!)} ago${symbols.suspended === 0 ? '' : `, except ${formatNumber(symbols.suspended)} suspended`}${status.reached === status.watermark ? '' : `; confirmed up to ${formatIsoUtc(status.watermark)}`}`,
    ],
    ['state', formatCompleteness(completeness)],
    [
      'gaps',
      `${formatCount(status.gaps.windows, 'window')} of ${formatCount(status.gaps.symbols, 'symbol')}${status.gaps.lost === 0 ? '' : `, ${formatNumber(status.gaps.lost)} of them lost`}${status.gaps.windows === 0 ? '' : '; to list them: oddslake gaps'}`,
    ],
    ['last run', ...formatLastRun(status.last_run)],
  ];
  const lines = rows.flatMap(([name, value, ...more]) => [
    ...wrapAdvice(value!, complete, width, `  ${name.padEnd(9)}  `, statusIndent),
    ...more.flatMap((text) => wrapAction(text, complete, width, statusIndent)),
  ]);
  return `${[...lines, ...formatFurthestBehind(status)].join('\n')}\n`;
}

const statusIndent = ' '.repeat(13);

/** The live symbols whose coverage without a gap ends first. */
function formatFurthestBehind({ cursors, cursors_count: count }: ArchiveStatus): string[] {
  if (cursors.length === 0) return [];
  const shown = cursors.slice(0, 5);
  return [
    `  furthest behind: live symbols, and how far each is covered without a gap`,
    ...shown.map(({ symbol, cursor }) => `    ${formatIsoUtc(cursor)}  ${escapeControls(symbol)}`),
    ...(count > shown.length ? [`    … and ${formatNumber(count - shown.length)} more, as far or further`] : []),
  ];
}

/** How the last run ended and, if it did not end well, how to go on. */
function formatLastRun(run: ArchiveStatus['last_run']): string[] {
  if (run === null) return ['none'];
  const { job, started_at: startedAt, finished_at: finishedAt, exit_code: exitCode, state } = run;
  const started = `${job}, started ${formatIsoUtc(startedAt)}`;
  if (state === 'running') return [`${started}, is running`];
  if (state === 'interrupted')
    return [
      `${started}, was interrupted before its end`,
      '→ what it accepted is kept; the next run recovers it and resumes from there',
    ];
  const ended = `${started}, ended after ${formatDuration(finishedAt! - startedAt)}, ${formatExitCode(exitCode!)}`;
  if (exitCode === exitCodes.incomplete)
    return [ended, '→ the next run fetches what is missing; to list it: oddslake gaps'];
  return exitCode === exitCodes.done ? [ended] : [ended, '→ the end of its log says what to do; then run it again'];
}

const openDaysShown = 3;

/** Why days are not complete, and what completes them. The line of the action starts with an arrow. */
export function formatOpenDayLines({
  open_days: days = [],
  open_days_count: count = days.length,
}: Partial<OpenDayList>): string[] {
  const groups = groupOpenDays(days);
  const shown = groups.slice(0, openDaysShown);
  const more = count - shown.reduce((sum, group) => sum + group.count, 0);
  const action = suggestOpenDaysAction(days);
  return [
    ...shown.map(formatOpenDays),
    ...(more > 0 ? [`and ${formatCount(more, 'earlier day')}: oddslake sql "FROM days WHERE reason IS NOT NULL"`] : []),
    ...(action === null ? [] : [`→ ${action}`]),
  ];
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

/**
 * Formats a list of gaps. On a terminal, a long line continues below.
 * @param complete completes the commands in it
 */
export function formatGaps(
  list: GapList,
  { width }: TerminalStyle = plainStyle,
  complete: CompleteCommands = (text) => text,
): string {
  const { from, to, gaps, provisional, not_collected: notCollected = {} } = list;
  const windowText = to > from ? `from ${formatIsoUtc(from)} to ${formatIsoUtc(to)}` : '(nothing is covered yet)';
  const { windows, symbols } = provisional;
  const countText =
    gaps.length === 0
      ? `no gaps ${windowText}`
      : `${formatCount(gaps.length, 'gap')} of ${formatCount(new Set(gaps.map((gap) => gap.symbol)).size, 'symbol')} ${windowText}`;
  const provisionalText = `${formatCount(windows, 'window')} of ${formatCount(symbols, 'symbol')} ${windows === 1 ? 'is' : 'are'} provisional: covered by inference, not confirmed yet`;
  const { excluded = 0, forgotten = 0 } = notCollected;
  const notCollectedText = `${formatCount(excluded + forgotten, 'symbol')} not collected, of which nothing is expected: ${formatNumber(excluded)} excluded, ${formatNumber(forgotten)} forgotten`;
  const formatGap = (gap: Gap): string =>
    `${formatIsoUtc(gap.from)} … ${formatIsoUtc(gap.to)}  ${formatDuration(gap.to - gap.from).padStart(12)}  ${keepTogether(escapeControls(gap.symbol))}  ${formatGapReason(gap)}`;
  return [
    ...gaps.flatMap((gap) => wrapText(formatGap(gap), width, '', '      ')),
    ...wrapText(countText, width),
    ...(windows === 0 ? [] : wrapText(provisionalText, width)),
    ...(excluded + forgotten === 0 ? [] : wrapText(notCollectedText, width)),
    ...formatOpenDayLines(list).flatMap((text) => wrapAction(text, complete, width, text.startsWith('→') ? '  ' : '')),
  ]
    .map((line) => `${line}\n`)
    .join('');
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
    ...(lost.length === 0
      ? []
      : [
          `${formatCount(ticks, 'tick')} of ${formatCount(lost.length, 'window')} could not be kept; the summary below counts those that are restored:`,
        ]),
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
