import { seriesDatasets } from '../archive/format/series-datasets.ts';
import type { CountComparison } from '../archive/journal/nightly-comparison.ts';
import type {
  NightSummary,
  PushSummary,
  RecheckCounts,
  SourceSummary,
  Summary,
} from '../archive/journal/run-summary.ts';
import type { SeriesCounts } from '../archive/journal/series-counts.ts';
import { formatBytes, formatCount, formatDuration, formatNumber, formatRate } from '../base/format-quantity.ts';
import { formatIsoMinute, formatIsoUtc } from '../base/time.ts';
import { formatCompleteness, formatCoveredSymbols } from '../contract/completeness-counts.ts';
import type { CliContext, CommonFlags } from './command-context.ts';
import { completeCommands } from './command-name.ts';
import { formatOpenDayLines } from './format-archive.ts';
import { wrapAction, wrapAdvice, wrapText } from './table.ts';
import { createPaints, escapeControls, getTerminalStyle, plainStyle, type TerminalStyle } from './terminal-style.ts';
import { measureText } from './text-width.ts';

/** Texts of each outcome, before and after the duration. */
const outcomeTexts: Record<Summary['outcome'], readonly [ending: string, more: string]> = {
  done: ['done', ''],
  failed: ['failed', ''],
  usage: ['not started', ''],
  credential: ['stopped', ': the key was rejected'],
  incomplete: ['done', ', but incomplete'],
  busy: ['ended', ', but not published: another run is writing'],
  damaged: ['ended', ': the archive is damaged'],
  unreachable: ['failed', ': the upstream could not be reached'],
  interrupted: ['stopped', '; what was accepted is kept'],
};

/** What a job adds to its summary. */
export interface SummaryDetails {
  /** The first row of the table: its name, and parts that are joined. */
  readonly row: SummaryRow;
  /** Formats the lines below the table. */
  format(style: TerminalStyle): readonly string[];
}

/** Formats the summary of a job: ticks, published files, missing windows and the next action. */
export function formatSummary(
  summary: Summary,
  root: string,
  style = plainStyle,
  details: SummaryDetails | null = null,
): string {
  const { bold, faint, green, yellow, red } = createPaints(style.hasColour);
  const { job, outcome, warnings_count } = summary;
  const doneColour = outcome === 'done' && warnings_count === 0 ? green : yellow;
  const paint = outcome === 'done' || outcome === 'incomplete' || outcome === 'interrupted' ? doneColour : red;
  const duration = formatDuration(summary.finished_at - summary.started_at);
  const [ending, detail] = outcomeTexts[outcome];
  const label = `${bold(job)} ${paint(ending)} after ${duration}${detail === '' ? '' : paint(detail)}`;
  const rows = [
    ...(details === null ? [] : [[details.row[0], joinParts(details.row[1], toTextWidth(style.width))] as const]),
    ...buildSummaryRows(summary, root, style),
  ];
  const detailLines = details?.format(style) ?? [];
  const width = Math.max(0, ...rows.map(([name]) => name.length));
  const lines = rows.flatMap(([name, values]) =>
    values.map((value, i) => `  ${faint((i === 0 ? name : '').padEnd(width))}  ${value}`),
  );
  return [
    label,
    ...lines,
    ...(detailLines.length > 0 ? ['', ...detailLines] : []),
    ...formatProblems(summary, style),
    ...formatNextAction(summary, style),
  ].join('\n');
}

function formatProblems(
  { warnings, warnings_count, failures, failures_count, error }: Summary,
  style: TerminalStyle,
): string[] {
  const { yellow, red } = createPaints(style.hasColour);
  const out: string[] = [];
  if (error !== null) out.push('', ...formatLabelled(red('error:'), error, style));
  if (warnings.length > 0)
    out.push('', ...warnings.flatMap((warning) => formatLabelled(yellow('warning:'), warning, style)));
  if (warnings_count > warnings.length)
    out.push(`… and ${formatCount(warnings_count - warnings.length, 'warning')} more`);
  const runFailures = failures.filter(({ symbol }) => symbol === null);
  if (runFailures.length > 0)
    out.push('', ...runFailures.flatMap(({ reason }) => formatLabelled(yellow('incomplete:'), reason, style)));
  const windowFailures = failures.filter(({ symbol }) => symbol !== null);
  if (windowFailures.length > 0) {
    const windowsCount = failures_count - runFailures.length;
    // Nightly runs do not request lost windows again.
    const nextText = windowFailures.some(({ reason }) => reason.startsWith('lost: ')) ? '' : '; the next run retries';
    out.push('', `${formatCount(windowsCount, 'window')} could not be fetched${nextText}:`);
    for (const { symbol, from, to, reason } of windowFailures.slice(0, windowsShown))
      out.push(
        ...wrapText(
          `${escapeControls(symbol!)}  ${formatIsoUtc(from!)} … ${formatIsoUtc(to!)}  ${escapeControls(reason)}`,
          style.width,
          '  ',
          '      ',
        ),
      );
    if (windowsCount > windowsShown) out.push(`  … and ${formatNumber(windowsCount - windowsShown)} more`);
  }
  return out;
}

const windowsShown = 5;

/** Formats the next action, with its command on a separate line, so that it can be copied. */
function formatNextAction({ next_action: action }: Summary, style: TerminalStyle): string[] {
  if (action === null || action === undefined) return [];
  const { bold } = createPaints(style.hasColour);
  const [, sentence, command] = /^(.*?): ((?:oddslake|gzip) .*)$/s.exec(action) ?? [];
  if (sentence === undefined) return ['', ...formatLabelled(bold('next:'), action, style)];
  return ['', ...formatLabelled(bold('next:'), `${sentence}:`, style), `  ${style.complete(escapeControls(command!))}`];
}

/** A text after a painted label. */
const formatLabelled = (label: string, text: string, style: TerminalStyle): string[] =>
  wrapAdvice(`${label} ${escapeControls(text)}`, style, '', '  ');

/** Prints a summary and sets the exit code of the process to that of the summary. */
export function reportSummary(
  shell: CliContext,
  flags: Pick<CommonFlags, 'json'>,
  summary: Summary,
  root: string,
  details: SummaryDetails | null = null,
): void {
  printSummary(flags, summary, root, details);
  shell.setExitCode(summary.exit_code);
}

/** Prints a summary as text or as one JSON line. */
export function printSummary(
  flags: Pick<CommonFlags, 'json'>,
  summary: Summary,
  root: string,
  details: SummaryDetails | null = null,
): void {
  if (flags.json === true) {
    if (summary.error !== null) process.stderr.write(`oddslake: ${completeCommands(summary.error)}\n`);
    process.stdout.write(`${JSON.stringify(summary)}\n`);
  } else if (summary.run_id === null) process.stderr.write(`oddslake: ${completeCommands(summary.error ?? '')}\n`);
  else process.stdout.write(`${formatSummary(summary, root, getTerminalStyle(process.stdout), details)}\n`);
}

type SummaryRow = readonly [name: string, lines: readonly string[]];

/** Width of a row label with its spaces, in columns. */
const labelWidth = 13;

/** Width of the values of rows. */
const toTextWidth = (width: number | null): number | null => (width === null ? null : Math.max(20, width - labelWidth));

/** Labelled rows of a summary, without empty ones. Without a width nothing is shortened. */
function buildSummaryRows(summary: Summary, root: string, style: TerminalStyle): SummaryRow[] {
  const textWidth = toTextWidth(style.width);
  const pushRows: [string, string[]][] =
    summary.pushed === undefined ? [] : [['pushed', joinParts(formatPush(summary.pushed), textWidth)]];
  // The push of a schedule is no run.
  if (summary.run_id === null) return pushRows;
  const { night, orderbooks, rechecks, restored, symbols } = summary;
  const inLines = (...parts: (string | null)[]): string[] =>
    joinParts(
      parts.filter((counts) => counts !== null),
      textWidth,
    );
  const rows: [string, string[]][] = [];
  const series = seriesDatasets.flatMap((dataset) => {
    const of = summary[dataset];
    return of === undefined ? [] : [{ dataset, of }];
  });
  const hasTicks = summary.ticks.fetched > 0 || summary.recovered > 0 || night !== undefined;
  if (hasTicks || (symbols.planned > 0 && series.length === 0)) rows.push(['ticks', inLines(...formatTicks(summary))]);
  for (const { dataset, of } of series) rows.push([dataset, inLines(...formatRowCounts(of))]);
  if (symbols.planned > 0)
    rows.push([
      'symbols',
      inLines(
        `${formatNumber(symbols.done)} of ${formatNumber(symbols.planned)} done`,
        formatNonzero(symbols.failed, 'failed'),
        formatNonzero(symbols.suspended, 'suspended'),
        formatNonzero(symbols.excluded ?? 0, 'excluded'),
        formatNonzero(symbols.forgotten ?? 0, 'forgotten'),
      ),
    ]);
  if (summary.markets !== undefined) rows.push(['markets', [`${formatNumber(summary.markets)} listed`]]);
  else if (night !== undefined) rows.push(['markets', ['no list was fetched']]);
  if (night !== undefined && summary.markets !== undefined)
    rows.push(['changes', formatChanges(night.markets, textWidth)]);
  if (orderbooks.planned > 0)
    rows.push([
      'books',
      inLines(
        `${formatNumber(orderbooks.done)} of ${formatCount(orderbooks.planned, 'symbol')}`,
        `${formatCount(orderbooks.snapshots, 'snapshot')}${orderbooks.empty > 0 ? `, ${formatNumber(orderbooks.empty)} empty` : ''}`,
        formatNonzero(orderbooks.quarantined, 'quarantined'),
        formatNonzero(orderbooks.failed, 'failed'),
        formatNonzero(orderbooks.missing, 'missing'),
      ),
    ]);
  if (rechecks !== undefined && rechecks.windows + rechecks.reread_windows > 0)
    rows.push(['rechecks', inLines(...formatRechecks(rechecks))]);
  if (summary.sources !== undefined)
    rows.push(['sources', summary.sources.flatMap((one) => inLines(formatSource(one)))]);
  if (summary.requests > 0) rows.push(['requests', inLines(...formatRequests(summary))]);
  if (restored !== undefined) {
    const recoveredText = formatRestored(restored);
    if (recoveredText.length > 0) rows.push(['restored', inLines(...recoveredText)]);
  }
  rows.push(['published', inLines(...formatPublished(summary))]);
  rows.push(...pushRows);
  const covered = formatCovered(summary);
  if (covered.length > 0) rows.push(['covered', covered.flatMap((counts) => inLines(counts))]);
  if (summary.completeness !== undefined && !isUnpublished(summary))
    rows.push(['state', inLines(formatCompleteness(summary.completeness))]);
  const openDays = formatOpenDayLines(summary);
  if (openDays.length > 0)
    rows.push(['days', openDays.flatMap((text) => wrapAction(text, { ...style, width: textWidth }))]);
  if (night !== undefined && night.fetched_late.count > 0)
    rows.push(['too late', formatTooLate(night.fetched_late, textWidth)]);
  rows.push(['archive', [escapeControls(root)]]);
  return rows;
}

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
  formatCount(rechecks.windows, 'window'),
  formatNonzero(rechecks.contradicted, 'contradicted'),
  formatNonzero(rechecks.new_ticks, 'new'),
  formatNonzero(rechecks.reread_windows, 're-read'),
  formatNonzero(rechecks.doubtful_windows, 'doubtful'),
  rechecks.lateness_ms === 0 ? null : `up to ${formatDuration(rechecks.lateness_ms)} late`,
];

function formatRowCounts({ accepted, ...counts }: SeriesCounts): (string | null)[] {
  return [
    `${formatNumber(accepted)} new`,
    formatNonzero(counts.duplicates, 'duplicate'),
    formatNonzero(counts.conflicts, 'conflicting'),
    formatNonzero(counts.quarantined, 'quarantined'),
    formatRecovered(counts.recovered),
  ];
}

function formatTicks({ ticks, recovered, night }: Summary): (string | null)[] {
  if (night === undefined) return formatRowCounts({ ...ticks, recovered });
  const quarantinedText = formatNonzero(ticks.quarantined, 'quarantined');
  const duplicatesText = formatNonzero(ticks.duplicates, 'duplicate');
  const { new: newCount, late, conflicts } = night.ticks;
  // What polls since the last night have collected.
  const others = newCount.count - ticks.accepted - recovered;
  const parts = [
    [ticks.accepted, 'by this run'],
    [others, 'by other runs'],
    [recovered, 'recovered of an interrupted run'],
  ] as const;
  const partsText =
    recovered === 0 && others === 0
      ? ''
      : ` since the last night: ${parts
          .filter(([count], i) => i === 0 || count > 0)
          .map(([count, what]) => `${formatNumber(count)} ${what}`)
          .join(', ')}`;
  return [
    `${formatNumber(newCount.count)} new${formatMedian(newCount, night.nights, true)}${partsText}`,
    formatCompared(late, 'late', night),
    formatCompared(conflicts, 'conflicting', night),
    duplicatesText,
    quarantinedText,
  ];
}

const formatRecovered = (count: number): string | null =>
  count === 0 ? null : `recovered ${formatNumber(count)} that an interrupted run had journaled`;

/** Null if both the count and its median are 0. */
const formatCompared = (counts: CountComparison, what: string, { nights }: NightSummary): string | null =>
  counts.count === 0 && (counts.median ?? 0) === 0
    ? null
    : `${formatNumber(counts.count)} ${what}${formatMedian(counts, nights, false)}`;

function formatMedian({ median }: CountComparison, nights: number, isFirst: boolean): string {
  if (median === null) return '';
  if (nights === 1) return ` (the night before ${formatMedianValue(median)})`;
  // A median of two is their mean.
  if (nights === 2) return ` (mean${isFirst ? ' of the 2 nights before' : ''} ${formatMedianValue(median)})`;
  return ` (median${isFirst ? ` of ${nights} nights` : ''} ${formatMedianValue(median)})`;
}

/** A median of counts may end in .5. */
const formatMedianValue = (median: number): string => formatNumber(median < 10 ? median : Math.round(median));

/** Changes of the market lists since the last night, in symbols: a market may have several. */
function formatChanges(
  { new: newCount, delisted, resolved, overdue }: NightSummary['markets'],
  textWidth: number | null,
): string[] {
  const counts = (
    [
      [newCount.count, 'new'],
      [resolved.count, 'resolved'],
      [delisted.count, 'delisted'],
      [overdue.count, 'overdue'],
    ] as const
  )
    .filter(([count]) => count > 0)
    .map(([count, what], i) => `${i === 0 ? formatCount(count, 'symbol') : formatNumber(count)} ${what}`);
  if (counts.length === 0) return ['no symbol new, none delisted'];
  const formatNamed = (what: string, { names, count }: typeof delisted): string[] => {
    const nameWidth = textWidth === null ? null : textWidth - what.length - 2;
    return count === 0 ? [] : [`${what}: ${formatNames(names.map(escapeControls), count, nameWidth)}`];
  };
  return [...joinParts(counts, textWidth), ...formatNamed('delisted', delisted), ...formatNamed('overdue', overdue)];
}

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

function formatTooLate({ count, names }: NightSummary['fetched_late'], textWidth: number | null): string[] {
  const explanation = `${formatCount(count, 'symbol')} fetched so late that the service may have downsampled ${count === 1 ? 'it' : 'them'}:`;
  return [...wrapText(explanation, textWidth), formatNames(names.map(escapeControls), count, textWidth)];
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

/** As many names as fit on one line of `width` columns, at least one, and the number of the others. */
function formatNames(names: readonly string[], count: number, width: number | null): string {
  const formatShown = (shown: number): string => {
    const shownNames = names.slice(0, shown).join(', ');
    return shown === count ? shownNames : `${shownNames} and ${formatNumber(count - shown)} more`;
  };
  let shown = Math.min(1, names.length);
  while (shown < names.length && measureText(formatShown(shown + 1)) <= (width ?? widthDefault)) shown++;
  return formatShown(shown);
}

/** Line width for names without a terminal, in columns. */
const widthDefault = 100;

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
function formatPublished({ published, generation, outcome }: Summary): string[] {
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
    ...(published.added > 0 ? [`${formatCount(published.added, 'tick')} added`] : []),
    ...(published.lost > 0 ? [`${formatCount(published.lost, 'tick')} lost`] : []),
  ];
  const files = `${formatCount(published.files, 'file')}, ${formatBytes(published.bytes)}${days === '' ? '' : `, ${days}`}`;
  return [`${[files, ...ticks].join(', ')} ${generationText}`];
}

/** How far the archive is covered, and what is missing in a night. */
function formatCovered(summary: Summary): string[] {
  const { watermark, reached = watermark, night, symbols: symbolCounts, damaged_count: damaged } = summary;
  const exceptText = symbolCounts.suspended === 0 ? '' : `, except ${formatNumber(symbolCounts.suspended)} suspended`;
  const hasPolled = symbolCounts.planned > 0 || night !== undefined;
  const nothingText = hasPolled && !isUnpublished(summary) ? ['nothing yet'] : [];
  if (reached === null && nothingText.length > 0) return nothingText;
  const coveredText =
    reached === null ? [] : [`${formatCoveredSymbols(damaged)} up to ${formatIsoMinute(reached)}${exceptText}`];
  if (night === undefined) return coveredText;
  const { symbols, gap_minutes: minutes } = night.covered;
  // Not all polled symbols needed a request, so that their number is not that of the line "symbols".
  return [
    ...coveredText,
    minutes === 0
      ? 'no gap in this night'
      : `in this night ${formatCount(symbols, 'symbol')} without a gap, ${formatCount(minutes, 'minute')} missing in others`,
  ];
}
