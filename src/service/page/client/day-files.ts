import { filesOfDay, type ListedFile, type Manifest, nameOf, urlOf } from './archive-file.ts';
import { el } from './dom.ts';
import { downloadButtons } from './download.ts';
import { counted, grouped, shortened, sized } from './format.ts';
import { shareText } from './heatmap.ts';

/** The files of a day with their downloads, and the symbols that the day lacks. */
export function dayFiles(manifest: Manifest, date: string, choose: (symbol: string) => void): HTMLElement {
  const state = manifest.days[date];
  const datasets = filesOfDay(manifest, date);
  const files = datasets.flatMap((dataset) => dataset.files);
  return el(
    'div',
    { class: 'panel', id: 'day-files' },
    el('h3', { tabindex: -1 }, `Files of ${date}`),
    el('p', { class: 'note' }, state === undefined ? 'The archive holds nothing of this day.' : shareText(state)),
    missingSymbols(state?.missing ?? [], state === undefined ? 0 : state.expected - state.covered, choose),
    files.length === 0 ? el('p', { class: 'empty' }, 'There are no files of this day.') : filesTable(files),
  );
}

/** Files that are of no day, such as the list of symbols. */
export function timelessFiles(manifest: Manifest): HTMLElement | null {
  const files = Object.values(manifest.datasets).flatMap((dataset) =>
    dataset.files.filter(({ date }) => date === null),
  );
  return files.length === 0 ? null : filesTable(files);
}

function filesTable(files: readonly ListedFile[]): HTMLElement {
  const heading = (text: string): HTMLElement => el('th', { scope: 'col' }, text);
  return el(
    'table',
    { class: 'files' },
    el('thead', {}, el('tr', {}, heading('File'), heading('Rows'), heading('Size'), heading('Download'))),
    el('tbody', {}, ...files.map(fileRow)),
  );
}

const fileRow = (file: ListedFile): HTMLElement =>
  el(
    'tr',
    {},
    el('th', { scope: 'row', title: `sha256 ${file.sha256}` }, file.path.replace(/\/date=[\d-]+\//, '/')),
    el('td', { 'data-label': 'rows' }, grouped(file.rows)),
    el('td', { title: `${grouped(file.bytes)} bytes` }, sized(file.bytes)),
    el(
      'td',
      {},
      downloadButtons({
        url: urlOf(file),
        name: nameOf(file),
        label: 'Download',
        bytes: file.bytes,
        sha256: file.sha256,
      }),
    ),
  );

function missingSymbols(
  missing: readonly string[],
  lacking: number,
  choose: (symbol: string) => void,
): HTMLElement | null {
  if (missing.length === 0) return null;
  const rest = lacking - missing.length;
  const links = missing.map((symbol) => {
    const link = el('button', { type: 'button', class: 'link', title: symbol }, shortened(symbol, 40));
    link.addEventListener('click', () => choose(symbol));
    return el('li', {}, link);
  });
  return el(
    'details',
    {},
    el('summary', {}, `${counted(lacking, 'symbol')} not covered throughout`),
    el(
      'ul',
      { class: 'missing' },
      ...links,
      rest > 0 ? el('li', { class: 'note' }, `and ${grouped(rest)} more`) : null,
    ),
  );
}
