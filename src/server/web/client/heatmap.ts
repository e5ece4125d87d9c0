import {
  buildCalendar,
  type CalendarDay,
  type CalendarMonth,
  type DayState,
  levelsCount,
  listFilesOfDay,
  type Manifest,
  type ManifestFile,
  toFileName,
  toFileUrl,
  toLevel,
} from './archive-file.ts';
import { createElement } from './dom.ts';
import { renderDownloadButtons } from './download.ts';
import { dayMs, formatBytes, formatCount, formatInteger, truncateText } from './format.ts';

const monthNames = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October'];
const formatMonth = (month: string): string =>
  `${[...monthNames, 'November', 'December'][Number(month.slice(5)) - 1]} ${month.slice(0, 4)}`;

/** Months shown initially. */
const monthsShownInitially = 12;

/** Renders a calendar that shades each day by its share of covered symbols. Calls `choose` with the selected day. */
export function renderHeatmap(days: Readonly<Record<string, DayState>>, choose: (date: string) => void) {
  const months = buildCalendar(days);
  const tip = createElement('div', { class: 'tip', hidden: true, 'aria-hidden': 'true' });
  const grid = createElement('div', { class: 'months' });
  const show = (shown: readonly CalendarMonth[]): void => {
    grid.replaceChildren(...shown.map(renderMonth));
    const last = [...grid.querySelectorAll<HTMLElement>('button')].at(-1);
    if (last !== undefined) last.tabIndex = 0;
  };
  show(months.slice(-monthsShownInitially));
  const hidden = months.length - monthsShownInitially;
  const more = createElement(
    'button',
    { type: 'button', class: 'more' },
    `Show ${formatCount(hidden, 'earlier month')}`,
  );
  more.addEventListener('click', () => {
    show(months);
    more.remove();
    grid.querySelector('button')?.focus();
  });
  const root = createElement('div', { class: 'heatmap' }, renderLegend(), hidden > 0 ? more : null, grid, tip);

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

/** New index after a key press. Left and right move by a day, up and down by a week, Home and End to the first and last day. */
function findNextIndex(key: string, at: number, all: readonly HTMLElement[]): number {
  const weekMs = 7 * dayMs;
  const jump = (by: number): number => {
    const target = Date.parse(all[at]!.dataset.date!) + by;
    return all.findIndex(({ dataset }) => Date.parse(dataset.date!) === target);
  };
  if (at < 0) return -1;
  if (key === 'ArrowLeft') return at - 1;
  if (key === 'ArrowRight') return at + 1;
  if (key === 'ArrowUp') return jump(-weekMs);
  if (key === 'ArrowDown') return jump(weekMs);
  if (key === 'Home') return 0;
  if (key === 'End') return all.length - 1;
  return -1;
}

function renderMonth({ month, leadingBlanks, days }: CalendarMonth): HTMLElement {
  const title = formatMonth(month);
  return createElement(
    'div',
    { class: 'month', role: 'group', 'aria-label': title },
    createElement('p', { class: 'month-title', 'aria-hidden': 'true' }, title),
    createElement(
      'div',
      { class: 'days' },
      ...Array.from({ length: leadingBlanks }, () => createElement('span', { class: 'blank' })),
      ...days.map(renderDayCell),
    ),
  );
}

function renderDayCell({ date, state }: CalendarDay): HTMLElement {
  if (state === null) return createElement('span', { class: 'day none', title: `${date}: no data` });
  const level = toLevel(state);
  return createElement('button', {
    type: 'button',
    class: `day ${level === null ? 'idle' : `level-${level}`}`,
    tabindex: -1,
    'data-date': date,
    'aria-label': `${date}: ${formatCoverageShare(state)}`,
    'aria-pressed': 'false',
  });
}

/** Short description of the coverage of a day. */
export function formatCoverageShare({ expected, covered, state }: DayState): string {
  if (expected === 0) return 'no symbols expected';
  return `${formatInteger(covered)} of ${formatCount(expected, 'symbol')} covered, ${state.replaceAll('_', ' ')}`;
}

const renderLegend = (): HTMLElement =>
  createElement(
    'p',
    { class: 'legend' },
    'Symbols covered: ',
    createElement('span', { class: 'nowrap' }, createElement('i', { class: 'day level-0' }), ' none '),
    createElement(
      'span',
      { class: 'nowrap' },
      ...Array.from({ length: levelsCount - 1 }, (_, i) => createElement('i', { class: `day level-${i + 1}` })),
      ' some ',
    ),
    createElement('span', { class: 'nowrap' }, createElement('i', { class: `day level-${levelsCount}` }), ' all '),
    createElement('span', { class: 'nowrap' }, createElement('i', { class: 'day none' }), ' no data'),
  );

/** Renders the files of a day with downloads, and its missing symbols. */
export function renderDayFiles(manifest: Manifest, date: string, choose: (symbol: string) => void): HTMLElement {
  const state = manifest.days[date];
  const datasets = listFilesOfDay(manifest, date);
  const files = datasets.flatMap((dataset) => dataset.files);
  return createElement(
    'div',
    { class: 'panel', id: 'day-files' },
    createElement('h3', { tabindex: -1 }, `Files of ${date}`),
    createElement(
      'p',
      { class: 'note' },
      state === undefined ? 'The archive has no data for this day.' : formatCoverageShare(state),
    ),
    renderMissingSymbols(state?.missing ?? [], state === undefined ? 0 : state.expected - state.covered, choose),
    files.length === 0
      ? createElement('p', { class: 'empty' }, 'There are no files for this day.')
      : renderFilesTable(files),
  );
}

/** Renders the files without a day, for example the symbols dataset. */
export function renderUndatedFiles(manifest: Manifest): HTMLElement | null {
  const files = Object.values(manifest.datasets).flatMap((dataset) =>
    dataset.files.filter(({ date }) => date === null),
  );
  return files.length === 0 ? null : renderFilesTable(files);
}

function renderFilesTable(files: readonly ManifestFile[]): HTMLElement {
  const heading = (text: string): HTMLElement => createElement('th', { scope: 'col' }, text);
  return createElement(
    'table',
    { class: 'files' },
    createElement(
      'thead',
      {},
      createElement('tr', {}, heading('File'), heading('Rows'), heading('Size'), heading('Download')),
    ),
    createElement('tbody', {}, ...files.map(renderFileRow)),
  );
}

const renderFileRow = (file: ManifestFile): HTMLElement =>
  createElement(
    'tr',
    {},
    createElement('th', { scope: 'row', title: `sha256 ${file.sha256}` }, file.path.replace(/\/date=[\d-]+\//, '/')),
    createElement('td', { 'data-label': 'rows' }, formatInteger(file.rows)),
    createElement('td', { title: `${formatInteger(file.bytes)} bytes` }, formatBytes(file.bytes)),
    createElement(
      'td',
      {},
      renderDownloadButtons({
        url: toFileUrl(file),
        name: toFileName(file),
        label: 'Download',
        bytes: file.bytes,
        sha256: file.sha256,
      }),
    ),
  );

function renderMissingSymbols(
  missing: readonly string[],
  missingCount: number,
  choose: (symbol: string) => void,
): HTMLElement | null {
  if (missing.length === 0) return null;
  const rest = missingCount - missing.length;
  const links = missing.map((symbol) => {
    const link = createElement('button', { type: 'button', class: 'link', title: symbol }, truncateText(symbol, 40));
    link.addEventListener('click', () => choose(symbol));
    return createElement('li', {}, link);
  });
  return createElement(
    'details',
    {},
    createElement('summary', {}, `${formatCount(missingCount, 'symbol')} not fully covered`),
    createElement(
      'ul',
      { class: 'missing' },
      ...links,
      rest > 0 ? createElement('li', { class: 'note' }, `and ${formatInteger(rest)} more`) : null,
    ),
  );
}
