import { fetchJson, toErrorMessage } from './api.ts';
import { createElement, renderError, renderLoading } from './dom.ts';
import { formatTime } from './format.ts';

interface Sample {
  readonly file: string | null;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly rows: readonly Readonly<Record<string, unknown>>[];
}

/** Adds sample rows to the cards of the datasets; they are read when a card is opened. */
export function renderSamples(): void {
  for (const card of document.querySelectorAll<HTMLDetailsElement>('details[data-dataset]')) {
    const place = card.querySelector('.sample');
    if (place === null || place.childElementCount > 0) continue;
    const load = async (): Promise<void> => {
      place.replaceChildren(renderLoading('Reading sample rows…'));
      try {
        place.replaceChildren(
          renderSample(await fetchJson<Sample>(`/api/v1/catalogue/samples/${card.dataset.dataset}`)),
        );
      } catch (error) {
        place.replaceChildren(renderError(toErrorMessage(error), () => void load()));
      }
    };
    const loadOnce = (): void => {
      if (!card.open) return;
      card.removeEventListener('toggle', loadOnce);
      void load();
    };
    card.addEventListener('toggle', loadOnce);
    loadOnce();
  }
}

function renderSample({ file, columns, rows }: Sample): HTMLElement {
  if (rows.length === 0) return createElement('p', { class: 'empty' }, 'The dataset has no rows.');
  return createElement(
    'div',
    {},
    createElement('h3', {}, 'Sample rows'),
    createElement('p', { class: 'note' }, `The first of ${file}`),
    createElement(
      'div',
      { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Sample rows' },
      createElement(
        'table',
        {},
        createElement(
          'thead',
          {},
          createElement('tr', {}, ...columns.map(({ name }) => createElement('th', { scope: 'col' }, name))),
        ),
        createElement(
          'tbody',
          {},
          ...rows.map((row) =>
            createElement(
              'tr',
              {},
              ...columns.map(({ name, type }) => createElement('td', {}, formatCell(row[name], type))),
            ),
          ),
        ),
      ),
    ),
  );
}

/** Maximum length of a cell. */
const cellMax = 80;

function formatCell(value: unknown, type: string): string {
  if (value === null || value === undefined) return '–';
  const text =
    type === 'timestamp' && typeof value === 'number'
      ? formatTime(value)
      : typeof value === 'object'
        ? JSON.stringify(value)
        : String(value);
  return text.length > cellMax ? `${text.slice(0, cellMax)}…` : text;
}
