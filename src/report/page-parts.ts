import { Html, html } from '../core/html.ts';
import { pageStyle } from './page-style.ts';

// What every report is built of.

/**
 * A page by itself: its style is in it, it has no script, and it may load nothing from anywhere, which the browser holds
 * it to. `ownStyle`: what only this one has of it.
 */
export const renderReportPage = (title: string, body: readonly Html[], version: string, ownStyle = ''): string =>
  html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>${title}</title>
<style>${new Html(pageStyle + ownStyle)}</style>
</head>
<body>
${body}
<footer><p>All times are UTC. Written by oddslake ${version}.</p></footer>
</body>
</html>
`.text;

/** A part of a page under its heading; `long`: one that may go over several sheets of paper. */
export const renderSection = (heading: string, body: readonly Html[], long = false): Html =>
  html`<section${new Html(long ? ' class="long"' : '')}>
<h2>${heading}</h2>
${body}
</section>
`;

export const renderFigure = (caption: string, plot: Html): Html =>
  html`<figure><figcaption>${caption}</figcaption>${plot}</figure>
`;

export interface KeyFigure {
  readonly label: string;
  readonly value: string;
  readonly note?: string;
  /** Whether it is the one that was asked for. */
  readonly asked?: boolean;
}

export const renderKeyFigures = (all: readonly KeyFigure[]): Html =>
  html`<dl class="figures">
${all.map(
  ({ label, value, note = '', asked = false }) =>
    html`<div${new Html(asked ? ' class="asked"' : '')}><dt>${label}</dt><dd>${value}</dd>${
      note === '' ? [] : [html`<dd class="note">${note}</dd>`]
    }</div>
`,
)}</dl>
`;

/** Names and what they stand for. */
export const renderFacts = (all: readonly (readonly [name: string, value: string | Html])[]): Html =>
  html`<dl class="facts">
${all.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>\n`)}</dl>
`;

export interface HtmlColumn<Row> {
  readonly name: string;
  /** Numbers stand right, `left` and `text` left; a `text` may be broken. */
  readonly kind?: 'number' | 'left' | 'text';
  readonly format: (row: Row) => string;
  /** Whether it is a loss. */
  readonly isLoss?: (row: Row) => boolean;
}

/** A table that moves sideways where it is wider than the page. */
export const renderHtmlTable = <Row>(
  label: string,
  columns: readonly HtmlColumn<Row>[],
  rows: readonly Row[],
  isBest: (row: Row) => boolean = () => false,
): Html =>
  html`<div class="scroll" role="region" aria-label="${label}" tabindex="0"><table>
<thead><tr>${columns.map(({ name, kind = 'number' }) => html`<th scope="col" class="${kind === 'number' ? '' : 'left'}">${name}</th>`)}</tr></thead>
<tbody>
${rows.map(
  (row) =>
    html`<tr class="${isBest(row) ? 'best' : ''}">${columns.map(
      ({ format, kind = 'number', isLoss }) =>
        html`<td class="${kind === 'number' ? '' : kind}${isLoss?.(row) === true ? ' loss' : ''}">${format(row)}</td>`,
    )}</tr>
`,
)}</tbody>
</table></div>
`;

/** The first rows in sight, the others where they are asked for. */
export const renderLongTable = <Row>(
  label: string,
  columns: readonly HtmlColumn<Row>[],
  rows: readonly Row[],
  { shown, rest, isBest }: { readonly shown: number; readonly rest: string; readonly isBest?: (row: Row) => boolean },
): Html[] => [
  renderHtmlTable(label, columns, rows.slice(0, shown), isBest),
  ...(rows.length <= shown
    ? []
    : [
        html`<details><summary>${rest}</summary>${renderHtmlTable(`${label}, the rest`, columns, rows.slice(shown))}</details>\n`,
      ]),
];
