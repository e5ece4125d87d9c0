import { datasetNames } from '../../archive/format/datasets.ts';
import { listFilesWithRows, listManifestFiles, type Manifest, sumFileSizes } from '../../archive/format/manifest.ts';
import { type Html, html } from '../../base/html.ts';
import { minuteMs } from '../../base/window.ts';
import {
  countCompleteDays,
  type DamageFindings,
  updatePublishedCompleteness,
} from '../../contract/completeness-counts.ts';
import { paths } from '../../contract/paths.ts';
import { formatBytes, formatCount, formatDate, formatDuration, formatInteger, formatTime } from './client/format.ts';
import { searchHint, wordsLengthMax } from './client/list-view.ts';
import { type DatasetTotals, renderDatasetCards } from './dataset-cards.ts';
import { renderPageHeader } from './page-header.ts';

/** In order of precedence: later sheets override earlier ones. */
export const sheets = [
  'uplot',
  'palette',
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
  damaged: Iterable<string> = [],
  /** Names of the scripts that the first one imports: the browser then need not discover them one after the other. */
  modules: readonly string[] = [],
): string =>
  html`<!doctype html>
<html lang="en" data-access="${isPublic ? 'public' : 'key'}" data-now="${nowMs}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<meta name="description" content="What this oddslake archive of prediction-market prices contains: symbols, days, charts and files.">
<title>oddslake: contents of this archive</title>
<link rel="icon" type="image/svg+xml" href="${assets}/icon.svg">
<link rel="stylesheet" href="${assets}/catalogue.css">
<script type="module" src="${assets}/main.js"></script>
${modules.map((name) => html`<link rel="modulepreload" fetchpriority="low" href="${assets}/${name}">`)}
</head>
<body>
<script src="${assets}/first-view.js"></script>
<a class="skip" href="#main">Skip to the archive</a>
${renderPageHeader(assets, paths.catalogue)}
<main id="main" tabindex="-1">
<h1 class="list-only">Contents of this archive</h1>
${renderFigures(totals, nowMs)}
<noscript><p>Days, symbols, charts and files need JavaScript, or the <a href="/docs">API</a>.</p></noscript>
<section id="key" aria-labelledby="key-title"${isPublic ? html` hidden` : ''}>
<h2 id="key-title">Sign in</h2>
</section>
<div id="rest" data-today="${formatDate(nowMs)}" data-damaged="${[...damaged].slice(0, damagedMax).join()}"${
    totals.generation === 0 ? html` data-empty` : isPublic ? html` data-loading` : ''
  }>${isPublic && totals.generation > 0 ? renderSearchStart() : ''}</div>
${renderDatasetCards(totals.datasets)}
</main>
<footer><p>All times are UTC. <a href="/docs">API documentation</a> · <a href="/api/v1/openapi.json">OpenAPI</a> ·
oddslake ${version}</p></footer>
</body>
</html>
`.text;

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
  figure('Ticks', formatInteger(ticks), 'without duplicates'),
  figure('Symbols', formatInteger(symbols), 'known to the archive'),
  figure('Time range', span === null ? '–' : formatDuration(span.last - span.first), lasts),
  days === 0
    ? figure('Days complete', '–', 'no finished day yet')
    : figure(
        'Days complete',
        `${formatInteger(daysComplete)} of ${formatInteger(days)}`,
        'ended, and every live symbol covered',
      ),
  figure('Size', formatBytes(bytes), `${formatInteger(bytes)} bytes`),
  figure('Datasets', formatInteger(datasets.length), formatCount(files, 'file')),
  figure(
    'Generation',
    formatInteger(generation),
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
  readonly watermark: number | null;
  /** The watermark, with inferred windows counted as covered. */
  readonly reached: number | null;
  /** Datasets with rows. */
  readonly datasets: readonly DatasetTotals[];
}

/** Computes the public totals of an archive. Days are those that have ended at `nowMs`. */
export function computeTotals(manifest: Manifest, damage: DamageFindings, nowMs: number): Totals {
  const ticks = manifest.datasets.ticks.files;
  const { complete, total } = countCompleteDays(updatePublishedCompleteness(manifest, damage, nowMs));
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
    watermark: manifest.watermark,
    reached: manifest.reached,
    datasets: datasetNames
      .map((name) => ({ name, files: listFilesWithRows(manifest, name) }))
      .filter(({ files }) => files.length > 0)
      .map(({ name, files }) => ({ name, files: files.length, ...sumFileSizes(files) })),
  };
}
