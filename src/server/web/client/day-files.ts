import {
  type DayState,
  listFilesOfDay,
  type Manifest,
  type ManifestFile,
  toFileName,
  toFileUrl,
} from './archive-file.ts';
import { formatCoverageShare } from './day-kind.ts';
import { createElement } from './dom.ts';
import { type DownloadableFile, renderDownloadButtons } from './download.ts';
import { dayMs, formatBytes, formatCount, formatInteger, truncateText } from './format.ts';

/** Renders the files of a day with downloads, and its missing symbols. */
export function renderDayFiles(
  manifest: Manifest,
  date: string,
  isDamaged: boolean,
  choose: (symbol: string) => void,
): HTMLElement {
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
      state === undefined
        ? 'The archive has no data for this day.'
        : `${isDamaged ? 'As published: ' : ''}${formatCoverageShare(state)}`,
    ),
    ...(state === undefined || isDamaged ? [] : renderDayReason(state)),
    isDamaged
      ? createElement(
          'p',
          { class: 'failed' },
          'Files of this day are damaged, and the service refuses to send them. To repair them, run ',
          createElement('code', {}, 'oddslake verify --repair'),
        )
      : null,
    renderDayDownload(date, datasets.find(({ dataset }) => dataset === 'ticks')?.files ?? []),
    renderMissingSymbols(state?.missing ?? [], state === undefined ? 0 : state.expected - state.covered, choose),
    files.length === 0
      ? createElement('p', { class: 'empty' }, 'There are no files for this day.')
      : renderFilesTable(files),
  );
}

/** Renders why a day is not complete, and what completes it, with its command. */
function renderDayReason({ state, reason, next_action: action }: DayState): HTMLElement[] {
  if (reason === undefined) return [];
  const meaning = state === 'provisional' ? 'Covered, not confirmed yet: ' : 'Not complete: ';
  const [, clause, command] = /^(.*:) (oddslake .*)$/s.exec(action ?? '') ?? [];
  const next =
    clause === undefined || command === undefined
      ? [action ?? null]
      : [`${clause} `, createElement('code', {}, command)];
  const [first, ...rest] = next;
  const sentence = typeof first === 'string' ? first[0]!.toUpperCase() + first.slice(1) : null;
  return [
    createElement('p', { class: 'day-reason' }, `${meaning}${reason}.`),
    ...(sentence === null ? [] : [createElement('p', { class: 'day-reason' }, sentence, ...rest)]),
  ];
}

/** Renders the download of all ticks of a day as one Parquet file. */
function renderDayDownload(date: string, files: readonly ManifestFile[]): HTMLElement | null {
  if (files.length === 0) return null;
  const rows = files.reduce((sum, file) => sum + file.rows, 0);
  return createElement(
    'div',
    { class: 'day-download' },
    createElement(
      'p',
      {},
      createElement('strong', {}, 'All ticks of the day in one Parquet file'),
      createElement('span', { class: 'note' }, `${formatCount(rows, 'row')}: symbol, t, p; sorted by symbol and time`),
    ),
    renderDownloadButtons(toDayFile(date, files)),
  );
}

/** The published file if there is only one, which has a SHA-256; otherwise the service joins them. */
function toDayFile(date: string, files: readonly ManifestFile[]): DownloadableFile {
  const common = { name: `ticks-${date}.parquet`, label: 'Download the day' };
  const [only] = files;
  if (files.length === 1 && only !== undefined)
    return { ...common, url: toFileUrl(only), bytes: only.bytes, sha256: only.sha256 };
  const from = Date.parse(date);
  const query = new URLSearchParams({ from: String(from), to: String(from + dayMs), format: 'parquet' });
  return { ...common, url: `/api/v1/historical/ticks?${query}`, bytes: null, sha256: null };
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
