import { fetchJson } from './api.ts';
import { fillElement, html, renderLoading, renderScrolledTable } from './dom.ts';
import { formatTime } from './format.ts';

interface Sample {
  readonly file: string | null;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly rows: readonly Readonly<Record<string, unknown>>[];
}

/** Adds sample rows to the cards of the datasets; they are read when a card is opened. */
export function renderSamples(): void {
  for (const card of document.querySelectorAll<HTMLDetailsElement>('details[data-dataset]')) {
    const place = card.querySelector<HTMLElement>('.sample');
    if (place === null || place.childElementCount > 0) continue;
    const loadOnce = (): void => {
      if (!card.open) return;
      card.removeEventListener('toggle', loadOnce);
      place.replaceChildren(renderLoading('Reading sample rows…'));
      void fillElement(place, async () =>
        renderSample(await fetchJson<Sample>(`/api/v1/catalogue/samples/${card.dataset.dataset}`)),
      );
    };
    card.addEventListener('toggle', loadOnce);
    loadOnce();
  }
}

function renderSample({ file, columns, rows }: Sample): HTMLElement {
  if (rows.length === 0) return html`<p class="empty">The dataset has no rows.</p>`;
  const cells = rows.map((row) => columns.map(({ name, type }) => formatCell(row[name], type)));
  return html`
    <div>
      <h3>Sample rows</h3>
      <p class="note">The first of ${file}</p>
      ${renderScrolledTable(
        'Sample rows',
        columns.map(({ name }) => name),
        cells,
      )}
    </div>`;
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
