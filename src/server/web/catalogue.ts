import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire, stripTypeScriptTypes } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { Type } from 'typebox';
import { commonStyle } from '../../base/html.ts';
import { paths } from '../../contract/paths.ts';
import { isPublicRequest, toRequestOrigin } from '../auth/public-access.ts';
import type { CompressBody } from '../http/compress-response.ts';
import { ProblemError, pageContentSecurityPolicy, requireLocalState } from '../http/problem-details.ts';
import { type App, readServiceFacts, type ServiceContext } from '../http/service-context.ts';
import { createStaticBody, type StaticBody, sendStaticBody } from '../http/static-body.ts';
import { computeTotals, renderPageDocument, sheets, type Totals } from './document.ts';

const yearSeconds = 31_536_000;

export const pageHeaders = { 'content-security-policy': pageContentSecurityPolicy };

const AssetPath = Type.Object({
  stamp: Type.String({ minLength: 1, description: 'A hash of all files.' }),
  name: Type.String({ minLength: 1, description: 'Name of a script, a style sheet or the icon.' }),
});

/** Maximum age of the totals on the page, in ms: they are read from the whole manifest, and everyone may request the page. */
const totalsMsMax = 10_000;

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
export function registerCatalogueRoutes(app: App, context: ServiceContext, compress: CompressBody): void {
  const { current, clock, version } = context;
  let cached: { readonly of: object; readonly atMs: number; readonly totals: Totals } | undefined;
  const readTotals = (nowMs: number): Totals => {
    requireLocalState(context);
    const manifest = current.getManifest();
    if (cached?.of !== manifest || Math.abs(nowMs - cached.atMs) >= totalsMsMax)
      cached = { of: manifest, atMs: nowMs, totals: computeTotals(manifest, readServiceFacts(context)) };
    return cached.totals;
  };

  app.get(
    paths.catalogue,
    {
      config: { access: 'open' },
      schema: {
        operationId: 'getCatalogue',
        summary: 'The catalogue page of the archive',
        description: 'Shows totals to everyone, and days, symbols, charts and files to holders of a market data key.',
        tags: ['operations'],
        response: { 200: { description: 'The page', content: { 'text/html': { schema: Type.String() } } } },
      },
    },
    async (request, reply) => {
      const nowMs = clock.nowMs();
      const { stamp, modules } = loadAssets();
      const isPublic = isPublicRequest(context.settings.service, toRequestOrigin(request));
      return reply
        .headers({ ...pageHeaders, 'cache-control': 'no-cache' })
        .type('text/html; charset=utf-8')
        .send(renderPageDocument(readTotals(nowMs), nowMs, `/assets/${stamp}`, version, isPublic, modules));
    },
  );

  app.get(
    '/assets/:stamp/:name',
    {
      config: { access: 'open' },
      schema: {
        operationId: 'getCatalogueFile',
        summary: 'A file that the catalogue page loads',
        description: 'Cacheable forever under the stamp of the page; under another stamp it must be revalidated.',
        tags: ['operations'],
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
      reply.headers({ ...pageHeaders, 'cache-control': cacheControl });
      return sendStaticBody(request, reply, file, compress);
    },
  );
}

interface Assets {
  readonly files: ReadonlyMap<string, StaticBody>;
  /** A hash of all files: a URL that contains it may be cached forever. */
  readonly stamp: string;
  /** Names of the scripts that the page's script imports. */
  readonly modules: readonly string[];
}

const mediaTypes: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml; charset=utf-8',
};

let cachedAssets: Assets | undefined;

/**
 * The files of the page: the client (built, or with its types stripped), the colours of every page, and the chart
 * library. They are read once, on first use: the files of a program do not change while it runs.
 */
export function loadAssets(): Assets {
  cachedAssets ??= readAssets();
  return cachedAssets;
}

function readAssets(): Assets {
  const uplot = join(dirname(createRequire(import.meta.url).resolve('uplot/package.json')), 'dist');
  const contents = new Map<string, Buffer>([
    ...readClientFiles(),
    ['uplot.js', readFileSync(join(uplot, 'uPlot.esm.js'))],
    ['uplot.css', readFileSync(join(uplot, 'uPlot.min.css'))],
    ['common.css', Buffer.from(commonStyle)],
  ]);
  // One file: the first paint waits for every sheet, and a browser has six connections.
  contents.set(
    'catalogue.css',
    Buffer.from(sheets.map((name) => contents.get(`${name}.css`)!.toString('utf8')).join('\n')),
  );
  const files = new Map<string, StaticBody>(
    [...contents].map(([name, bytes]) => [name, createStaticBody(mediaTypes[name.split('.').at(-1)!]!, bytes)]),
  );
  const stamp = hashContent([...files].map(([name, { sha256 }]) => name + sha256).join('\n')).slice(0, 16);
  const modules = [...files.keys()].filter(
    (name) => name.endsWith('.js') && !['main.js', 'docs.js', 'first-view.js'].includes(name),
  );
  return { files, stamp, modules };
}

/** Modules of src/base that the client imports. The build writes them beside those of the client. */
const sharedModules = ['binary-search.ts', 'evidence.ts', 'format-quantity.ts', 'window.ts'];

/** The files of the client: those that the build has written, or in a checkout the sources with their types stripped. */
export function readClientFiles(): [name: string, bytes: Buffer][] {
  const folder = join(import.meta.dirname, 'client');
  const names = readdirSync(folder).filter((name) => /^[a-z-]+\.(ts|js|css|svg)$/.test(name));
  const shared = sharedModules.map((name) => join(import.meta.dirname, '../../base', name)).filter(existsSync);
  return [...names.map((name) => join(folder, name)), ...shared].map((path) => [
    basename(path).replace(/\.ts$/, '.js'),
    readContent(path),
  ]);
}

function readContent(path: string): Buffer {
  const bytes = readFileSync(path);
  if (!path.endsWith('.ts')) return bytes;
  const text = stripTypeScriptTypes(bytes.toString('utf8'));
  return Buffer.from(text.replace(/(\bfrom\s*')[./]+(?:base\/)?([a-z-]+)\.ts'/g, "$1./$2.js'"));
}

const hashContent = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex');
