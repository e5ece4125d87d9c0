import swaggerUi from '@fastify/swagger-ui';
import { paths } from '../../contract/paths.ts';
import type { App } from '../fastify-types.ts';
import { pageContentSecurityPolicy } from '../response-headers.ts';

/** `/docs`: a page made of the OpenAPI document; everything that it needs comes from here. */
export async function registerDocumentationRoutes(app: App): Promise<void> {
  await app.register(async (inner) => {
    inner.addHook('onRoute', (route) => {
      route.config = { ...route.config, access: 'open' };
      route.schema = { ...route.schema, hide: true };
    });
    inner.addHook('onSend', async (_request, reply) => {
      // An ETag tells a browser whether its copy still is this version's.
      if (reply.statusCode < 400) reply.header('cache-control', 'no-cache');
    });
    await inner.register(swaggerUi, {
      routePrefix: paths.documentation,
      // The page styles its elements one by one, in the markup too.
      staticCSP: pageContentSecurityPolicy.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'"),
      theme: { title: 'oddslake' },
      // Without the bar at the top, which asks for the address of another document.
      uiConfig: { layout: 'BaseLayout', deepLinking: true, docExpansion: 'list', persistAuthorization: false },
    });
  });
}
