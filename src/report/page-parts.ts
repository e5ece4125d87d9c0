import { shortenText } from '../base/format-quantity.ts';
import { commonStyle, Html, html } from '../base/html.ts';

// Parts of HTML reports.

/**
 * Renders a self-contained page with inline style and without scripts. Its Content-Security-Policy forbids loading anything.
 * @param ownStyle CSS added to the common style
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
<main>
${body}
</main>
<footer><p>All times are UTC. Written by oddslake ${version}.</p></footer>
</body>
</html>
`.text;

/** A section with a heading. `long`: page breaks are allowed inside it when printed. */
export const renderSection = (heading: string, body: readonly Html[], long = false): Html =>
  html`<section${new Html(long ? ' class="long"' : '')}>
<h2>${heading}</h2>
${body}
</section>
`;

export const renderFigure = (caption: string, plot: Html): Html =>
  html`<figure><figcaption>${caption}</figcaption>${plot}</figure>
`;

interface KeyFigure {
  readonly label: string;
  readonly value: string;
  readonly note?: string;
  readonly isHighlighted?: boolean;
}

export const renderKeyFigures = (entries: readonly KeyFigure[]): Html =>
  html`<dl class="figures">
${entries.map(
  ({ label, value, note = '', isHighlighted = false }) =>
    html`<div${new Html(isHighlighted ? ' class="highlighted"' : '')}><dt>${label}</dt><dd>${value}</dd>${
      note === '' ? [] : [html`<dd class="note">${renderWords(note)}</dd>`]
    }</div>
`,
)}</dl>
`;

export const renderFacts = (entries: readonly (readonly [name: string, value: string | Html])[]): Html =>
  html`<dl class="facts">
${entries.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>\n`)}</dl>
`;

export interface HtmlColumn<Row> {
  readonly name: string;
  /** Numbers are right-aligned, `left` and `text` left-aligned; `text` can wrap. */
  readonly kind?: 'number' | 'left' | 'text';
  readonly format: (row: Row) => string | Html;
  /** Whether the value is shown as a loss. */
  readonly isLoss?: (row: Row) => boolean;
}

/** A table that scrolls horizontally if it is wider than the page. */
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
      ({ name, format, kind = 'number', isLoss }) =>
        html`<td class="${kind === 'number' ? '' : kind}${isLoss?.(row) === true ? ' loss' : ''}" data-label="${name}">${format(row)}</td>`,
    )}</tr>
`,
)}</tbody>
</table></div>
`;

/** A table whose rows are lists of named values on a narrow page. */
export const renderCards = (table: Html | readonly Html[]): Html => html`<div class="cards">${table}</div>\n`;

/** A table with its first rows visible and the others in a collapsed block. */
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

/** A link to a symbol or a day of the catalogue page; without an address, only the text. */
export function renderCatalogueLink(
  catalogueUrl: string | null,
  view: { readonly symbol?: string; readonly day?: string },
  text: Html,
): Html {
  if (catalogueUrl === null) return text;
  const url = new URL(catalogueUrl);
  url.hash = String(new URLSearchParams(view));
  return html`<a href="${url.href}" rel="noreferrer">${text}</a>`;
}

/** A symbol, with a link to it if the catalogue's address is known, isolated so that a right-to-left name leaves the text around it in order; below it what it is about. */
export const renderSymbol = (
  symbol: string,
  question: string | null = null,
  catalogueUrl: string | null = null,
): Html =>
  html`${renderCatalogueLink(catalogueUrl, { symbol }, html`<bdi>${shortenText(symbol, nameLettersMax)}</bdi>`)}${
    question === null || question === ''
      ? []
      : [html`<span class="about"><bdi>${shortenText(question, nameLettersMax)}</bdi></span>`]
  }`;

export const renderSymbols = (symbols: readonly string[]): Html =>
  html`${symbols.map((symbol, i) => html`${i === 0 ? '' : ', '}${renderSymbol(shortenText(symbol, exampleLettersMax))}`)}`;

/** Maximum length of a symbol or a question in a table, and of a symbol in a list of examples, in characters. */
const nameLettersMax = 300;
const exampleLettersMax = 60;

/** Renders a text that breaks between words only: not inside a date, a flag or a path, unless it is wider than the page. */
export const renderWords = (text: string): Html =>
  html`${text.split(' ').map((word, i) => html`${i === 0 ? '' : ' '}${/\w-|-\w/.test(word) ? html`<span class="word">${word}</span>` : word}`)}`;

/** Style of all reports: light and dark, wide and narrow, screen and print. */
const pageStyle = `
${commonStyle}
body { padding: 8px 24px 48px; max-width: 1008px; }
.word { display: inline-block; max-width: 100%; }
.hash { font: 13px / 1.5 ui-monospace, "SF Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace; word-break: break-all; }
p.warning { margin-top: 16px; padding: 10px 14px; border-left: 3px solid var(--gap); background: var(--warn); }
.figures {
  display: grid;
  grid-template-columns: repeat(4, 1fr);
  gap: 1px;
  margin-top: 20px;
  border: 1px solid var(--line);
  border-radius: 8px;
  background: var(--line);
  overflow: hidden;
}
.figures > div { padding: 10px 14px; background: var(--panel); }
.figures dt { color: var(--muted); font-size: 13px; }
.figures dd { font-size: 20px; font-weight: 600; }
.figures dd.note { font-size: 13px; font-weight: 400; }
.figures > .highlighted { background: var(--paper); box-shadow: inset 3px 0 0 var(--accent); }
svg { display: block; width: 100%; height: auto; color: var(--muted); --plot-background: var(--paper); }
figcaption { margin-bottom: 6px; }
.note + figure { margin-top: 10px; }
.figures + .note { margin-top: 8px; }
.beside { display: grid; margin-top: 12px; grid-template-columns: minmax(280px, 380px) 1fr; gap: 32px; align-items: start; }
.narrow { display: none; }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 14px; }
th, td { vertical-align: top; padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { color: var(--muted); font-weight: 500; }
thead th { vertical-align: bottom; }
th.left, td.left { text-align: left; }
td.text { text-align: left; white-space: normal; min-width: 150px; }
.about { display: block; color: var(--muted); font-size: 13px; font-weight: 400; }
td.loss { color: var(--down); }
tr.best td { font-weight: 600; }
details { margin-top: 12px; }
summary, td a { color: var(--accent); }
summary { cursor: pointer; }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: 4px 18px; }
dl.facts dt { color: var(--muted); }
pre { margin: 12px 0 0; padding: 12px 14px; border-radius: 8px; background: var(--panel); font-size: 13px; overflow-x: auto; white-space: pre-wrap; }
@media (max-width: 640px) {
  body { padding: 4px 14px 32px; }
  .wide { display: none; }
  .narrow { display: block; }
  .figures { grid-template-columns: 1fr 1fr; }
  .beside { grid-template-columns: 1fr; gap: 12px; }
  /* A row of a table is a list of its values with their names. */
  .cards thead { display: none; }
  .cards table, .cards tbody, .cards tr { display: block; }
  .cards tr { padding: 6px 0; border-bottom: 1px solid var(--line); }
  .cards td { display: block; padding: 1px 0; border: 0; text-align: left; white-space: normal; }
  .cards td:empty { display: none; }
  .cards td::before { content: attr(data-label) ": "; color: var(--muted); }
  .cards td:first-child::before { content: none; }
  .cards td:first-child { font-weight: 600; }
  dl.facts { grid-template-columns: 1fr; gap: 0; }
  dl.facts dd { margin-bottom: 8px; }
}
@media print {
  :root {
    color-scheme: light;
    --paper: #ffffff; --panel: #ffffff; --text: #000000; --muted: #444444; --line: #cccccc; --edge: #777777;
    --accent: #1d6680; --gap: #9a6222; --down: #a8442f; --warn: #ffffff; --good: #2b7350; --good-soft: #ffffff;
    --bad: #9c2f1f; --bad-soft: #ffffff; --level-0: #f0d9c4; --level-1: #d3e6ec; --level-2: #a6cedb; --level-3: #6faec2;
    --level-5: #175a72;
  }
  body { max-width: none; padding: 0; font-size: 12px; }
  .wide { display: block; }
  .narrow { display: none; }
  section { break-inside: avoid-page; margin-top: 24px; }
  section.long { break-inside: auto; }
  tr { break-inside: avoid; }
  .scroll { overflow: visible; }
}
`;

/** A section of the report, or one sentence if there is nothing to show. */
export type ReportPart = Html | QuietSection;

interface QuietSection {
  readonly name: string;
  readonly text: string;
}

/** Sections in order, followed by one list of all quiet sections. */
export function arrangeParts(parts: readonly ReportPart[]): Html[] {
  const quiet = parts.filter((part): part is QuietSection => !(part instanceof Html));
  const rows = quiet.map(({ name, text }) => html`<dt>${name}</dt><dd>${renderWords(text)}</dd>\n`);
  return [
    ...parts.filter((part) => part instanceof Html),
    ...(rows.length === 0 ? [] : [renderSection('In brief', [html`<dl class="facts">\n${rows}</dl>\n`])]),
  ];
}
