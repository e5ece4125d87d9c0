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
${
  totals.length === 0
    ? renderFirstSteps()
    : html`<h2 id="datasets-title">Datasets</h2>
<div class="cards">${totals.map(renderCard)}</div>`
}
</section>`;

/** What fills an empty archive. */
const renderFirstSteps = (): Html => html`<h2 id="datasets-title">Nothing is published yet</h2>
<p>One of these commands, run where the archive is, fills this page. Then reload it.</p>
<dl class="steps">
<dt><code>oddslake doctor</code></dt><dd>checks the settings, the key and the service that is collected from</dd>
<dt><code>oddslake nightly</code></dt><dd>collects once; with <code>--dry-run</code>, prints how many requests that takes</dd>
<dt><code>oddslake schedule</code></dt><dd>collects every night until it is stopped</dd>
<dt><code>oddslake import FILE</code></dt><dd>imports saved pages, CSV, NDJSON or Parquet files</dd>
</dl>`;

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
