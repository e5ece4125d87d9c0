import { formatCount } from '../../../base/format-quantity.ts';
import { dayMs } from '../../../base/window.ts';
import type { DayState } from '../../../contract/day-reasons.ts';
import { buildCalendar, type CalendarDay, type CalendarMonth, levelsCount, toLevel } from './archive-file.ts';
import { type DayKind, dayKinds, formatCoverageShare, toDayKind } from './day-kind.ts';
import { html } from './dom.ts';

/** 2026-06 → June 2026 */
const formatMonth = (month: string): string =>
  new Date(month).toLocaleString('en-US', { month: 'long', year: 'numeric', timeZone: 'UTC' });
const weekdays = ['Mo', 'Tu', 'We', 'Th', 'Fr', 'Sa', 'Su'];

/** Months shown initially: a year, and less where they are below each other. */
const monthsShownInitially = matchMedia('(max-width: 760px)').matches ? 3 : 12;

interface CalendarInput {
  readonly days: Readonly<Record<string, DayState>>;
  /** Days with damaged files, YYYY-MM-DD. */
  readonly damaged: ReadonlySet<string>;
  /** The current UTC day. */
  readonly today: string;
}

/** Renders months as grids with a cell for each UTC day. Calls `choose` with the selected day. */
export function renderCalendar(input: CalendarInput, choose: (date: string) => void) {
  const months = buildCalendar(input.days);
  const tip = html`<div class="tip" hidden aria-hidden="true"></div>`;
  const grid = html`<div class="months"></div>`;
  const show = (shown: readonly CalendarMonth[]): void => {
    grid.replaceChildren(...shown.map((month) => renderMonth(month, input)));
    const last = [...grid.querySelectorAll<HTMLElement>('button')].at(-1);
    if (last !== undefined) last.tabIndex = 0;
  };
  show(months.slice(-monthsShownInitially));
  const hidden = months.length - monthsShownInitially;
  const more = html`<button type="button" class="more">Show ${formatCount(hidden, 'earlier month')}</button>`;
  more.addEventListener('click', () => {
    show(months);
    more.remove();
    grid.querySelector('button')?.focus();
  });
  const root = html`<div class="calendar">${hidden > 0 && more}${grid}${renderLegend()}${tip}</div>`;

  const dayOf = (target: EventTarget | null): HTMLElement | null =>
    (target as HTMLElement | null)?.closest?.<HTMLElement>('[data-date]') ?? null;
  grid.addEventListener('click', (event) => {
    const date = dayOf(event.target)?.dataset.date;
    if (date !== undefined) choose(date);
  });
  const point = (event: Event): void => {
    const day = dayOf(event.target);
    tip.hidden = day === null;
    if (day === null) return;
    tip.textContent = day.getAttribute('aria-label');
    const [box, rootBox] = [day.getBoundingClientRect(), root.getBoundingClientRect()];
    const left = Math.min(box.left - rootBox.left, rootBox.width - tip.offsetWidth);
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${box.bottom - rootBox.top + 6}px`;
  };
  for (const name of ['mouseover', 'focusin']) grid.addEventListener(name, point);
  for (const name of ['mouseleave', 'focusout']) grid.addEventListener(name, () => (tip.hidden = true));
  grid.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') tip.hidden = true;
    const all = [...grid.querySelectorAll<HTMLElement>('button[data-date]')];
    const to = all[findNextIndex(event.key, all.indexOf(event.target as HTMLElement), all)];
    if (to === undefined) return;
    event.preventDefault();
    for (const day of all) day.tabIndex = day === to ? 0 : -1;
    to.focus();
  });
  return {
    root,
    /** Marks the selected day. */
    mark(date: string | null): void {
      const before = months.findIndex(({ month }) => date?.startsWith(month));
      if (before >= 0 && before < months.length - monthsShownInitially && more.isConnected) {
        show(months);
        more.remove();
      }
      for (const day of grid.querySelectorAll<HTMLElement>('button[data-date]'))
        day.setAttribute('aria-pressed', String(day.dataset.date === date));
    },
  };
}

/** New index after a key press. Left and right move by a day, up and down by a week, Page Up and Down by a month, Home and End to the first and last day. */
function findNextIndex(key: string, at: number, all: readonly HTMLElement[]): number {
  const dateOf = (i: number): number => Date.parse(all[i]!.dataset.date!);
  if (at < 0) return -1;
  if (key === 'ArrowLeft') return at - 1;
  if (key === 'ArrowRight') return at + 1;
  if (key === 'Home') return 0;
  if (key === 'End') return all.length - 1;
  const days = { ArrowUp: -7, ArrowDown: 7, PageUp: -28, PageDown: 28 }[key];
  if (days === undefined) return -1;
  const target = dateOf(at) + days * dayMs;
  return all.findIndex((_, i) => dateOf(i) === target);
}

/** What lies ahead is neither missing nor empty. */
function renderMonth({ month, leadingBlanks, days }: CalendarMonth, input: CalendarInput): HTMLElement {
  const title = formatMonth(month);
  return html`
    <div class="month" role="group" aria-label=${title}>
      <p class="month-title" aria-hidden="true">${title}</p>
      <div class="days">
        ${weekdays.map((name) => html`<span class="weekday" aria-hidden="true">${name}</span>`)}
        ${Array.from({ length: leadingBlanks }, () => html`<span></span>`)}
        ${days.filter(({ date }) => date <= input.today).map((day) => renderDay(day, input))}
      </div>
    </div>`;
}

function renderDay({ date, state }: CalendarDay, { damaged, today }: CalendarInput): HTMLElement {
  const kind = toDayKind(state, damaged.has(date));
  const classes = `day ${kind}${kind === 'incomplete' ? ` level-${toLevel(state)}` : ''}${date === today ? ' today' : ''}`;
  const text = Number(date.slice(8));
  if (state === null && kind !== 'damaged')
    return html`<span class=${classes} title=${`${date}: ${dayKinds.before}`}>${text}</span>`;
  const notes = [state && formatCoverageShare(state), kind === 'damaged' && kind, date === today && 'today'];
  const label = `${date}: ${notes.filter(Boolean).join(', ')}`;
  return html`
    <button type="button" class=${classes} tabindex="-1" data-date=${date} aria-label=${label} aria-pressed="false">
      ${text}
    </button>`;
}

/** The legend has a sample of every case. */
function renderLegend(): HTMLElement {
  const entry = (text: string, ...samples: readonly string[]): HTMLElement => html`
    <li>${samples.map((classes) => html`<i class=${`day ${classes}`} aria-hidden="true">1</i>`)}<span>${text}</span></li>`;
  const kinds = Object.entries(dayKinds) as [DayKind, string][];
  const levels = [0, 2, levelsCount - 1].map((level) => `incomplete level-${level}`);
  return html`
    <ul class="legend" aria-label="Legend of the calendar">
      ${kinds.map(([kind, text]) => entry(text, ...(kind === 'incomplete' ? levels : [kind])))}
      ${entry('today (UTC)', 'before today')}
    </ul>`;
}
