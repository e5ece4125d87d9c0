import { seriesDatasets } from '../archive/format/series-datasets.ts';
import type { PushSummary, RecheckCounts, SourceSummary, Summary } from '../archive/journal/run-summary.ts';
import type { SeriesCounts } from '../archive/journal/series-counts.ts';
import { formatBytes, formatCount, formatDuration, formatNumber, formatRate } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import { completeCommands } from '../context/command-name.ts';
import type { CliContext, CommonFlags } from './command-context.ts';
import { formatDayStates, formatOpenDayLines } from './format-archive.ts';
import { formatFindingLines, formatVerdictLines } from './format-findings.ts';
import { wrapAction, wrapText } from './table.ts';
import { createPaints, escapeControls, getTerminalStyle, plainStyle, type TerminalStyle } from './terminal-style.ts';

/** How each outcome is named, before and after the duration. */
const outcomeTexts: Record<Summary['outcome'], readonly [ending: string, more: string]> = {
  done: ['done', ''],
  failed: ['failed', ''],
  usage: ['not started', ''],
  credential: ['stopped', ''],
  incomplete: ['done', ', but incomplete'],
  busy: ['ended', ', but not published'],
  damaged: ['ended', ''],
  unreachable: ['failed', ''],
  interrupted: ['stopped', ''],
};

/** What a job adds to its summary. */
export interface SummaryDetails {
  /** The first row of the table: its name, and parts that are joined. */
  readonly row: SummaryRow;
  /** Formats the lines below the table. */
  format(style: TerminalStyle): readonly string[];
}

/** How a summary is shown. */
interface SummaryOptions {
  readonly details?: SummaryDetails | null;
  /** Whether all rows, warnings and failed windows are shown; otherwise a good night takes at most six lines. */
  readonly isVerbose?: boolean;
}

/** Formats the summary of a job: the verdict with its command, the figures of the run, and what else was found. */
export function formatSummary(
  summary: Summary,
  root: string,
  style = plainStyle,
  { details = null, isVerbose = false }: SummaryOptions = {},
): string {
  const { faint } = createPaints(style.hasColour);
  const rows = [
    ...(details === null ? [] : [[details.row[0], joinParts(details.row[1], toTextWidth(style.width))] as const]),
    ...buildSummaryRows(summary, root, style, isVerbose),
  ];
  const detailLines = details?.format(style) ?? [];
  const width = Math.max(0, ...rows.map(([name]) => name.length));
  const lines = rows.flatMap(([name, values]) =>
    values.map((value, i) => `  ${faint((i === 0 ? name : '').padEnd(width))}  ${value}`),
  );
  return [
    ...formatVerdictLines(summary.verdict, style),
    ...lines,
    ...(detailLines.length > 0 ? ['', ...detailLines] : []),
    ...formatFindingLines(summary.findings, style, isVerbose),
    ...(isVerbose ? formatFailedWindows(summary, style) : []),
  ].join('\n');
}

/** The windows that could not be fetched, as far as the summary lists them. */
function formatFailedWindows({ failures, failures_count: count }: Summary, style: TerminalStyle): string[] {
  const windows = failures.filter(({ symbol }) => symbol !== null);
  if (windows.length === 0) return [];
  return [
    '',
    `${formatCount(count - (failures.length - windows.length), 'window')} not fetched:`,
    ...windows.flatMap(({ symbol, from, to, reason }) =>
      wrapText(
        `${escapeControls(symbol!)}  ${formatIsoUtc(from!)} … ${formatIsoUtc(to!)}  ${escapeControls(reason)}`,
        style.width,
        '  ',
        '      ',
      ),
    ),
    ...(count > failures.length ? [`  … and ${formatNumber(count - failures.length)} more`] : []),
  ];
}

/** Prints a summary and sets the exit code of the process to that of the summary. */
export function reportSummary(
  shell: CliContext,
  flags: Pick<CommonFlags, 'json' | 'verbose'>,
  summary: Summary,
  root: string,
  details: SummaryDetails | null = null,
): void {
  printSummary(flags, summary, root, details);
  shell.setExitCode(summary.exit_code);
}

/** Prints a summary as text or as one JSON line. */
export function printSummary(
  flags: Pick<CommonFlags, 'json' | 'verbose'>,
  summary: Summary,
  root: string,
  details: SummaryDetails | null = null,
): void {
  if (flags.json === true) {
    if (summary.error !== null) process.stderr.write(`oddslake: ${completeCommands(summary.error)}\n`);
    process.stdout.write(`${JSON.stringify(summary)}\n`);
  } else if (summary.run_id === null) process.stderr.write(`oddslake: ${completeCommands(summary.error ?? '')}\n`);
  else {
    const options = { details, isVerbose: flags.verbose === true };
    process.stdout.write(`${formatSummary(summary, root, getTerminalStyle(process.stdout), options)}\n`);
  }
}

type SummaryRow = readonly [name: string, lines: readonly string[]];

/** Width of a row label with its spaces, in columns. */
const labelWidth = 13;

const toTextWidth = (width: number | null): number | null => (width === null ? null : Math.max(20, width - labelWidth));

/** Labelled rows of a summary, without empty ones. Without a width nothing is shortened. */
function buildSummaryRows(summary: Summary, root: string, style: TerminalStyle, isVerbose: boolean): SummaryRow[] {
  const textWidth = toTextWidth(style.width);
  const inLines = (parts: readonly (string | null)[]): string[] =>
    joinParts(
      parts.filter((counts) => counts !== null),
      textWidth,
    );
  const { orderbooks, rechecks, restored, symbols, markets, completeness } = summary;
  const series = seriesDatasets.flatMap((dataset) =>
    summary[dataset] === undefined ? [] : [{ dataset, of: summary[dataset] }],
  );
  const hasTicks = summary.ticks.fetched > 0 || summary.recovered > 0;
  const [ending, more] = outcomeTexts[summary.outcome];
  const duration = formatDuration(summary.finished_at - summary.started_at);
  const rows: [name: string, isAlways: boolean, lines: string[]][] = [
    [summary.job, true, inLines([`${ending} after ${duration}${more}`, escapeControls(root)])],
  ];
  if (hasTicks || (symbols.planned > 0 && series.length === 0))
    rows.push(['ticks', true, inLines(formatRowCounts({ ...summary.ticks, recovered: summary.recovered }))]);
  for (const { dataset, of } of series) rows.push([dataset, true, inLines(formatRowCounts(of))]);
  if (symbols.planned > 0) rows.push(['symbols', symbols.done < symbols.planned, inLines(formatSymbols(summary))]);
  if (markets !== undefined) rows.push(['markets', symbols.planned === 0, [`${formatNumber(markets)} listed`]]);
  if (orderbooks.planned > 0) rows.push(['books', true, inLines(formatBooks(orderbooks))]);
  if (rechecks !== undefined && rechecks.windows + rechecks.reread_windows > 0)
    rows.push(['spot checks', false, inLines(formatRechecks(rechecks))]);
  if (summary.sources !== undefined)
    rows.push(['sources', true, summary.sources.flatMap((one) => inLines([formatSource(one)]))]);
  if (summary.requests > 0) rows.push(['requests', false, inLines(formatRequests(summary))]);
  if (restored !== undefined) rows.push(['restored', true, inLines(formatRestored(restored))]);
  rows.push(['published', true, inLines(formatPublished(summary))]);
  if (summary.pushed !== undefined) rows.push(['pushed', true, joinParts(formatPush(summary.pushed), textWidth)]);
  if (completeness !== undefined && !isUnpublished(summary))
    rows.push(['days', false, inLines([formatDayStates(completeness)])]);
  const openDays = formatOpenDayLines(summary);
  if (openDays.length > 0)
    rows.push(['', false, openDays.flatMap((text) => wrapAction(text, { ...style, width: textWidth }))]);
  return rows
    .filter(([, isAlways, lines]) => (isVerbose || isAlways) && lines.length > 0)
    .map(([name, , lines]) => [name, lines]);
}

const formatSymbols = ({ symbols }: Summary): (string | null)[] => [
  `${formatNumber(symbols.done)} of ${formatNumber(symbols.planned)} done`,
  formatNonzero(symbols.failed, 'failed'),
  formatNonzero(symbols.suspended, 'suspended'),
  formatNonzero(symbols.excluded ?? 0, 'excluded'),
  formatNonzero(symbols.forgotten ?? 0, 'forgotten'),
];

const formatBooks = (books: Summary['orderbooks']): (string | null)[] => [
  `${formatNumber(books.done)} of ${formatCount(books.planned, 'symbol')}`,
  `${formatCount(books.snapshots, 'snapshot')}${books.empty > 0 ? `, ${formatNumber(books.empty)} empty` : ''}`,
  formatNonzero(books.quarantined, 'quarantined'),
  formatNonzero(books.failed, 'failed'),
  formatNonzero(books.missing, 'missing'),
];

/** The run of one of several sources, with how it ended if not well. */
function formatSource({ source, outcome, ticks, requests, symbols }: SourceSummary): string {
  const counts = [
    `${formatNumber(ticks.accepted)} new`,
    `${formatNumber(symbols.done)} of ${formatCount(symbols.planned, 'symbol')}`,
    formatCount(requests, 'request'),
    ...(outcome === 'done' ? [] : [outcome]),
  ];
  return `${source}: ${counts.join(', ')}`;
}

const formatRechecks = (rechecks: RecheckCounts): (string | null)[] => [
  `${formatNumber(rechecks.windows - rechecks.contradicted)} of ${formatNumber(rechecks.windows)} agree`,
  formatNonzero(rechecks.new_ticks, 'new'),
  formatNonzero(rechecks.reread_windows, 're-read'),
  formatNonzero(rechecks.doubtful_windows, 'doubtful'),
  rechecks.lateness_ms === 0 ? null : `up to ${formatDuration(rechecks.lateness_ms)} late`,
];

/** `170,150 new (77,006 re-read to check them)`. What a poll reads again to check it is a duplicate. */
const formatNew = (count: number, duplicates: number): string =>
  `${formatNumber(count)} new${duplicates === 0 ? '' : ` (${formatNumber(duplicates)} re-read to check them)`}`;

function formatRowCounts({ accepted, ...counts }: SeriesCounts): (string | null)[] {
  return [
    formatNew(accepted, counts.duplicates),
    formatNonzero(counts.conflicts, 'conflicting'),
    formatNonzero(counts.quarantined, 'quarantined'),
    formatRecovered(counts.recovered),
  ];
}

const formatRecovered = (count: number): string | null =>
  count === 0 ? null : `recovered ${formatNumber(count)} that an interrupted run had journaled`;

function formatRequests({ requests, retries, throttled_ms, rate }: Summary): (string | null)[] {
  return [
    formatNumber(requests),
    retries > 0 ? (retries === 1 ? '1 retry' : `${formatNumber(retries)} retries`) : null,
    // With few requests the share means nothing.
    rate === undefined || requests < 10
      ? null
      : `at ${Math.round(rate.used * 100)} % of the limit of ${formatRate(rate.allowed_per_second)} per second`,
    throttled_ms > 0 ? `throttled for ${formatDuration(throttled_ms)} by the service` : null,
  ];
}

function formatRestored({ raw, upstream }: NonNullable<Summary['restored']>): string[] {
  const formatPart = (counts: typeof raw, origin: string): string[] =>
    counts === undefined || counts.windows === 0
      ? []
      : [`${formatCount(counts.ticks, 'tick')} of ${formatCount(counts.windows, 'lost window')} ${origin}`];
  return [...formatPart(raw, 'from .oddslake/raw'), ...formatPart(upstream, 'fetched again')];
}

function formatPush({ url, outcome, generation, uploaded, removed }: PushSummary): string[] {
  if (outcome === 'unchanged') return [`nothing new (generation ${formatNumber(generation)})`, url];
  const files = `${formatCount(uploaded.files, 'file')}, ${formatBytes(uploaded.bytes)}`;
  return [
    files,
    ...(removed > 0 ? [`${formatCount(removed, 'old object')} removed`] : []),
    `${url} (generation ${formatNumber(generation)})`,
  ];
}

const separator = ' · ';

/** Joins texts with ` · `, in lines of at most `width` columns. */
function joinParts(parts: readonly string[], width: number | null): string[] {
  const lines: string[] = [];
  for (const part of parts) {
    const last = lines.at(-1);
    if (last !== undefined && (width === null || last.length + separator.length + part.length <= width))
      lines[lines.length - 1] = last + separator + part;
    else lines.push(...wrapText(part, width));
  }
  return lines;
}

// The rows of a summary that are about what is published and covered.

/** A count with its name; null if it is 0. */
const formatNonzero = (count: number, what: string): string | null =>
  count > 0 ? `${formatNumber(count)} ${what}` : null;

/**
 * Whether another run kept this one from publishing before the first generation. The published state then says nothing of what
 * both have collected.
 */
const isUnpublished = ({ outcome, generation }: Summary): boolean => outcome === 'busy' && generation === 0;

/** What a run has published, and the generation of the archive. */
function formatPublished({ published, generation, outcome, ticks: { accepted } }: Summary): string[] {
  const generationText = `(generation ${formatNumber(generation)})`;
  if (published.files === 0)
    return [
      outcome === 'busy'
        ? `nothing by this run; what it collected is in the journal ${generationText}`
        : `nothing new, no file changed ${generationText}`,
    ];
  const { dates } = published;
  // The list is cut, so that the last day may be missing.
  const days =
    published.dates_count > dates.length
      ? `${formatCount(published.dates_count, 'day')} from ${dates[0]}`
      : [...new Set([dates[0], dates.at(-1)])].filter((date) => date !== undefined).join(' … ');
  const ticks = [
    // Usually all that are new, which the ticks of the run say.
    ...(published.added > 0 && published.added !== accepted ? [`${formatCount(published.added, 'tick')} added`] : []),
    ...(published.lost > 0 ? [`${formatCount(published.lost, 'tick')} lost`] : []),
  ];
  const files = `${formatCount(published.files, 'file')}, ${formatBytes(published.bytes)}${days === '' ? '' : `, ${days}`}`;
  return [`${[files, ...ticks].join(', ')} ${generationText}`];
}
