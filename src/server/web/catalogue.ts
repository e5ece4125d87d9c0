import { Type } from 'typebox';
import { readFoundDamage } from '../../archive/known-state.ts';
import { paths } from '../../contract/paths.ts';
import type { App, ServiceContext } from '../http/context.ts';
import { ProblemError, requireLocalState } from '../http/problem-details.ts';
import { loadAssets } from './assets.ts';
import { computeTotals, renderPageDocument, type Totals } from './document.ts';

const yearSeconds = 31_536_000;

/** Nothing but our own: no inline script or style, no other host, in nobody's frame, and no form that sends anything. */
const pageHeaders = {
  'content-security-policy':
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
};

const AssetPath = Type.Object({
  stamp: Type.String({ minLength: 1, description: 'Changes with any byte of any file.' }),
  name: Type.String({ minLength: 1, description: 'A module of the client, a style sheet or the icon.' }),
});

/** Bytes, of whatever kind: their types are told to readers of the document, not to the compiler. */
const assetResponses: Readonly<Record<number, unknown>> = {
  200: {
    description: 'The file.',
    headers: { etag: { description: 'The sha256 of the file.', type: 'string' } },
    content: Object.fromEntries(
      ['text/javascript', 'text/css', 'image/svg+xml'].map((type) => [type, { schema: Type.String() }]),
    ),
  },
  304: Type.Null({ description: '`If-None-Match` names it as it is.' }),
};

/** The catalogue page at `/` and the files that it loads. */
export function registerCatalogueRoutes(app: App, context: ServiceContext): void {
  const { archive, current, clock, version } = context;
  let held: { readonly of: object; readonly damaged: string; readonly totals: Totals } | undefined;
  const totals = (): Totals => {
    requireLocalState(context);
    const manifest = current.getManifest();
    const damage = readFoundDamage(archive.state.db, manifest.parts);
    const damaged = [...damage.days].join();
    if (held?.of !== manifest || held.damaged !== damaged)
      held = { of: manifest, damaged, totals: computeTotals(manifest, damage) };
    return held.totals;
  };

  app.get(
    paths.catalogue,
    {
      config: { access: 'open' },
      schema: {
        summary: 'The catalogue page: what is in the archive',
        description: 'Totals for everybody; its client shows the rest to holders of a market data key.',
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
        description:
          'To be kept for good under the stamp that the page names; under another one it must be asked for anew.',
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
      // A page of another version may still ask under its own stamp: it gets today's file, and must not keep it.
      const kept = stamp === assets.stamp ? `public, max-age=${yearSeconds}, immutable` : 'no-cache';
      reply.headers({ ...pageHeaders, etag: file.etag, 'cache-control': kept });
      const known = request.headers['if-none-match']?.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
      if (known?.some((tag) => tag === file.etag || tag === '*')) return reply.code(304).send();
      return reply.type(file.type).send(file.bytes);
    },
  );
}
