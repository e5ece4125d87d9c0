import type { CountComparison } from '../archive/journal/nightly-comparison.ts';
import { formatBytes, formatCount, formatDuration, formatNumber } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import type { NightSummary, RecheckCounts, Summary } from '../collector/run/summary.ts';
import { formatCompleteness } from '../contract/completeness-counts.ts';
import type { CliContext, CommonFlags } from './command-context.ts';
import {
  createPaints,
  escapeControls,
  formatNames,
  getTerminalStyle,
  joinParts,
  type TerminalStyle,
  wrapText,
} from './terminal-style.ts';

/** How it ended, and what is said of that behind the time that it took. */
const outcomeTexts: Record<Summary['outcome'], readonly [ending: string, more: string]> = {
  done: ['done', ''],
  failed: ['failed', ''],
  usage: ['not started', ''],
  credential: ['stopped', ': the key was refused'],
  incomplete: ['done', ', but incomplete'],
  busy: ['ended', ', but not published: another run is writing'],
  damaged: ['ended', ': the archive is damaged'],
  unreachable: ['failed', ': the upstream could not be reached'],
  interrupted: ['stopped', '; what was accepted is kept'],
};

/** Off a terminal: neither wrapped nor coloured. */
const plainStyle: TerminalStyle = { width: null, hasColour: false };

/** The end of a job, for a person: what came in, what was published, what is missing, what to do. */
export function formatSummary(summary: Summary, root: string, style: TerminalStyle = plainStyle): string {
  const { bold, faint, green, yellow, red } = createPaints(style.hasColour);
  const { job, outcome, warnings_count } = summary;
  const calm = outcome === 'done' && warnings_count === 0 ? green : yellow;
  const paint = outcome === 'done' || outcome === 'incomplete' || outcome === 'interrupted' ? calm : red;
  const took = formatDuration(summary.finished_at - summary.started_at);
  const [ending, more] = outcomeTexts[outcome];
  const head = `${bold(job)} ${paint(ending)} after ${took}${more === '' ? '' : paint(more)}`;
  const rows = buildSummaryRows(summary, root, style.width);
  const width = Math.max(0, ...rows.map(([name]) => name.length));
  const lines = rows.flatMap(([name, values]) =>
    values.map((value, i) => `  ${faint((i === 0 ? name : '').padEnd(width))}  ${value}`),
  );
  return [head, ...lines, ...formatProblems(summary, style), ...formatNextAction(summary, style)].join('\n');
}

function formatProblems(
  { warnings, warnings_count, failures, failures_count, error }: Summary,
  style: TerminalStyle,
): string[] {
  const { yellow, red } = createPaints(style.hasColour);
  const out: string[] = [];
  if (error !== null) out.push('', ...formatLabelled('error:', red, error, style));
  if (warnings.length > 0)
    out.push('', ...warnings.flatMap((warning) => formatLabelled('warning:', yellow, warning, style)));
  if (warnings_count > warnings.length)
    out.push(`… and ${formatCount(warnings_count - warnings.length, 'warning')} more`);
  const whole = failures.filter(({ symbol }) => symbol === null);
  if (whole.length > 0)
    out.push('', ...whole.flatMap(({ reason }) => formatLabelled('incomplete:', yellow, reason, style)));
  const windows = failures.filter(({ symbol }) => symbol !== null);
  if (windows.length > 0) {
    const all = failures_count - whole.length;
    // A night asks no more for what it was told to be lost.
    const next = windows.some(({ reason }) => reason.startsWith('lost: ')) ? '' : '; the next run asks again';
    out.push('', `${formatCount(all, 'window')} could not be fetched${next}:`);
    for (const { symbol, from, to, reason } of windows.slice(0, windowsShown))
      out.push(
        ...wrapText(
          `${escapeControls(symbol!)}  ${formatIsoUtc(from!)} … ${formatIsoUtc(to!)}  ${escapeControls(reason)}`,
          style.width,
          '  ',
          '      ',
        ),
      );
    if (all > windowsShown) out.push(`  … and ${formatNumber(all - windowsShown)} more`);
  }
  return out;
}

const windowsShown = 5;

/** The one thing to do next, its command by itself in a line, so that it can be copied. */
function formatNextAction({ next_action: action }: Summary, style: TerminalStyle): string[] {
  if (action === null || action === undefined) return [];
  const { bold } = createPaints(style.hasColour);
  const [, sentence, command] = /^(.*?): ((?:oddslake|gzip) .*)$/s.exec(action) ?? [];
  if (sentence === undefined) return ['', ...formatLabelled('next:', bold, action, style)];
  return ['', ...formatLabelled('next:', bold, `${sentence}:`, style), `  ${escapeControls(command!)}`];
}

function formatLabelled(
  head: string,
  paint: (text: string) => string,
  text: string,
  { width }: TerminalStyle,
): string[] {
  const [first, ...rest] = wrapText(`${head} ${escapeControls(text)}`, width, '', '  ');
  return [paint(head) + first!.slice(head.length), ...rest];
}

/** Prints a summary and sets the exit code by it. */
export function reportSummary(
  shell: CliContext,
  flags: Pick<CommonFlags, 'json'>,
  summary: Summary,
  root: string,
): void {
  printSummary(flags, summary, root);
  shell.setExitCode(summary.exit_code);
}

/** Prints a summary: for a person, or as one JSON line. */
export function printSummary(flags: Pick<CommonFlags, 'json'>, summary: Summary, root: string): void {
  if (flags.json === true) {
    if (summary.error !== null) process.stderr.write(`oddslake: ${summary.error}\n`);
    process.stdout.write(`${JSON.stringify(summary)}\n`);
  } else if (summary.run_id === null) process.stderr.write(`oddslake: ${summary.error}\n`);
  else process.stdout.write(`${formatSummary(summary, root, getTerminalStyle(process.stdout))}\n`);
}

type SummaryRow = readonly [name: string, lines: readonly string[]];

/** Columns that a name and the blanks around it take. */
const labelWidth = 13;

/** What is told of a run, by name: what there is nothing to tell of is left out. `width`: null where nothing is cut. */
export function buildSummaryRows(summary: Summary, root: string, width: number | null): SummaryRow[] {
  if (summary.run_id === null) return [];
  const room = width === null ? null : Math.max(20, width - labelWidth);
  const { night, orderbooks, rechecks, restored, published, symbols } = summary;
  const inLines = (...parts: (string | null)[]): string[] =>
    joinParts(
      parts.filter((part) => part !== null),
      room,
    );
  const rows: [string, string[]][] = [];
  if (summary.ticks.fetched > 0 || summary.recovered > 0 || symbols.planned > 0 || night !== undefined)
    rows.push(['ticks', inLines(...formatTicks(summary))]);
  if (symbols.planned > 0)
    rows.push([
      'symbols',
      inLines(
        `${formatNumber(symbols.done)} of ${formatNumber(symbols.planned)} done`,
        formatNonzero(symbols.failed, 'failed'),
        formatNonzero(symbols.suspended, 'suspended'),
      ),
    ]);
  if (night !== undefined) rows.push(['markets', formatMarkets(night.markets, room)]);
  else if (summary.markets !== undefined) rows.push(['markets', [formatCount(summary.markets, 'market')]]);
  if (orderbooks.planned > 0)
    rows.push([
      'books',
      inLines(
        `${formatNumber(orderbooks.done)} of ${formatCount(orderbooks.planned, 'symbol')}`,
        `${formatCount(orderbooks.snapshots, 'snapshot')}${orderbooks.empty > 0 ? `, ${formatNumber(orderbooks.empty)} empty` : ''}`,
        formatNonzero(orderbooks.quarantined, 'quarantined'),
        formatNonzero(orderbooks.failed, 'failed'),
        formatNonzero(orderbooks.missing, 'without one'),
      ),
    ]);
  if (rechecks !== undefined && rechecks.windows + rechecks.reread_windows > 0)
    rows.push(['rechecks', inLines(...formatRechecks(rechecks))]);
  if (summary.requests > 0) rows.push(['requests', inLines(...formatRequests(summary))]);
  if (restored !== undefined) {
    const back = formatRestored(restored);
    if (back.length > 0) rows.push(['back', inLines(...back)]);
  }
  rows.push(['published', inLines(...formatPublished(published, summary.generation))]);
  const covered = formatCovered(summary);
  if (covered.length > 0) rows.push(['covered', covered.flatMap((part) => inLines(part))]);
  if (summary.verdict !== undefined) rows.push(['verdict', inLines(formatCompleteness(summary.verdict))]);
  if (night !== undefined && night.fetched_late.count > 0)
    rows.push(['too late', formatTooLate(night.fetched_late, room)]);
  rows.push(['archive', [escapeControls(root)]]);
  return rows;
}

const formatRechecks = (rechecks: RecheckCounts): (string | null)[] => [
  formatCount(rechecks.windows, 'window'),
  formatNonzero(rechecks.contradicted, 'contradicted'),
  formatNonzero(rechecks.new_ticks, 'new'),
  formatNonzero(rechecks.reread_windows, 'read again'),
  formatNonzero(rechecks.doubtful_windows, 'in doubt'),
  rechecks.lateness_ms === 0 ? null : `up to ${formatDuration(rechecks.lateness_ms)} late`,
];

const formatNonzero = (count: number, what: string): string | null =>
  count > 0 ? `${formatNumber(count)} ${what}` : null;

function formatTicks({ ticks, recovered, night }: Summary): (string | null)[] {
  const aside = formatNonzero(ticks.quarantined, 'quarantined');
  const back = formatNonzero(recovered, 'recovered from an earlier run');
  const known = formatNonzero(ticks.duplicates, 'known');
  if (night === undefined)
    return [`${formatNumber(ticks.accepted)} new`, known, formatNonzero(ticks.conflicts, 'conflicting'), aside, back];
  const { new: fresh, late, conflicts } = night.ticks;
  const own = ticks.accepted + recovered;
  const others = own === fresh.count ? null : `${formatNumber(own)} of them in this run`;
  return [
    `${formatNumber(fresh.count)} new${formatMedian(fresh, night.nights, true)}`,
    others,
    formatCompared(late, 'late', night),
    formatCompared(conflicts, 'conflicting', night),
    known,
    aside,
    back,
  ];
}

/** Nothing where there is none, as there never is. */
const formatCompared = (compared: CountComparison, what: string, { nights }: NightSummary): string | null =>
  compared.count === 0 && (compared.median ?? 0) === 0
    ? null
    : `${formatNumber(compared.count)} ${what}${formatMedian(compared, nights, false)}`;

function formatMedian({ median }: CountComparison, nights: number, isFirst: boolean): string {
  if (median === null) return '';
  if (nights === 1) return ` (the night before ${formatMedianValue(median)})`;
  return ` (median${isFirst ? ` of ${nights} nights` : ''} ${formatMedianValue(median)})`;
}

/** A median may lie halfway between two counts. */
const formatMedianValue = (median: number): string => formatNumber(median < 10 ? median : Math.round(median));

function formatMarkets(
  { new: fresh, delisted, resolved, overdue }: NightSummary['markets'],
  room: number | null,
): string[] {
  const counts = [
    formatNonzero(fresh.count, 'new'),
    formatNonzero(resolved.count, 'resolved'),
    formatNonzero(delisted.count, 'delisted'),
    formatNonzero(overdue.count, 'overdue'),
  ].filter((part) => part !== null);
  if (counts.length === 0) return ['none new, none delisted'];
  const named = ([what, { names, count }]: readonly [string, typeof delisted]): string[] => {
    const left = room === null ? null : room - what.length - 2;
    return count === 0 ? [] : [`${what}: ${formatNames(names.map(escapeControls), count, left)}`];
  };
  // Those are the ones that somebody may want to look into.
  return [
    ...joinParts(counts, room),
    ...(
      [
        ['delisted', delisted],
        ['overdue', overdue],
      ] as const
    ).flatMap(named),
  ];
}

function formatRequests({ requests, retries, throttled_ms, rate }: Summary): (string | null)[] {
  return [
    formatNumber(requests),
    retries > 0 ? (retries === 1 ? '1 retry' : `${formatNumber(retries)} retries`) : null,
    // Of a few requests their share says nothing.
    rate === undefined || requests < 10
      ? null
      : `${Math.round(rate.used * 100)} % of ${formatPerSecond(rate.allowed_per_second)} a second used`,
    rate !== undefined && rate.wait_ms >= 1000 ? `waited ${formatDuration(rate.wait_ms)} for their turn` : null,
    throttled_ms > 0 ? `held back for ${formatDuration(throttled_ms)} by the service` : null,
  ];
}

/** `5`, `0.25`: rates have few digits. */
const formatPerSecond = (rate: number): string => formatNumber(Number(rate.toPrecision(3)));

function formatRestored({ raw, asked }: NonNullable<Summary['restored']>): string[] {
  const of = (part: typeof raw, where: string): string[] =>
    part === undefined || part.windows === 0
      ? []
      : [`${formatCount(part.ticks, 'tick')} of ${formatCount(part.windows, 'lost window')} ${where}`];
  return [...of(raw, 'from .oddslake/raw'), ...of(asked, 'asked for again')];
}

function formatPublished(published: Summary['published'], generation: number): string[] {
  if (published.files === 0) return [`nothing new (generation ${formatNumber(generation)})`];
  const { dates } = published;
  const last =
    published.dates_count > dates.length
      ? `and ${formatCount(published.dates_count - dates.length, 'day')} more`
      : dates.at(-1);
  const days = published.dates_count > 1 ? `${dates[0]} … ${last}` : (dates[0] ?? 'no day');
  const ticks = [formatNonzero(published.added, 'ticks added'), formatNonzero(published.lost, 'ticks lost')].filter(
    (part) => part !== null,
  );
  const files = `${formatCount(published.files, 'file')}, ${formatBytes(published.bytes)}, ${days}`;
  return [`${[files, ...ticks].join(', ')} (generation ${formatNumber(generation)})`];
}

function formatCovered({ watermark, reached = watermark, night, symbols: asked }: Summary): string[] {
  const but = asked.suspended === 0 ? '' : `, but for ${formatNumber(asked.suspended)} suspended`;
  const nothing = asked.planned > 0 || night !== undefined ? ['nothing yet'] : [];
  if (reached === null && nothing.length > 0) return nothing;
  const upTo = reached === null ? [] : [`every live symbol up to ${formatMinuteUtc(reached)}${but}`];
  if (night === undefined) return upTo;
  const { symbols, gap_minutes: minutes } = night.covered;
  const whole = `${formatCount(symbols, 'symbol')} without a gap`;
  return [...upTo, minutes === 0 ? whole : `${whole}, ${formatCount(minutes, 'minute')} lacking of others`];
}

const formatMinuteUtc = (ms: number): string =>
  formatIsoUtc(ms)
    .replace('T', ' ')
    .replace(/(:\d\d)(:\d\d)(\.\d+)?Z$/, '$1$2 UTC');

function formatTooLate({ count, names }: NightSummary['fetched_late'], room: number | null): string[] {
  const why = `${formatCount(count, 'symbol')} asked for so long after the fact that the service may have thinned ${count === 1 ? 'it' : 'them'}:`;
  return [...wrapText(why, room), formatNames(names.map(escapeControls), count, room)];
}
