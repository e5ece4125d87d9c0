import { type Html, html } from '../../base/html.ts';
import { paths } from '../../contract/paths.ts';
import { problemCodes, problemKinds } from '../../contract/problem.ts';
import type { CompressBody } from '../http/compress-response.ts';
import type { App } from '../http/context.ts';
import { createStaticBody, sendStaticBody } from '../http/static-body.ts';

/** Text in which backquotes mark code. */
const renderText = (text: string): Html[] =>
  text.split('`').map((part, i) => (i % 2 === 0 ? html`${part}` : html`<code>${part}</code>`));

const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>oddslake: problems</title>
</head>
<body>
<h1>Problems</h1>
<p>Every error is <code>application/problem+json</code> with one of these codes. <a href="${paths.documentation}">API documentation</a></p>
${problemCodes.map((code) => {
  const { status, meaning, action } = problemKinds[code];
  return html`<section id="${code}">
<h2><code>${code}</code> (${status})</h2>
<p>${renderText(meaning)}</p>
<p>${renderText(action)}</p>
</section>
`;
})}</body>
</html>
`.text;

/** `/docs/problems`: the page that the type of every problem refers to. */
export function registerProblemsPage(app: App, compress: CompressBody): void {
  const body = createStaticBody('text/html; charset=utf-8', page);
  app.get(paths.problems, { config: { access: 'open' }, schema: { hide: true } }, async (request, reply) =>
    sendStaticBody(request, reply.header('cache-control', 'no-cache'), body, compress),
  );
}
