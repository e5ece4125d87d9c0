import { type Html, html } from '../../base/html.ts';
import { paths } from '../../contract/paths.ts';

interface PageFrame {
  /** The folder of the files of the catalogue. */
  readonly assets: string;
  readonly title: string;
  /** For search results and previews; null for a page that is not to be found. */
  readonly description: string | null;
  /** The path of this page; null if it is not in the header. */
  readonly current: HeaderPath | null;
  /** ID of the main element, and the text of the link to it. */
  readonly main: { readonly id: string; readonly link: string };
  /** Style sheets and scripts. */
  readonly head: readonly Html[];
  /** Attributes of the root element. */
  readonly data?: Html;
}

/** Links of style sheets of the catalogue, in order of precedence. */
export const renderSheets = (assets: string, names: readonly string[]): Html[] =>
  names.map((name) => html`<link rel="stylesheet" href="${assets}/${name}.css">\n`);

/** A page of the service with its head and its header. */
export const renderPageFrame = (
  { assets, title, description, current, main, head, data = html`` }: PageFrame,
  body: Html,
): string =>
  html`<!doctype html>
<html lang="en"${data}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
${description === null ? '' : html`<meta name="description" content="${description}">\n`}<title>oddslake: ${title}</title>
<link rel="icon" type="image/svg+xml" href="${assets}/icon.svg">
${head}</head>
<body>
<a class="skip" href="#${main.id}">${main.link}</a>
${renderPageHeader(assets, current)}
${body}
</body>
</html>
`.text;

const pages = [
  [paths.catalogue, 'Catalogue'],
  [paths.documentation, 'API'],
  [paths.problems, 'Error codes'],
] as const;

type HeaderPath = (typeof pages)[number][0];

/** The header of every page of the service. @param assets the folder of the files @param current the path of this page; null if it is not in the header */
const renderPageHeader = (assets: string, current: HeaderPath | null): Html => html`<header class="top">
<p class="brand"><a href="${paths.catalogue}"><img src="${assets}/icon.svg" alt="" width="22" height="22"> oddslake</a></p>
<nav aria-label="Pages">${pages.map(([path, name]) =>
  path === current ? html`<a href="${path}" aria-current="page">${name}</a> ` : html`<a href="${path}">${name}</a> `,
)}</nav>
<div id="key-state"></div>
</header>`;
