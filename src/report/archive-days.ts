import { formatThousands } from '../base/format-quantity.ts';
import { type Html, html } from '../base/html.ts';
import { formatDay, parseDayStart } from '../base/time.ts';
import { dayMs } from '../base/window.ts';
import { isDayWhole } from '../contract/completeness-counts.ts';
import type { DayTotals, ReportData } from './data/report-data.ts';
import type { ArchiveGrowth } from './health-status.ts';
import { type HtmlColumn, type ReportPart, renderFigure, renderHtmlTable, renderSection } from './page-parts.ts';
import { renderDayBars, renderLinesPlot } from './time-plots.ts';
import { chooseByteUnit, formatBytes, formatLength } from './time-spans.ts';

type ShownDays = Pick<ReportData, 'days' | 'shown'>;

/** The days that are shown and have anything, in their order. */
const filterShownDays = ({ days, shown }: ShownDays): DayTotals[] =>
  days.filter(({ date }) => shown.from <= parseDayStart(date) && parseDayStart(date) < shown.to);

/** An axis of few days would make a block of each: at least a fortnight, and no more than there is. */
function getShownWindow({ shown }: ShownDays, days: readonly DayTotals[]) {
  const first = days.length === 0 ? shown.to : parseDayStart(days[0]!.date);
  return { from: Math.max(shown.from, Math.min(first, shown.to - 14 * dayMs)), to: shown.to };
}

/** Ticks and bytes of each day, as bars and in a table. */
export function renderTicksSection(gathered: ReportData): ReportPart[] {
  const days = filterShownDays(gathered);
  const span = getShownWindow(gathered, days);
  const sum = (of: (day: DayTotals) => number): number => days.reduce((total, day) => total + of(day), 0);
  const most = (of: (day: DayTotals) => number): number => days.reduce((max, day) => Math.max(max, of(day)), 0);
  if (sum(({ ticks }) => ticks) === 0) return [{ name: 'Ticks and bytes', text: formatNoneShown(gathered, 'ticks') }];
  const hollow = days.every(isDayWhole) ? '' : ' Hollow: incomplete, as some symbols lack final responses.';
  const unit = chooseByteUnit(most(({ bytes }) => bytes));
  const bars = (of: (day: DayTotals) => number) =>
    days.map((day) => ({ day: parseDayStart(day.date), value: of(day), isHollow: !isDayWhole(day) }));
  const ticks = `Ticks by the UTC day of their own time`;
  const bytes = `Bytes published of each day, all datasets together`;
  return [
    renderSection('Ticks and bytes', [
      renderFigure(
        `${ticks}.${hollow}`,
        renderDayBars({
          label: `${ticks}: ${formatThousands(sum((day) => day.ticks))} in all, ${formatThousands(most((day) => day.ticks))} at most`,
          yLabel: 'ticks',
          span,
          bars: bars((day) => day.ticks),
        }),
      ),
      renderFigure(
        `${bytes}, in ${unit.name}.`,
        renderDayBars({
          label: `${bytes}: ${formatBytes(sum((day) => day.bytes))} in all, ${formatBytes(most((day) => day.bytes))} at most`,
          yLabel: unit.name,
          span,
          bars: bars((day) => day.bytes / unit.bytes),
        }),
      ),
      html`<details><summary>The days in numbers</summary>${renderDaysTable(days.toReversed())}</details>\n`,
    ]),
  ];
}

function renderDaysTable(days: readonly DayTotals[]): Html {
  const columns: HtmlColumn<DayTotals>[] = [
    { name: 'Day', kind: 'left', format: ({ date }) => date },
    { name: 'Ticks', format: ({ ticks }) => formatThousands(ticks) },
    { name: 'Size', format: ({ bytes }) => formatBytes(bytes) },
    { name: 'Conflicts', format: ({ conflicts }) => formatThousands(conflicts) },
    {
      name: 'Symbols covered',
      format: ({ covered, expected }) => `${formatThousands(covered)} of ${formatThousands(expected)}`,
    },
    {
      name: 'State',
      kind: 'left',
      format: ({ state }) => state.replaceAll('_', ' '),
      isLoss: (day) => !isDayWhole(day),
    },
  ];
  return renderHtmlTable('The days in numbers', columns, days);
}

const formatNoneShown = ({ shown }: ShownDays, what: string): string =>
  `No ${what} from ${formatDay(shown.from)} to ${formatDay(shown.to - 1)}.`;

/** Ticks that were seen at two prices, by day. */
export function renderConflictsSection(gathered: ReportData): ReportPart[] {
  const days = filterShownDays(gathered);
  const count = days.reduce((sum, { conflicts }) => sum + conflicts, 0);
  if (count === 0) return [{ name: 'Conflicts', text: formatNoneShown(gathered, 'tick was seen at two prices,') }];
  const said = 'Ticks that were seen at another price as well, by the UTC day of their own time';
  const [worst] = days.toSorted((a, b) => b.conflicts - a.conflicts);
  return [
    renderSection('Conflicts', [
      renderFigure(
        `${said}: ${formatThousands(count)} in all, most on ${worst!.date}. The dataset conflicts has both prices.`,
        renderDayBars({
          label: `${said}: ${formatThousands(count)} in all, ${formatThousands(worst!.conflicts)} on ${worst!.date}`,
          yLabel: 'conflicts',
          span: getShownWindow(gathered, days),
          colour: 'var(--gap)',
          bars: days.map(({ date, conflicts }) => ({ day: parseDayStart(date), value: conflicts })),
        }),
      ),
    ]),
  ];
}

/** How large the archive is by day, and when its disk is full. */
export function renderGrowthSection({ nowMs, shown, space }: ReportData, growth: ArchiveGrowth): ReportPart[] {
  const { sizes, bytesPerDay, days, fullAt } = growth;
  const last = sizes.at(-1);
  if (last === undefined) return [{ name: 'Growth', text: 'Nothing is published in these days.' }];
  const unit = chooseByteUnit(last.bytes);
  const ahead = projectSizes(growth, nowMs);
  const points = sizes.map(({ t, bytes }) => ({ t, value: bytes / unit.bytes }));
  const said = `Bytes published up to the end of each day, in ${unit.name}`;
  const told =
    bytesPerDay === null
      ? 'Fewer than three whole days: too early to tell how it grows.'
      : `${formatBytes(Math.max(0, bytesPerDay))} more a day, by a line through the last ${formatThousands(days)} whole days${ahead.length === 0 ? '' : ' (dashed)'}.`;
  const full =
    space === null || bytesPerDay === null
      ? ''
      : fullAt === null
        ? ` ${formatBytes(space.freeBytes)} are free: the disk will not be full in the next 10 years.`
        : ` ${formatBytes(space.freeBytes)} are free: the disk is full on ${formatDay(fullAt)}, in ${formatLength(fullAt - nowMs)}.`;
  const from = Math.max(shown.from, Math.min(sizes[0]!.t, shown.to - 14 * dayMs));
  return [
    renderSection('Growth', [
      renderFigure(
        `${said}. ${told}${full}`,
        renderLinesPlot(
          `${said}: ${formatBytes(last.bytes)} at the end. ${told}${full}`,
          unit.name,
          { from, to: ahead.at(-1)?.t ?? shown.to },
          [
            { points, colour: 'var(--accent)', look: 'line' },
            {
              points: ahead.map(({ t, bytes }) => ({ t, value: bytes / unit.bytes })),
              colour: 'var(--gap)',
              look: 'dashed',
            },
          ],
        ),
      ),
    ]),
  ];
}

/** The line that is expected, for half as long again as is shown. */
function projectSizes({ sizes, bytesPerDay }: ArchiveGrowth, nowMs: number): { t: number; bytes: number }[] {
  const last = sizes.at(-1);
  if (last === undefined || bytesPerDay === null || bytesPerDay <= 0 || last.t < nowMs) return [];
  const days = Math.ceil(sizes.length / 2);
  return [last, { t: last.t + days * dayMs, bytes: last.bytes + days * bytesPerDay }];
}
