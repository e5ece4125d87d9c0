import type { Gap } from '../archive/completeness/completeness.ts';
import { formatOwner } from '../archive/format/manifest.ts';
import type { GapList } from '../archive/read/gaps.ts';
import type { readStatus } from '../archive/read/status.ts';
import { exitCodes, formatExitCode } from '../base/errors.ts';
import { formatBytes, formatCount, formatDuration, formatNumber } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import { formatCompleteness, formatCoveredSymbols } from '../contract/completeness-counts.ts';
import { type OpenDayList, selectShownDays, suggestOpenDaysAction } from '../contract/day-reasons.ts';
import { keepTogether, wrapAction, wrapAdvice, wrapText } from './table.ts';
import { escapeControls, plainStyle } from './terminal-style.ts';

type ArchiveStatus = ReturnType<typeof readStatus>;

const formatStatusOwner = ({ upstream = '', sources = [] }: ArchiveStatus): string =>
  formatOwner({ upstream, sources });

/** Formats the status of an archive. On a terminal, long values continue below. */
export function formatStatus(status: ArchiveStatus, style = plainStyle): string {
  const { published, symbols, completeness } = status;
  const [first] = status.damaged;
  const rows: readonly (readonly [name: string, ...values: string[]])[] = [
    ['archive', `${keepTogether(status.archive)} (${formatStatusOwner(status)}, generation ${status.generation})`],
    [
      'published',
      `${formatCount(published.ticks, 'tick')} of ${formatCount(published.days, 'day')}, ${formatBytes(published.bytes)}`,
    ],
    ['days', formatDays(status.days, completeness.days), ...formatOpenDayLines(status)],
    ['verified', formatVerified(status)],
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
    ['symbols', formatSymbolCounts(symbols)],
    [
      'covered',
      status.watermark === null
        ? symbols.live === 0
          ? 'no live symbols'
          : `nothing yet, ${formatCount(symbols.live, 'live symbol')}`
        : `${formatCoveredSymbols(status.damaged_count)} up to ${formatIsoUtc(status.reached!)}, ${formatDuration(status.lag_ms!)} ago${symbols.suspended === 0 ? '' : `, except ${formatNumber(symbols.suspended)} suspended`}${status.reached === status.watermark ? '' : `; confirmed up to ${formatIsoUtc(status.watermark)}`}`,
    ],
    ['state', formatCompleteness(completeness)],
    [
      'gaps',
      `${formatCount(status.gaps.windows, 'window')} of ${formatCount(status.gaps.symbols, 'symbol')}${status.gaps.lost === 0 ? '' : `, ${formatNumber(status.gaps.lost)} of them lost`}${status.gaps.windows === 0 ? '' : '; to list them: oddslake gaps'}`,
    ],
    ['last run', ...formatLastRun(status.last_run)],
  ];
  const lines = rows.flatMap(([name, value, ...more]) => [
    ...wrapAdvice(value!, style, `  ${name.padEnd(9)}  `, statusIndent),
    ...more.flatMap((text) => wrapAction(text, style, statusIndent)),
  ]);
  return `${[...lines, ...formatFurthestBehind(status)].join('\n')}\n`;
}

const statusIndent = ' '.repeat(13);

/** The known symbols, in parts that add up to them. Not polled are those that have ended, and those of files. */
function formatSymbolCounts({ known, live, suspended, excluded = 0, forgotten = 0 }: ArchiveStatus['symbols']): string {
  const parts = [
    [live, 'live'],
    [suspended, 'suspended'],
    [excluded, 'excluded'],
    [forgotten, 'forgotten'],
    [known - live - suspended - excluded - forgotten, 'not polled'],
  ] as const;
  return `${formatNumber(known)} known: ${parts
    .filter(([count], i) => i === 0 || count > 0)
    .map(([count, what]) => `${formatNumber(count)} ${what}`)
    .join(', ')}`;
}

/** Since when the published bytes are verified. Damaged files are known not to be as published. */
function formatVerified({ verified_through: since, damaged_count: damaged }: ArchiveStatus): string {
  if (since === null)
    return damaged === 0
      ? 'not every published byte yet; to verify them all: oddslake verify'
      : 'not every published byte yet';
  const bytes = damaged === 0 ? 'every published byte' : `all but ${formatCount(damaged, 'damaged file')}`;
  return `${bytes} since ${formatIsoUtc(since)}`;
}

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

/** Why days are not complete, and what completes them. The line of the action starts with an arrow. */
export function formatOpenDayLines({
  open_days: days = [],
  open_days_count: count = days.length,
}: Partial<OpenDayList>): string[] {
  const { lines, more } = selectShownDays(days, count);
  const action = suggestOpenDaysAction(days);
  return [
    ...lines,
    ...(more > 0
      ? [`and ${formatCount(more, 'more day')}: oddslake sql "SELECT date, reason FROM days WHERE reason IS NOT NULL"`]
      : []),
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

/** Formats a list of gaps. On a terminal, a long line continues below. */
export function formatGaps(list: GapList, style = plainStyle): string {
  const { width } = style;
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
    ...formatOpenDayLines(list).flatMap((text) => wrapAction(text, style, text.startsWith('→') ? '  ' : '')),
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
