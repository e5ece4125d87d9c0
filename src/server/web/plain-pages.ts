import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Html, html } from '../../base/html.ts';
import { paths } from '../../contract/paths.ts';
import { problemCodes, problemKinds } from '../../contract/problem.ts';
import type { CompressBody } from '../http/compress-response.ts';
import type { App } from '../http/service-context.ts';
import { createStaticBody, type StaticBody, sendStaticBody } from '../http/static-body.ts';
import { loadAssets, pageHeaders } from './catalogue.ts';
import { renderPageFrame, renderSheets } from './page-frame.ts';

/** Text in which backquotes mark code. */
const renderText = (text: string): Html[] =>
  text.split('`').map((part, i) => (i % 2 === 0 ? html`${part}` : html`<code>${part}</code>`));

const renderPage = (assets: string): string =>
  renderPageFrame(
    {
      ...{ assets, title: 'error codes', current: paths.problems },
      description: 'The error codes of the oddslake API: what each means and what to do.',
      main: { id: 'main', link: 'Skip to the error codes' },
      head: renderSheets(assets, ['common', 'page', 'problems']),
    },
    html`<main class="problems" id="main" tabindex="-1">
<h1>Error codes</h1>
<p>Every error is <code>application/problem+json</code> with one of these codes. The <a href="${paths.documentation}">API
documentation</a> lists the codes of each route.</p>
${problemCodes.map((code) => {
  const { status, meaning, action } = problemKinds[code];
  return html`<section id="${code}">
<h2><code>${code}</code> (${status})</h2>
<p>${renderText(meaning)}</p>
<p>${renderText(action)}</p>
</section>
`;
})}</main>`,
  );

/** `/docs/problems`: the page that the type of every problem refers to. */
export function registerProblemsPage(app: App, compress: CompressBody): void {
  let body: StaticBody | undefined;
  app.get(paths.problems, { config: { access: 'open' }, schema: { hide: true } }, async (request, reply) => {
    body ??= createStaticBody('text/html; charset=utf-8', renderPage(`/assets/${loadAssets().stamp}`));
    reply.headers({ ...pageHeaders, 'cache-control': 'no-cache' });
    return sendStaticBody(request, reply, body, compress);
  });
}

/** Whether a person with a browser requests a path that does not exist. Programs get problem details. */
export const isPageRequest = ({ method, headers }: FastifyRequest, path: string): boolean =>
  (method === 'GET' || method === 'HEAD') &&
  /\btext\/html\b/i.test(headers.accept ?? '') &&
  !path.startsWith('/api/') &&
  !path.startsWith('/assets/');

/** Sends the page that says that there is no such page, and what there is. It does not repeat the path. */
export function sendNotFoundPage(reply: FastifyReply): FastifyReply {
  const assets = `/assets/${loadAssets().stamp}`;
  const page = renderPageFrame(
    {
      ...{ assets, title: 'no such page', description: null, current: null },
      main: { id: 'main', link: 'Skip to the page' },
      head: renderSheets(assets, ['common', 'page', 'problems']),
    },
    html`<main class="problems" id="main" tabindex="-1">
<h1>There is no such page</h1>
<p>Check the address, or go to the <a href="${paths.catalogue}">catalogue of this archive</a> or the
<a href="${paths.documentation}">API documentation</a>.</p>
</main>`,
  );
  return reply
    .code(404)
    .headers({ ...pageHeaders, 'cache-control': 'no-cache' })
    .type('text/html; charset=utf-8')
    .send(page);
}

/**
 * `/docs`: the page around Swagger UI, in the clothes of the other pages.
 * @param assets the folder of the catalogue's files
 */
export const renderDocumentationPage = (assets: string): string => {
  const library = `${paths.documentation}/static`;
  const style = `${library}/swagger-ui.css`;
  return renderPageFrame(
    {
      ...{ assets, title: 'API', current: paths.documentation },
      description: 'The HTTP routes of this oddslake archive, with parameters, responses and examples.',
      main: { id: 'swagger-ui', link: 'Skip to the API' },
      head: [
        html`<link rel="stylesheet" href="${style}">\n`,
        ...renderSheets(assets, ['common', 'page', 'docs']),
        html`<script type="module" src="${assets}/docs.js"></script>\n`,
      ],
    },
    html`<div id="swagger-ui" tabindex="-1"></div>
<noscript><main><h1>API</h1><p>This page needs JavaScript. The <a href="${paths.openapi}">OpenAPI document</a> does not.</p></main></noscript>
<script src="${library}/swagger-ui-bundle.js"></script>
<script src="${library}/swagger-ui-standalone-preset.js"></script>
<script src="${library}/swagger-initializer.js"></script>`,
  );
};
