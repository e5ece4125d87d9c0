import type { Gap } from '../archive/completeness/completeness.ts';
import { formatOwner } from '../archive/format/manifest.ts';
import type { Explanation } from '../archive/read/explain-claim.ts';
import type { GapList } from '../archive/read/gaps.ts';
import { formatMoment, type Judgement } from '../archive/read/judge.ts';
import type { readStatus } from '../archive/read/status.ts';
import { formatExitCode } from '../base/errors.ts';
import { evidenceMeanings } from '../base/evidence.ts';
import { formatBytes, formatCount, formatDuration, formatNumber } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import { dayMs } from '../base/window.ts';
import type { CompletenessCounts } from '../contract/completeness-counts.ts';
import { type OpenDayList, selectShownDays } from '../contract/day-reasons.ts';
import { formatFindingLines, formatVerdictLines } from './format-findings.ts';
import { keepTogether, wrapAction, wrapAdvice, wrapText } from './table.ts';
import { escapeControls, plainStyle } from './terminal-style.ts';

type ArchiveStatus = ReturnType<typeof readStatus>;
type LastRun = ArchiveStatus['last_runs'][number];

const formatStatusOwner = ({ upstream = '', sources = [] }: ArchiveStatus): string =>
  formatOwner({ upstream, sources });

/** Formats the status of an archive: the verdict first. On a terminal, long values continue below. */
export function formatStatus(
  { verdict, findings, ...status }: ArchiveStatus & Judgement,
  style = plainStyle,
  isVerbose = false,
): string {
  const { published, symbols, gaps, reached, watermark } = status;
  const rows: readonly (readonly [name: string, ...values: string[]])[] = [
    ['archive', `${keepTogether(status.archive)} (${formatStatusOwner(status)}, generation ${status.generation})`],
    [
      'published',
      `${formatCount(published.ticks, 'tick')} of ${formatCount(published.days, 'day')}, ${formatBytes(published.bytes)}`,
    ],
    ['days', formatDays(status), ...(isVerbose ? formatOpenDayLines(status) : [])],
    ['symbols', formatSymbolCounts(symbols)],
    ...(!isVerbose && reached !== null && reached === watermark && verdict.text.includes(formatMoment(reached))
      ? []
      : [['collected', formatCollected(status)] as const]),
    [
      'gaps',
      gaps.windows === 0
        ? 'none'
        : `${formatCount(gaps.windows, 'window')} of ${formatCount(gaps.symbols, 'symbol')}${gaps.lost === 0 ? '' : `, ${formatNumber(gaps.lost)} of them lost`}`,
    ],
    ...(isVerbose ? [['verified', formatVerified(status)] as const] : []),
    ...status.last_runs.map((run, i) => [i === 0 ? 'last runs' : '', formatLastRun(run)] as const),
  ];
  const lines = rows.flatMap(([name, value, ...more]) => [
    ...wrapAdvice(value!, style, `  ${name.padEnd(9)}  `, statusIndent),
    ...more.flatMap((text) => wrapAction(text, style, statusIndent)),
  ]);
  return `${[...formatVerdictLines(verdict, style), ...lines, ...formatLagging(status), ...formatFindingLines(findings, style, isVerbose)].join('\n')}\n`;
}

const statusIndent = ' '.repeat(13);

function formatCollected({ reached, watermark, lag_ms: lagMs, symbols: { live } }: ArchiveStatus): string {
  if (reached === null) return live === 0 ? 'no live symbols' : `nothing yet, ${formatCount(live, 'live symbol')}`;
  const proven =
    watermark === null || watermark === reached ? '' : `; proven without a hole to ${formatIsoUtc(watermark)}`;
  return `to ${formatIsoUtc(reached)}, ${formatDuration(lagMs!)} ago${proven}`;
}

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

/** The live symbols that are collected less far than the others. */
function formatLagging({ cursors, cursors_count: count, lagging_count: lagging }: ArchiveStatus): string[] {
  if (lagging === 0 || cursors.length === 0) return [];
  const shown = cursors.slice(0, Math.min(laggingMax, lagging));
  return [
    `  symbols that lag, and where their data ends: ${formatNumber(lagging)} of ${formatNumber(count)}`,
    ...shown.map(({ symbol, cursor }) => `    ${formatIsoUtc(cursor)}  ${escapeControls(symbol)}`),
  ];
}

const laggingMax = 5;

/** How a run ended. */
function formatLastRun({
  job,
  started_at: startedAt,
  finished_at: finishedAt,
  exit_code: exitCode,
  state,
}: LastRun): string {
  const started = `${job}, started ${formatIsoUtc(startedAt)}`;
  if (state === 'running') return `${started}, is running`;
  if (state === 'interrupted') return `${started}, was interrupted`;
  return `${started}, ended after ${formatDuration(finishedAt! - startedAt)}, ${formatExitCode(exitCode!)}`;
}

/** Why days are not complete. */
export function formatOpenDayLines({
  open_days: days = [],
  open_days_count: count = days.length,
}: Partial<OpenDayList>): string[] {
  const { lines, more } = selectShownDays(days, count);
  return [
    ...lines,
    ...(more > 0
      ? [`and ${formatCount(more, 'more day')}: oddslake sql "SELECT date, reason FROM days WHERE reason IS NOT NULL"`]
      : []),
  ];
}

/** Range of finished days, including those since the last publish, and their number by state. */
function formatDays({ days: { first, last }, completeness }: ArchiveStatus): string {
  if (first === null || last === null) return 'no finished day yet';
  return `${first === last ? first : `${first} to ${last}`}: ${formatDayStates(completeness)}`;
}

/** Number of finished days by state. */
export function formatDayStates({ days: { complete, ...others } }: Pick<CompletenessCounts, 'days'>): string {
  const rest = Object.entries(others).filter(([, count]) => count > 0);
  return [`${complete} complete`, ...rest.map(([state, count]) => `${count} ${state.replaceAll('_', ' ')}`)].join(', ');
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
  const provisionalText = `${formatCount(windows, 'window')} of ${formatCount(symbols, 'symbol')} ${windows === 1 ? 'is' : 'are'} provisional: covered by inference, not proven yet`;
  const { excluded = 0, forgotten = 0 } = notCollected;
  const notCollectedText = `${formatCount(excluded + forgotten, 'symbol')} not collected, of which nothing is expected: ${formatNumber(excluded)} excluded, ${formatNumber(forgotten)} forgotten`;
  const formatGap = (gap: Gap): string =>
    `${formatIsoUtc(gap.from)} … ${formatIsoUtc(gap.to)}  ${formatDuration(gap.to - gap.from).padStart(12)}  ${keepTogether(escapeControls(gap.symbol))}  ${formatGapReason(gap)}`;
  return [
    ...gaps.flatMap((gap) => wrapText(formatGap(gap), width, '', '      ')),
    ...wrapText(countText, width),
    ...(windows === 0 ? [] : wrapText(provisionalText, width)),
    ...(excluded + forgotten === 0 ? [] : wrapText(notCollectedText, width)),
    ...formatOpenDayLines(list).flatMap((text) => wrapAction(text, style)),
  ]
    .map((line) => `${line}\n`)
    .join('');
}

/** What is claimed of one moment, and by which responses. */
export function formatExplanation(
  { symbol, at, state, covered, empty, gap }: Explanation,
  { width } = plainStyle,
): string {
  const verdict = {
    proven: 'proven: an absence of ticks is a fact',
    inferred: 'not proven',
    gap: `a gap: ${gap === null ? '' : formatGapReason(gap)}`,
    'not expected': 'outside of the lifetime of the symbol, and not covered',
  }[state];
  const lines = [
    `${keepTogether(escapeControls(symbol))} at ${formatIsoUtc(at)}: ${verdict}`,
    ...covered.map(
      ({ from, to, evidence, origin, fetched_at: fetchedAt }) =>
        `${evidence} from ${formatIsoUtc(from)} to ${formatIsoUtc(to)} by a response of ${formatIsoUtc(fetchedAt)} (${origin}): ${evidenceMeanings[evidence]}`,
    ),
    ...empty.map(
      (window) =>
        `an empty response of ${formatIsoUtc(window.generated_at)} speaks for ${formatIsoUtc(window.from)} to ${formatIsoUtc(window.to)}`,
    ),
    ...(state === 'inferred'
      ? [
          `later nights prove it: ${formatMissingProof(new Set(empty.map((one) => Math.floor(one.generated_at / dayMs))).size)}`,
        ]
      : []),
  ];
  return lines
    .flatMap((line, i) => wrapText(line, width, i === 0 ? '' : '  ', '    '))
    .map((line) => `${line}\n`)
    .join('');
}

const formatMissingProof = (nights: number): string =>
  nights > 0
    ? `three nights that are empty are needed, and ${formatCount(nights, 'night')} of the last eight ${nights === 1 ? 'was' : 'were'}`
    : 'by a response with a tick on both sides, or by other symbols of that night with ticks as far out';

/** E.g. `failed since 2026-11-19T03:17:00Z: HTTP 500, 2 attempts`. */
function formatGapReason({ reason, detail, since, ticks }: Gap): string {
  if (reason === 'lost') return `lost: ${formatCount(ticks ?? 0, 'published tick')}`;
  const sinceText = since === undefined ? '' : ` since ${formatIsoUtc(since)}`;
  return `${reason}${sinceText}${detail === undefined ? '' : `: ${escapeControls(detail)}`}`;
}
