import { listFilesOfDay, type Manifest, type ManifestFile, toFileName, toFileUrl } from './archive-file.ts';
import { createElement } from './dom.ts';
import { renderDownloadButtons } from './download.ts';
import { formatBytes, formatCount, formatInteger, truncateText } from './format.ts';
import { formatCoverageShare } from './heatmap.ts';

/** The files of a day with their downloads, and the symbols that the day lacks. */
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
      state === undefined ? 'The archive holds nothing of this day.' : formatCoverageShare(state),
    ),
    renderMissingSymbols(state?.missing ?? [], state === undefined ? 0 : state.expected - state.covered, choose),
    files.length === 0
      ? createElement('p', { class: 'empty' }, 'There are no files of this day.')
      : renderFilesTable(files),
  );
}

/** Files that are of no day, such as the list of symbols. */
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
  lacking: number,
  choose: (symbol: string) => void,
): HTMLElement | null {
  if (missing.length === 0) return null;
  const rest = lacking - missing.length;
  const links = missing.map((symbol) => {
    const link = createElement('button', { type: 'button', class: 'link', title: symbol }, truncateText(symbol, 40));
    link.addEventListener('click', () => choose(symbol));
    return createElement('li', {}, link);
  });
  return createElement(
    'details',
    {},
    createElement('summary', {}, `${formatCount(lacking, 'symbol')} not covered throughout`),
    createElement(
      'ul',
      { class: 'missing' },
      ...links,
      rest > 0 ? createElement('li', { class: 'note' }, `and ${formatInteger(rest)} more`) : null,
    ),
  );
}
