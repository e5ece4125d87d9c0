import type { Gap } from '../archive/completeness/completeness.ts';
import type { RepairedFile, RepairReport } from '../archive/integrity/repair-report.ts';
import type { GapList } from '../archive/read/gaps.ts';
import type { readStatus } from '../archive/read/status.ts';
import { formatBytes, formatCount, formatDuration, formatNumber } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import { formatCompleteness } from '../contract/completeness-counts.ts';
import { escapeControls } from './terminal-style.ts';

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

/** A list of gaps for a person. */
export function formatGaps({ from, to, gaps, provisional }: GapList): string {
  const span = to > from ? `from ${formatIsoUtc(from)} to ${formatIsoUtc(to)}` : 'nothing is covered yet';
  const { windows, symbols } = provisional;
  const unproven =
    windows === 0
      ? ''
      : `${formatCount(windows, 'window')} of ${formatCount(symbols, 'symbol')} ${windows === 1 ? 'is' : 'are'} provisional: covered by inference, and owed a confirmation\n`;
  if (gaps.length === 0) return `no gaps ${span}\n${unproven}`;
  const lines = gaps.map(
    (gap) =>
      `${formatIsoUtc(gap.from)} … ${formatIsoUtc(gap.to)}  ${formatDuration(gap.to - gap.from).padStart(12)}  ${escapeControls(gap.symbol)}  ${formatGapReason(gap)}\n`,
  );
  return `${lines.join('')}${formatCount(gaps.length, 'gap')} of ${formatCount(new Set(gaps.map((gap) => gap.symbol)).size, 'symbol')} ${span}\n${unproven}`;
}

/** `failed since 2026-11-19T03:17:00Z: answered 500`. */
function formatGapReason({ reason, detail, since, ticks }: Gap): string {
  if (reason === 'lost') return `lost: ${formatCount(ticks ?? 0, 'tick')} once`;
  const when = since === undefined ? '' : ` since ${formatIsoUtc(since)}`;
  return `${reason}${when}${detail === undefined ? '' : `: ${escapeControls(detail)}`}`;
}

const linesMax = 50;

/** What a repair did, for a person: a line a file, then what is asked for again. */
export function formatRepair({ repaired, lost, files, bytes, generation }: RepairReport): string {
  const verdict = repaired.length === 0 ? 'all as published' : `${formatCount(repaired.length, 'file')} mended`;
  const ticks = lost.reduce((sum, window) => sum + window.ticks, 0);
  return [
    ...limitLines(repaired.map(formatRepairedFile)),
    ...(lost.length === 0 ? [] : [`${formatNumber(ticks)} ticks are lost in ${formatCount(lost.length, 'window')}:`]),
    ...limitLines(
      lost.map(
        (w) => `  ${w.symbol}  ${formatIsoUtc(w.from)} … ${formatIsoUtc(w.to)}  ${formatCount(w.ticks, 'tick')}`,
      ),
    ),
    `${formatCount(files, 'file')}, ${formatBytes(bytes)}, generation ${generation}: ${verdict}`,
  ]
    .map((line) => `${line}\n`)
    .join('');
}

const limitLines = (lines: readonly string[]): string[] =>
  lines.length <= linesMax
    ? [...lines]
    : [...lines.slice(0, linesMax), `  … and ${formatNumber(lines.length - linesMax)} more`];

function formatRepairedFile({ path, kind, outcome, moved_to, rows, rows_lost }: RepairedFile): string {
  const kept =
    rows !== null && rows_lost !== null && rows_lost > 0
      ? `, ${formatNumber(rows - rows_lost)} of ${formatCount(rows, 'row')} kept`
      : '';
  const aside = moved_to === null ? '' : `; what was there is in ${moved_to}`;
  return `${path}: ${kind}; ${outcome}${kept}${aside}`;
}
