import { type Html, html } from '../../base/html.ts';
import { paths } from '../../contract/paths.ts';
import { problemCodes, problemKinds } from '../../contract/problem.ts';
import type { CompressBody } from '../http/compress-response.ts';
import type { App } from '../http/context.ts';
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
      head: renderSheets(assets, ['palette', 'page', 'problems']),
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
