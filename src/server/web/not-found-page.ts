import type { FastifyReply, FastifyRequest } from 'fastify';
import { html } from '../../base/html.ts';
import { paths } from '../../contract/paths.ts';
import { loadAssets, pageHeaders } from './catalogue.ts';
import { renderPageFrame, renderSheets } from './page-frame.ts';

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
      head: renderSheets(assets, ['palette', 'page', 'problems']),
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
