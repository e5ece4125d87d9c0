import { grouped } from '../core/format-thousands.ts';
import { type Html, html } from '../core/html.ts';
import { dayOf, dayStart } from '../core/time.ts';
import { isWhole } from '../core/verdict.ts';
import { dayMs } from '../core/window.ts';
import type { DayTotals } from '../reading/report/day-totals.ts';
import type { Gathered } from '../reading/report/report-data.ts';
import type { Growth } from './archive-growth.ts';
import type { Part } from './archive-parts.ts';
import { type Column, figure, section, table } from './page-parts.ts';
import { dayBarsPlot, linesPlot } from './time-plots.ts';
import { lengthOf, sizeOf, sizeUnit } from './time-spans.ts';

type Shown = Pick<Gathered, 'days' | 'shown'>;

/** The days that are shown and have anything, in their order. */
const daysIn = ({ days, shown }: Shown): DayTotals[] =>
  days.filter(({ date }) => shown.from <= dayStart(date) && dayStart(date) < shown.to);

/** An axis of few days would make a block of each: at least a fortnight, and no more than there is. */
function spanOf({ shown }: Shown, days: readonly DayTotals[]) {
  const first = days.length === 0 ? shown.to : dayStart(days[0]!.date);
  return { from: Math.max(shown.from, Math.min(first, shown.to - 14 * dayMs)), to: shown.to };
}

/** Ticks and bytes of each day, as bars and in a table. */
export function ticksSection(gathered: Gathered): Part[] {
  const days = daysIn(gathered);
  const span = spanOf(gathered, days);
  const sum = (of: (day: DayTotals) => number): number => days.reduce((total, day) => total + of(day), 0);
  const most = (of: (day: DayTotals) => number): number => days.reduce((max, day) => Math.max(max, of(day)), 0);
  if (sum(({ ticks }) => ticks) === 0) return [{ name: 'Ticks and bytes', text: noneIn(gathered, 'ticks') }];
  const hollow = days.every(isWhole) ? '' : ' Hollow: incomplete, as some symbols lack final responses.';
  const unit = sizeUnit(most(({ bytes }) => bytes));
  const bars = (of: (day: DayTotals) => number) =>
    days.map((day) => ({ day: dayStart(day.date), value: of(day), isHollow: !isWhole(day) }));
  const ticks = `Ticks by the UTC day of their own time`;
  const bytes = `Bytes published of each day, all datasets together`;
  return [
    section('Ticks and bytes', [
      figure(
        `${ticks}.${hollow}`,
        dayBarsPlot({
          label: `${ticks}: ${grouped(sum((day) => day.ticks))} in all, ${grouped(most((day) => day.ticks))} at most`,
          yLabel: 'ticks',
          span,
          bars: bars((day) => day.ticks),
        }),
      ),
      figure(
        `${bytes}, in ${unit.name}.`,
        dayBarsPlot({
          label: `${bytes}: ${sizeOf(sum((day) => day.bytes))} in all, ${sizeOf(most((day) => day.bytes))} at most`,
          yLabel: unit.name,
          span,
          bars: bars((day) => day.bytes / unit.bytes),
        }),
      ),
      html`<details><summary>The days in numbers</summary>${daysTable(days.toReversed())}</details>\n`,
    ]),
  ];
}

function daysTable(days: readonly DayTotals[]): Html {
  const columns: Column<DayTotals>[] = [
    { name: 'Day', kind: 'left', of: ({ date }) => date },
    { name: 'Ticks', of: ({ ticks }) => grouped(ticks) },
    { name: 'Size', of: ({ bytes }) => sizeOf(bytes) },
    { name: 'Conflicts', of: ({ conflicts }) => grouped(conflicts) },
    { name: 'Symbols covered', of: ({ covered, expected }) => `${grouped(covered)} of ${grouped(expected)}` },
    { name: 'State', kind: 'left', of: ({ state }) => state.replaceAll('_', ' '), isLoss: (day) => !isWhole(day) },
  ];
  return table('The days in numbers', columns, days);
}

const noneIn = ({ shown }: Shown, what: string): string =>
  `No ${what} from ${dayOf(shown.from)} to ${dayOf(shown.to - 1)}.`;

/** Ticks that were seen at two prices, by day. */
export function conflictsSection(gathered: Gathered): Part[] {
  const days = daysIn(gathered);
  const count = days.reduce((sum, { conflicts }) => sum + conflicts, 0);
  if (count === 0) return [{ name: 'Conflicts', text: noneIn(gathered, 'tick was seen at two prices,') }];
  const said = 'Ticks that were seen at another price as well, by the UTC day of their own time';
  const [worst] = days.toSorted((a, b) => b.conflicts - a.conflicts);
  return [
    section('Conflicts', [
      figure(
        `${said}: ${grouped(count)} in all, most on ${worst!.date}. The dataset conflicts has both prices.`,
        dayBarsPlot({
          label: `${said}: ${grouped(count)} in all, ${grouped(worst!.conflicts)} on ${worst!.date}`,
          yLabel: 'conflicts',
          span: spanOf(gathered, days),
          colour: 'var(--gap)',
          bars: days.map(({ date, conflicts }) => ({ day: dayStart(date), value: conflicts })),
        }),
      ),
    ]),
  ];
}

/** How large the archive is by day, and when its disk is full. */
export function growthSection({ nowMs, shown, space }: Gathered, growth: Growth): Part[] {
  const { sizes, bytesPerDay, days, fullAt } = growth;
  const last = sizes.at(-1);
  if (last === undefined) return [{ name: 'Growth', text: 'Nothing is published in these days.' }];
  const unit = sizeUnit(last.bytes);
  const ahead = aheadOf(growth, nowMs);
  const points = sizes.map(({ t, bytes }) => ({ t, value: bytes / unit.bytes }));
  const said = `Bytes published up to the end of each day, in ${unit.name}`;
  const told =
    bytesPerDay === null
      ? 'Fewer than three whole days: too early to tell how it grows.'
      : `${sizeOf(Math.max(0, bytesPerDay))} more a day, by a line through the last ${grouped(days)} whole days${ahead.length === 0 ? '' : ' (dashed)'}.`;
  const full =
    space === null || bytesPerDay === null
      ? ''
      : fullAt === null
        ? ` ${sizeOf(space.freeBytes)} are free: the disk will not be full in the next 10 years.`
        : ` ${sizeOf(space.freeBytes)} are free: the disk is full on ${dayOf(fullAt)}, in ${lengthOf(fullAt - nowMs)}.`;
  const from = Math.max(shown.from, Math.min(sizes[0]!.t, shown.to - 14 * dayMs));
  return [
    section('Growth', [
      figure(
        `${said}. ${told}${full}`,
        linesPlot(
          `${said}: ${sizeOf(last.bytes)} at the end. ${told}${full}`,
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
function aheadOf({ sizes, bytesPerDay }: Growth, nowMs: number): { t: number; bytes: number }[] {
  const last = sizes.at(-1);
  if (last === undefined || bytesPerDay === null || bytesPerDay <= 0 || last.t < nowMs) return [];
  const days = Math.ceil(sizes.length / 2);
  return [last, { t: last.t + days * dayMs, bytes: last.bytes + days * bytesPerDay }];
}
