import { type Column, type DatasetName, datasets } from '../../archive/format/datasets.ts';
import { type Html, html } from '../../base/html.ts';
import { formatBytes, formatCount, formatInteger } from './client/format.ts';

/** What a card says about a dataset besides its schema. */
export interface DatasetTotals {
  readonly name: string;
  readonly files: number;
  readonly rows: number;
  readonly bytes: number;
}

/** A card for every dataset with rows: its size, its columns and, for readers, sample rows, which the page adds. */
export const renderDatasetCards = (
  totals: readonly DatasetTotals[],
): Html => html`<section class="list-only" aria-labelledby="datasets-title">
<h2 id="datasets-title">Datasets</h2>
${
  totals.length === 0
    ? html`<p class="empty">Nothing is published yet. The first run of the collector fills this page.</p>`
    : html`<div class="cards">${totals.map(renderCard)}</div>`
}
</section>`;

function renderCard({ name, rows, files, bytes }: DatasetTotals): Html {
  const { description, columns, key } = datasets[name as DatasetName];
  return html`<details class="card" data-dataset="${name}">
<summary><span class="card-name">${name}</span> <span class="card-size">${formatCount(rows, 'row')} · ${formatBytes(bytes)} · ${formatCount(files, 'file')}</span>
<span class="note">${description}</span></summary>
<table class="schema">
<thead><tr><th scope="col">Column</th><th scope="col">Type</th><th scope="col">Meaning</th></tr></thead>
<tbody>${(columns as readonly Column[]).map(
    (
      column,
    ) => html`<tr><th scope="row"><code>${column.name}</code></th><td>${formatType(column)}</td><td>${column.meaning}${
      column.unit === undefined ? '' : ` (${column.unit})`
    }</td></tr>
`,
  )}</tbody>
</table>
<p class="note">Key: ${key.join(', ')}. ${formatInteger(bytes)} bytes.</p>
<div class="sample"></div>
</details>
`;
}

/** The type as the documentation of the format writes it; `?` if it may be null. */
const formatType = ({ type, nullable }: Column): string =>
  `${type === 'strings' ? 'list of string' : type === 'timestamp' ? 'timestamp (ms, UTC)' : type}${nullable ? ' ?' : ''}`;
