import { html } from '../../base/html.ts';
import { paths } from '../../contract/paths.ts';
import { renderPageHeader } from './page-header.ts';

/**
 * `/docs`: the page around Swagger UI, in the clothes of the other pages.
 * @param assets the folder of the catalogue's files
 */
export const renderDocumentationPage = (assets: string): string => {
  const library = `${paths.documentation}/static`;
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<meta name="description" content="The HTTP routes of this oddslake archive, with parameters, responses and examples.">
<title>oddslake: API</title>
<link rel="icon" type="image/svg+xml" href="${assets}/icon.svg">
<link rel="stylesheet" href="${library}/swagger-ui.css">
${['palette', 'page', 'docs'].map((name) => html`<link rel="stylesheet" href="${assets}/${name}.css">`)}
<script type="module" src="${assets}/docs.js"></script>
</head>
<body>
<a class="skip" href="#swagger-ui">Skip to the API</a>
${renderPageHeader(assets, paths.documentation)}
<div id="swagger-ui" tabindex="-1"></div>
<noscript><main><h1>API</h1><p>This page needs JavaScript. The <a href="${paths.openapi}">OpenAPI document</a> does not.</p></main></noscript>
<script src="${library}/swagger-ui-bundle.js"></script>
<script src="${library}/swagger-ui-standalone-preset.js"></script>
<script src="${library}/swagger-initializer.js"></script>
</body>
</html>
`.text;
};
