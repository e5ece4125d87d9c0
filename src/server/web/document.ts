import { type Column, type DatasetName, datasetNames, datasets } from '../../archive/format/datasets.ts';
import { listFilesWithRows, listManifestFiles, type Manifest, sumFileSizes } from '../../archive/format/manifest.ts';
import { columnTypeNames } from '../../archive/publish/readme.ts';
import { type Facts, judge } from '../../archive/read/judge.ts';
import { formatBytes, formatCount, formatDuration, formatNumber } from '../../base/format-quantity.ts';
import { type Html, html } from '../../base/html.ts';
import { minuteMs } from '../../base/window.ts';
import { countCompleteDays } from '../../contract/completeness-counts.ts';
import { toOpenJudgement, type Verdict } from '../../contract/finding.ts';
import { paths } from '../../contract/paths.ts';
import { formatDate, formatTime } from './client/format.ts';
import { searchHint, wordsLengthMax } from './client/list-view.ts';
import { renderPageFrame, renderSheets } from './page-frame.ts';

/** In order of precedence: later sheets override earlier ones. */
export const sheets = [
  'uplot',
  'common',
  'page',
  'controls',
  'parts',
  'search',
  'cards',
  'symbol',
  'days',
  'narrow',
] as const;

/** Maximum number of damaged days that the calendar marks. */
const damagedMax = 1000;

/** The public page: the totals, and empty sections that the client fills for key holders. */
export const renderPageDocument = (
  totals: Totals,
  nowMs: number,
  assets: string,
  version: string,
  isPublic = false,
  /** Names of the scripts that the first one imports: the browser then need not discover them one after the other. */
  modules: readonly string[] = [],
): string =>
  renderPageFrame(
    {
      ...{ assets, title: 'contents of this archive', current: paths.catalogue },
      description: 'What this oddslake archive of prediction-market prices contains: symbols, days, charts and files.',
      main: { id: 'main', link: 'Skip to the archive' },
      head: [
        ...renderSheets(assets, ['catalogue']),
        html`<script type="module" src="${assets}/main.js"></script>\n`,
        ...modules.map((name) => html`<link rel="modulepreload" fetchpriority="low" href="${assets}/${name}">\n`),
      ],
      data: html` data-access="${isPublic ? 'public' : 'key'}" data-now="${nowMs}"`,
    },
    html`<script src="${assets}/first-view.js"></script>
<main id="main" tabindex="-1">
<h1 class="list-only">Contents of this archive</h1>
<p class="verdict ${totals.verdict.state} list-only">${totals.verdict.text}</p>
${renderFigures(totals, nowMs)}
<noscript><p>Days, symbols, charts and files need JavaScript, or the <a href="/docs">API</a>.</p></noscript>
<section id="key" aria-labelledby="key-title"${isPublic ? html` hidden` : ''}>
<h2 id="key-title">Sign in</h2>
</section>
<div id="rest" data-today="${formatDate(nowMs)}" data-damaged="${totals.damagedDays.slice(0, damagedMax).join()}"${
      totals.generation === 0 ? html` data-empty` : isPublic ? html` data-loading` : ''
    }>${isPublic && totals.generation > 0 ? renderSearchStart() : ''}</div>
${renderDatasetCards(totals.datasets)}
</main>
<footer><p>All times are UTC. <a href="/docs">API documentation</a> · <a href="/api/v1/openapi.json">OpenAPI</a> ·
oddslake ${version}</p></footer>`,
  );

/** The search field before the script runs: what is typed into it is kept. */
const renderSearchStart = (): Html => html`<section aria-labelledby="symbols-title" class="list-only">
<h2 id="symbols-title">Symbols</h2>
<div class="search-field"><label for="search" class="unseen">Find a symbol</label>
<input id="search" type="search" maxlength="${wordsLengthMax}" autocomplete="off" spellcheck="false" placeholder="${searchHint}"></div>
</section>
`;

function renderFigures(totals: Totals, nowMs: number): Html {
  const { span, symbols, ticks, bytes, days, daysComplete, generation, publishedAt, reached, datasets } = totals;
  const files = datasets.reduce((sum, dataset) => sum + dataset.files, 0);
  const figure = (label: string, value: string, note: string | Html): Html =>
    html`<div><dt>${label}</dt><dd>${value}</dd><dd class="note">${note}</dd></div>
`;
  const lasts =
    span === null
      ? 'no ticks yet'
      : html`${renderUnbroken(formatDate(span.first))} to ${renderUnbroken(formatDate(span.last))}`;
  return html`<dl class="figures list-only" id="totals">
${[
  figure('Ticks', formatNumber(ticks), 'without duplicates'),
  figure('Symbols', formatNumber(symbols), 'known to the archive'),
  figure('Time range', span === null ? '–' : formatDuration(span.last - span.first), lasts),
  days === 0
    ? figure('Days complete', '–', 'no finished day yet')
    : figure(
        'Days complete',
        `${formatNumber(daysComplete)} of ${formatNumber(days)}`,
        'ended, and every live symbol covered',
      ),
  figure('Size', formatBytes(bytes), `${formatNumber(bytes)} bytes`),
  figure('Datasets', formatNumber(datasets.length), formatCount(files, 'file')),
  figure(
    'Generation',
    formatNumber(generation),
    generation === 0
      ? 'nothing published yet'
      : html`published ${renderUnbroken(formatTime(floorToMinute(publishedAt)))}`,
  ),
  figure(
    'Lag',
    reached === null ? '–' : formatDuration(nowMs - reached),
    reached === null ? 'no live symbol' : html`covered to ${renderUnbroken(formatTime(floorToMinute(reached)))}`,
  ),
]}</dl>`;
}

/** Text without line breaks at its hyphens. */
const renderUnbroken = (text: string): Html => html`<span class="nowrap">${text}</span>`;

const floorToMinute = (ms: number): number => ms - (ms % minuteMs);

/** Public totals of an archive. Times are epoch milliseconds. */
export interface Totals {
  /** First and last tick; null if there are no ticks. */
  readonly span: { readonly first: number; readonly last: number } | null;
  readonly symbols: number;
  readonly ticks: number;
  readonly bytes: number;
  readonly days: number;
  readonly daysComplete: number;
  readonly generation: number;
  readonly publishedAt: number;
  /** Every live symbol is covered up to here, inferred windows included. */
  readonly reached: number | null;
  /** Days with damaged files, YYYY-MM-DD. */
  readonly damagedDays: readonly string[];
  /** For readers without a key. */
  readonly verdict: Verdict;
  /** Datasets with rows. */
  readonly datasets: readonly DatasetTotals[];
}

/** Computes the public totals of an archive. Without its status, no day is known to be complete. */
export function computeTotals(manifest: Manifest, facts: Facts): Totals {
  const ticks = manifest.datasets.ticks.files;
  const { completeness, reached } = facts.status ?? { completeness: null, reached: null };
  const { complete, total } = completeness === null ? { complete: 0, total: 0 } : countCompleteDays(completeness);
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  for (const { t_min, t_max } of ticks) {
    first = Math.min(first, t_min ?? first);
    last = Math.max(last, t_max ?? last);
  }
  return {
    span: first <= last ? { first, last } : null,
    symbols: sumFileSizes(manifest.datasets.symbols.files).rows,
    ticks: sumFileSizes(ticks).rows,
    bytes: sumFileSizes(listManifestFiles(manifest)).bytes,
    days: total,
    daysComplete: complete,
    generation: manifest.generation,
    publishedAt: manifest.created_at,
    reached,
    damagedDays: completeness?.damaged.dates ?? [],
    verdict: toOpenJudgement(judge(facts)).verdict,
    datasets: datasetNames
      .map((name) => ({ name, files: listFilesWithRows(manifest, name) }))
      .filter(({ files }) => files.length > 0)
      .map(({ name, files }) => ({ name, files: files.length, ...sumFileSizes(files) })),
  };
}

/** What a card says about a dataset besides its schema. */
interface DatasetTotals {
  readonly name: string;
  readonly files: number;
  readonly rows: number;
  readonly bytes: number;
}

/** A card for every dataset with rows: its size, its columns and, for readers, sample rows, which the page adds. */
const renderDatasetCards = (
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
<p class="note">Key: ${key.join(', ')}. ${formatNumber(bytes)} bytes.</p>
<div class="sample"></div>
</details>
`;
}

/** The type as the archive's README writes it; `?` if it may be null. */
const formatType = ({ type, nullable }: Column): string => `${columnTypeNames[type]}${nullable ? ' ?' : ''}`;
