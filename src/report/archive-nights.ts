import type { NamedCount } from '../archive/journal/nightly-comparison.ts';
import { formatBytes, formatCount, formatDuration, formatNumber } from '../base/format-quantity.ts';
import { type Html, html } from '../base/html.ts';
import { formatDay, formatMinute } from '../base/time.ts';
import { dayMs } from '../base/window.ts';
import { chartPointsMin } from './archive-days.ts';
import { findCountedNight } from './data/past-run.ts';
import type { ReportData } from './data/report-data.ts';
import {
  type HtmlColumn,
  type ReportPart,
  renderCards,
  renderFacts,
  renderFigure,
  renderHtmlTable,
  renderSection,
  renderSymbols,
} from './page-parts.ts';
import { chooseTimeUnit, renderDayBars } from './time-plots.ts';

interface ChangeRow {
  readonly name: string;
  readonly count: number;
  /** Empty if there is nothing to compare with. */
  readonly usual: string;
  readonly symbols: NamedCount | null;
}

const tickRows = [
  ['new', 'New ticks'],
  ['late', 'Late ticks'],
  ['conflicts', 'Conflicts with a published price'],
] as const;
const marketRows = [
  ['new', 'New symbols'],
  ['resolved', 'Resolved symbols'],
  ['delisted', 'Delisted symbols'],
  ['overdue', 'Past their close, not resolved'],
] as const;

/** What the last nightly run changed, compared with the nights before. */
export function renderNightSection({ runs, lastNight, nightHistory }: ReportData): ReportPart[] {
  const run = findCountedNight(runs, lastNight);
  const night = run?.summary?.night;
  if (!run || night === undefined)
    return [{ name: 'Since the previous night', text: 'No nightly run has completed yet.' }];
  const rows: ChangeRow[] = [
    ...tickRows.map(([key, name]): ChangeRow => {
      const { count, median } = night.ticks[key];
      return { name, count, usual: median === null ? '' : formatNumber(Math.round(median)), symbols: null };
    }),
    ...marketRows.map(([key, name]): ChangeRow => {
      const { count } = night.markets[key];
      return { name, count, usual: '', symbols: night.markets[key] };
    }),
  ];
  const columns: HtmlColumn<ChangeRow>[] = [
    { name: 'What', kind: 'left', format: ({ name }) => name },
    { name: 'Last night', format: ({ count }) => formatNumber(count) },
    ...(night.nights === 0 ? [] : [{ name: formatUsual(night.nights), format: ({ usual }: ChangeRow) => usual }]),
    { name: 'Symbols', kind: 'text', format: ({ symbols }) => (symbols === null ? '' : renderExamples(symbols)) },
  ];
  const { files, bytes, dates_count: days } = run.summary!.published;
  const publishedText = ` It published ${formatCount(files, 'file')} (${formatBytes(bytes)}) of ${formatCount(days, 'day')}.`;
  const isCompared = night.nights > 0;
  const hasPrevious = isCompared || nightHistory.hasEarlierNight;
  // On the first night all symbols are new, and nothing else can have changed.
  const isFirst = !hasPrevious && !nightHistory.hasEarlierLists;
  const sinceText = hasPrevious ? ', and the polls since the run before it' : '';
  const heading = hasPrevious ? 'Since the previous night' : isFirst ? 'The first night' : 'The last night';
  const comparisonText =
    isCompared || isFirst
      ? ''
      : hasPrevious
        ? ' No earlier night polled a similar length of time, so that it is not compared with the usual counts.'
        : ' No earlier night is recorded that it could be compared with.';
  return [
    renderSection(heading, [
      html`<p class="note">The nightly run of ${formatMinute(run.startedAt)}${sinceText}.${comparisonText}${publishedText}</p>\n`,
      renderCards(renderHtmlTable(heading, columns, isFirst ? rows.filter(({ count }) => count > 0) : rows)),
    ]),
  ];
}

/** Maximum number of names in a cell. */
const namesMax = 5;

function renderExamples({ count, names }: NamedCount): Html {
  const shown = names.slice(0, namesMax);
  return html`${renderSymbols(shown)}${count > shown.length && shown.length > 0 ? ` and ${formatNumber(count - shown.length)} more` : ''}`;
}

/** The measured lateness of ticks, by day. */
export function renderLatenessSection({ rechecks }: ReportData): ReportPart[] {
  const { lateness, latenessMs, overlapMs } = rechecks;
  const overlapText = `Polls request the last ${formatDuration(overlapMs)} again.`;
  if (latenessMs === 0)
    return [{ name: 'Lateness', text: `No late ticks were measured in the last 30 days. ${overlapText}` }];
  const maximumText = `Late ticks became visible up to ${formatDuration(latenessMs)} after their time, or later`;
  if (lateness.length < chartPointsMin) {
    const days = lateness.map(({ day, ms }) => `${formatDuration(ms)} on ${formatDay(day)}`).join(', ');
    return [{ name: 'Lateness', text: `${maximumText}${days === '' ? '' : `: ${days}`}. ${overlapText}` }];
  }
  const [unit, unitMs] = chooseTimeUnit(latenessMs);
  const caption = `Greatest measured lateness per day, in ${unit}`;
  return [
    renderSection('Lateness', [
      renderFigure(
        `${caption}. ${maximumText}. ${overlapText}`,
        renderDayBars({
          label: `${caption}: maximum ${formatDuration(latenessMs)}`,
          yLabel: unit,
          span: { from: lateness[0]!.day, to: lateness.at(-1)!.day + dayMs },
          colour: 'var(--gap)',
          bars: lateness.map(({ day, ms }) => ({ day, value: ms / unitMs })),
        }),
      ),
    ]),
  ];
}

/** Results of rechecks: the estimated share of missing ticks. */
export function renderRechecksSection({ rechecks, status }: ReportData): ReportPart[] {
  const { windows, nights, contradicted, seen, found, isCaught } = rechecks;
  if (windows === 0) return [{ name: 'Rechecks', text: 'No settled window has been rechecked.' }];
  const sample = `${formatCount(windows, 'settled window')} in ${formatCount(nights, 'night')}, with different bounds: ${
    contradicted === 0 ? 'none' : formatNumber(contradicted)
  } returned ticks that were not in the archive (${formatNumber(found)} of ${formatCount(seen, 'tick')}).`;
  const missing = formatMissedTicks(rechecks, status.published.ticks);
  if (contradicted === 0 && !isCaught) return [{ name: 'Rechecks', text: `${sample} ${missing}` }];
  const serverText =
    'The service omits ticks from wide windows. Windows fetched before this was detected count as inferred until they are fetched again in narrower windows.';
  return [
    renderSection('Rechecks', [
      renderFacts([
        ['Rechecked', sample],
        ['Estimated missing', missing],
        ...(isCaught ? ([['Service', serverText]] as const) : []),
      ]),
      html`<p class="note">Contradicted windows are withdrawn and fetched again.</p>\n`,
    ]),
  ];
}

const formatMissedPercent = (share: number): string => `${(100 * share).toPrecision(2)} %`;

/** Estimate of missing ticks from a sample, with its upper bound. */
function formatMissedTicks(
  { windows, missingShare, contradictedShareMax }: ReportData['rechecks'],
  ticks: number,
): string {
  const boundText = `Up to ${formatMissedPercent(contradictedShareMax)} of such windows may be incomplete (95 % confidence, from ${formatCount(windows, 'window')}).`;
  if (missingShare === null) return `Too few windows for an estimate of missing ticks. ${boundText}`;
  if (missingShare === 0) return `No missing ticks are expected elsewhere. ${boundText}`;
  return `About ${formatCount(Math.round(missingShare * ticks), 'tick')} of ${formatNumber(ticks)}, extrapolated from the sample. ${boundText}`;
}

/** What a night is compared with. A median of one night is that night, and of two their mean. */
const formatUsual = (nights: number): string =>
  nights === 1 ? 'The night before' : nights === 2 ? 'Mean of 2 nights before' : `Median of ${nights} nights before`;
