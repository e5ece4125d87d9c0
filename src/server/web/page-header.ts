import { type Html, html } from '../../base/html.ts';
import { paths } from '../../contract/paths.ts';

const pages = [
  [paths.catalogue, 'Catalogue'],
  [paths.documentation, 'API'],
  [paths.problems, 'Error codes'],
] as const;

export type HeaderPath = (typeof pages)[number][0];

/** The header of every page of the service. @param assets the folder of the files @param current the path of this page; null if it is not in the header */
export const renderPageHeader = (assets: string, current: HeaderPath | null): Html => html`<header class="top">
<p class="brand"><a href="${paths.catalogue}"><img src="${assets}/icon.svg" alt="" width="22" height="22"> oddslake</a></p>
<nav aria-label="Pages">${pages.map(([path, name]) =>
  path === current ? html`<a href="${path}" aria-current="page">${name}</a> ` : html`<a href="${path}">${name}</a> `,
)}</nav>
<div id="key-state"></div>
</header>`;
