import { html } from '../../base/html.ts';
import { paths } from '../../contract/paths.ts';
import { renderPageFrame, renderSheets } from './page-frame.ts';

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
        ...renderSheets(assets, ['palette', 'page', 'docs']),
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
