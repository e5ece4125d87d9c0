import { chooseByteUnit, formatBytes, formatDuration, formatNumber } from '../base/format-quantity.ts';
import { type Html, html } from '../base/html.ts';
import { formatDay, parseDayStart } from '../base/time.ts';
import { dayMs, type Window } from '../base/window.ts';
import { isDayComplete } from '../contract/completeness-counts.ts';
import type { DayTotals, ReportData } from './data/report-data.ts';
import type { ArchiveGrowth } from './growth-and-runs.ts';
import {
  type HtmlColumn,
  type ReportPart,
  renderCards,
  renderCatalogueLink,
  renderFigure,
  renderHtmlTable,
  renderSection,
} from './page-parts.ts';
import { renderDayBars, renderLinesPlot } from './time-plots.ts';

type ShownDays = Pick<ReportData, 'days' | 'shown'>;

/** The shown days that have data, in order. */
const filterShownDays = ({ days, shown }: ShownDays): DayTotals[] =>
  days.filter(({ date }) => shown.from <= parseDayStart(date) && parseDayStart(date) < shown.to);

/** Fewer values are clearer as a table or in a sentence than as a chart. */
export const chartPointsMin = 5;

/** Window of the time axis: from the first of these days to the end of the last one. */
const getDaysWindow = (days: readonly DayTotals[]): Window => ({
  from: parseDayStart(days[0]!.date),
  to: parseDayStart(days.at(-1)!.date) + dayMs,
});

/** The days from the first to the last one with a value. */
function trimDays(days: readonly DayTotals[], getValue: (day: DayTotals) => number): readonly DayTotals[] {
  const hasValue = (day: DayTotals): boolean => getValue(day) > 0;
  return days.slice(days.findIndex(hasValue), days.findLastIndex(hasValue) + 1);
}

/** The days of the plots of ticks and bytes; none if they are a table. */
function listPlottedDays(data: ShownDays): readonly DayTotals[] {
  const days = trimDays(filterShownDays(data), ({ ticks }) => ticks);
  return days.length < chartPointsMin ? [] : days;
}

/** The time axis of the plots of coverage, ticks and bytes, which stand above each other. */
export function computeCommonAxis(data: Pick<ReportData, 'coverage'> & ShownDays): Window {
  const days = listPlottedDays(data);
  const windows = [
    ...(data.coverage.rows.length === 0 ? [] : [data.coverage]),
    ...(days.length === 0 ? [] : [getDaysWindow(days)]),
  ];
  return {
    from: Math.min(...windows.map(({ from }) => from)),
    to: Math.max(...windows.map(({ to }) => to)),
  };
}

/** Ticks and bytes per day, as bars and as a table; with few days only as a table. */
export function renderTicksSection(data: ReportData): ReportPart[] {
  const days = filterShownDays(data);
  const sum = (getValue: (day: DayTotals) => number): number => days.reduce((total, day) => total + getValue(day), 0);
  const maximum = (getValue: (day: DayTotals) => number): number =>
    days.reduce((max, day) => Math.max(max, getValue(day)), 0);
  if (sum(({ ticks }) => ticks) === 0) return [{ name: 'Ticks and bytes', text: formatNoneShown(data, 'ticks') }];
  const hiddenDays = data.days.filter(({ date }) => parseDayStart(date) < data.shown.from).length;
  const hiddenNote =
    hiddenDays === 0
      ? []
      : [
          html`<p class="note">The last ${formatNumber(days.length)} of ${formatNumber(data.days.length)} days. The setting report.days shows more.</p>\n`,
        ];
  const tickDays = listPlottedDays(data);
  if (tickDays.length === 0) {
    const listed = trimDays(days, ({ ticks }) => ticks).toReversed();
    return [renderSection('Ticks and bytes', [...hiddenNote, renderCards(renderDaysTable(listed, data))])];
  }
  const placed = { span: computeCommonAxis(data), rowNames: data.coverage.rows.map(({ group }) => group) };
  const hollowNote = tickDays.every(isDayComplete) ? '' : ' Hollow bars: days that are incomplete or not over yet.';
  const byteUnit = chooseByteUnit(maximum(({ bytes }) => bytes));
  const bars = (getValue: (day: DayTotals) => number) =>
    tickDays.map((day) => ({ day: parseDayStart(day.date), value: getValue(day), isHollow: !isDayComplete(day) }));
  const ticks = 'Ticks per UTC day of their timestamps';
  const bytes = 'Published bytes per day, all datasets';
  return [
    renderSection('Ticks and bytes', [
      ...hiddenNote,
      renderFigure(
        `${ticks}.${hollowNote}`,
        renderDayBars({
          label: `${ticks}: ${formatNumber(sum((day) => day.ticks))} in total, maximum ${formatNumber(maximum((day) => day.ticks))}`,
          yLabel: 'ticks',
          ...placed,
          bars: bars((day) => day.ticks),
        }),
      ),
      renderFigure(
        `${bytes}, in ${byteUnit.name}.`,
        renderDayBars({
          label: `${bytes}: ${formatBytes(sum((day) => day.bytes))} in total, maximum ${formatBytes(maximum((day) => day.bytes))}`,
          yLabel: byteUnit.name,
          ...placed,
          bars: bars((day) => day.bytes / byteUnit.bytes),
        }),
      ),
      html`<details><summary>Days as a table</summary>${renderDaysTable(days.toReversed(), data)}</details>\n`,
    ]),
  ];
}

function renderDaysTable(days: readonly DayTotals[], { nowMs, rules }: ReportData): Html {
  const isUnfinished = ({ date }: DayTotals): boolean => parseDayStart(date) + dayMs > nowMs;
  const columns: HtmlColumn<DayTotals>[] = [
    {
      name: 'Day',
      kind: 'left',
      format: ({ date }) => renderCatalogueLink(rules.catalogueUrl, { day: date }, html`${date}`),
    },
    { name: 'Ticks', format: ({ ticks }) => formatNumber(ticks) },
    { name: 'Size', format: ({ bytes }) => formatBytes(bytes) },
    { name: 'Conflicts', format: ({ conflicts }) => formatNumber(conflicts) },
    {
      name: 'Symbols covered',
      format: ({ covered, expected }) => `${formatNumber(covered)} of ${formatNumber(expected)}`,
    },
    {
      name: 'State',
      kind: 'left',
      format: (day) => (isUnfinished(day) ? 'not over yet' : day.state.replaceAll('_', ' ')),
      isLoss: (day) => !isDayComplete(day) && !isUnfinished(day),
    },
  ];
  return renderHtmlTable('Days as a table', columns, days);
}

const formatNoneShown = ({ shown }: ShownDays, what: string): string =>
  `No ${what} from ${formatDay(shown.from)} to ${formatDay(shown.to - 1)}.`;

export function renderConflictsSection(data: ReportData): ReportPart[] {
  const days = filterShownDays(data);
  const count = days.reduce((sum, { conflicts }) => sum + conflicts, 0);
  if (count === 0) return [{ name: 'Conflicts', text: formatNoneShown(data, 'conflicts') }];
  const conflictDays = trimDays(days, ({ conflicts }) => conflicts);
  const daysWithConflicts = conflictDays.filter(({ conflicts }) => conflicts > 0);
  const [worstDay] = days.toSorted((a, b) => b.conflicts - a.conflicts);
  const caption = 'Ticks observed at two prices, per UTC day of their timestamps';
  if (daysWithConflicts.length < chartPointsMin) {
    const listed = daysWithConflicts.map((day) => `${formatNumber(day.conflicts)} on ${day.date}`).join(', ');
    return [
      { name: 'Conflicts', text: `Ticks observed at two prices: ${listed}. The dataset conflicts holds both prices.` },
    ];
  }
  return [
    renderSection('Conflicts', [
      renderFigure(
        `${caption}: ${formatNumber(count)} in total, the most on ${worstDay!.date}. The dataset conflicts holds both prices.`,
        renderDayBars({
          label: `${caption}: ${formatNumber(count)} in total, ${formatNumber(worstDay!.conflicts)} on ${worstDay!.date}`,
          yLabel: 'conflicts',
          span: getDaysWindow(conflictDays),
          colour: 'var(--gap)',
          bars: conflictDays.map(({ date, conflicts }) => ({ day: parseDayStart(date), value: conflicts })),
        }),
      ),
    ]),
  ];
}

/** Size of the archive by day, and the forecast of a full disk. */
export function renderGrowthSection({ nowMs, shown, space }: ReportData, growth: ArchiveGrowth): ReportPart[] {
  const { sizes, bytesPerDay, days, fullAt } = growth;
  const last = sizes.at(-1);
  if (last === undefined) return [{ name: 'Growth', text: 'Nothing was published on the shown days.' }];
  const byteUnit = chooseByteUnit(last.bytes);
  const forecast = projectSizes(growth, nowMs);
  const points = sizes.map(({ t, bytes }) => ({ t, value: bytes / byteUnit.bytes }));
  const caption = `Published bytes of all days up to each day, in ${byteUnit.name}`;
  const growthText =
    bytesPerDay === null
      ? 'Growth is not known yet: it takes two finished days after the first one.'
      : `Growth ${formatBytes(bytesPerDay)} per day, the mean of the last ${formatNumber(days)} finished days${forecast.length === 0 || points.length < chartPointsMin ? '' : ' (dashed)'}.`;
  const fullText =
    space === null || bytesPerDay === null
      ? ''
      : fullAt === null
        ? ` ${formatBytes(space.freeBytes)} free: the disk will not be full within 10 years.`
        : ` ${formatBytes(space.freeBytes)} free: the disk will be full on ${formatDay(fullAt)}, in ${formatDuration(fullAt - nowMs)}.`;
  const from = Math.max(shown.from, sizes[0]!.t);
  if (points.length < chartPointsMin)
    return [
      {
        name: 'Growth',
        text: `${formatBytes(last.bytes)} of all days. ${growthText}${fullText}`,
      },
    ];
  return [
    renderSection('Growth', [
      renderFigure(
        `${caption}. ${growthText}${fullText}`,
        renderLinesPlot(
          `${caption}: ${formatBytes(last.bytes)} at the end. ${growthText}${fullText}`,
          byteUnit.name,
          { from, to: forecast.at(-1)?.t ?? shown.to },
          [
            { points, colour: 'var(--accent)', look: 'line' },
            {
              points: forecast.map(({ t, bytes }) => ({ t, value: bytes / byteUnit.bytes })),
              colour: 'var(--gap)',
              look: 'dashed',
            },
          ],
        ),
      ),
    ]),
  ];
}

/** Forecast of the size, for half the shown time. */
function projectSizes({ sizes, bytesPerDay }: ArchiveGrowth, nowMs: number): { t: number; bytes: number }[] {
  const last = sizes.at(-1);
  if (last === undefined || bytesPerDay === null || bytesPerDay <= 0 || last.t < nowMs) return [];
  const days = Math.ceil(sizes.length / 2);
  return [last, { t: last.t + days * dayMs, bytes: last.bytes + days * bytesPerDay }];
}
