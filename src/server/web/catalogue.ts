import { Type } from 'typebox';
import { readFoundDamage } from '../../archive/known-state.ts';
import { paths } from '../../contract/paths.ts';
import type { App, ServiceContext } from '../http/context.ts';
import { ProblemError, requireLocalState } from '../http/problem-details.ts';
import { loadAssets } from './assets.ts';
import { computeTotals, renderPageDocument, type Totals } from './document.ts';

const yearSeconds = 31_536_000;

/** Allow only our own files: no inline script or style, no other host, no frame, and no form target. */
const pageHeaders = {
  'content-security-policy':
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
};

const AssetPath = Type.Object({
  stamp: Type.String({ minLength: 1, description: 'A hash of all files.' }),
  name: Type.String({ minLength: 1, description: 'Name of a script, a style sheet or the icon.' }),
});

/** Responses of any content type. The types are for the OpenAPI document, not for the compiler. */
const assetResponses: Readonly<Record<number, unknown>> = {
  200: {
    description: 'The file.',
    headers: { etag: { description: 'The SHA-256 of the file.', type: 'string' } },
    content: Object.fromEntries(
      ['text/javascript', 'text/css', 'image/svg+xml'].map((type) => [type, { schema: Type.String() }]),
    ),
  },
  304: Type.Null({ description: 'The client has the current file.' }),
};

/** The catalogue page at `/` and the files that it loads. */
export function registerCatalogueRoutes(app: App, context: ServiceContext): void {
  const { archive, current, clock, version } = context;
  let cached: { readonly of: object; readonly damaged: string; readonly totals: Totals } | undefined;
  const totals = (): Totals => {
    requireLocalState(context);
    const manifest = current.getManifest();
    const damage = readFoundDamage(archive.state.db, manifest.parts);
    const damaged = [...damage.days].join();
    if (cached?.of !== manifest || cached.damaged !== damaged)
      cached = { of: manifest, damaged, totals: computeTotals(manifest, damage) };
    return cached.totals;
  };

  app.get(
    paths.catalogue,
    {
      config: { access: 'open' },
      schema: {
        summary: 'The catalogue page of the archive',
        description: 'Shows totals to everyone, and days, symbols, charts and files to holders of a market data key.',
        tags: ['operations'],
        security: [],
        response: { 200: { description: 'The page', content: { 'text/html': { schema: Type.String() } } } },
      },
    },
    async (_request, reply) =>
      reply
        .headers({ ...pageHeaders, 'cache-control': 'no-cache' })
        .type('text/html; charset=utf-8')
        .send(renderPageDocument(totals(), clock.nowMs(), `/assets/${loadAssets().stamp}`, version)),
  );

  app.get(
    '/assets/:stamp/:name',
    {
      config: { access: 'open' },
      schema: {
        summary: 'A file that the catalogue page loads',
        description: 'Cacheable forever under the stamp of the page; under another stamp it must be revalidated.',
        tags: ['operations'],
        security: [],
        params: AssetPath,
        response: assetResponses,
      },
    },
    async (request, reply) => {
      const { stamp, name } = request.params;
      const assets = loadAssets();
      const file = assets.files.get(name);
      if (file === undefined) throw new ProblemError(404, 'The page has no such file.');
      // A page of another version gets the current file and must not cache it under its own stamp.
      const cacheControl = stamp === assets.stamp ? `public, max-age=${yearSeconds}, immutable` : 'no-cache';
      reply.headers({ ...pageHeaders, etag: file.etag, 'cache-control': cacheControl });
      const etags = request.headers['if-none-match']?.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
      if (etags?.some((tag) => tag === file.etag || tag === '*')) return reply.code(304).send();
      return reply.type(file.type).send(file.bytes);
    },
  );
}
