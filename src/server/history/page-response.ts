import { hash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Manifest } from '../../archive/format/manifest.ts';
import { memoize } from '../../base/memoize.ts';
import { listAcceptedTags, selectCoding, toCodedTag } from '../http/compress-response.ts';
import { ProblemError } from '../http/problem-details.ts';
import type { ResponseCache } from '../http/response-cache.ts';
import { hasETag, toETag } from '../http/send-file.ts';
import type { KeyHolder } from '../workspace/owner.ts';
import type { HistoricalService } from './historical-service.ts';

/** A page is a function of the generation and the query: clients may cache it, but must revalidate. */
const cacheControl = 'private, no-cache';

interface PageRequest {
  readonly service: HistoricalService;
  readonly cache: ResponseCache;
  readonly holder: KeyHolder;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly signal: AbortSignal;
  readPage(signal: AbortSignal): Promise<object>;
}

/**
 * Sends a page of JSON that is determined by the generation and the query, from the cache if it is there. It has a strong
 * ETag. A client that names the current ETag in If-None-Match gets 304, for which nothing is read.
 */
export async function sendPage(page: PageRequest): Promise<FastifyReply> {
  const { service, cache, holder, request, reply, signal } = page;
  const { context } = service;
  const { 'if-match': match, 'if-none-match': noneMatch } = request.headers;
  const manifest = context.current.getManifest();
  const tag = digestPage(service, manifest, request);
  const choice = selectCoding(request);
  const accepted = listAcceptedTags(tag, choice);
  // A client that has the ETag got 200 for this query in this generation, so that the query is valid. `*` proves nothing.
  const known = match === undefined && noneMatch?.trim() !== '*' ? findTag(noneMatch, accepted) : undefined;
  if (known !== undefined) return sendNotModified(cache, reply, manifest.generation, known);

  const loaded = await cache.load({
    tag,
    choice,
    signal,
    holder: holder.id,
    semaphore: service.computeSemaphore,
    async read(shared) {
      const object = (await page.readPage(shared)) as { readonly generation: number };
      const { generation } = object;
      // If a publish intervened, the page is of the later generation.
      const current = context.current.getManifest();
      const isCurrent = generation === current.generation && generation > 0;
      return {
        tag: isCurrent ? digestPage(service, current, request) : null,
        generation,
        body: Buffer.from(JSON.stringify(object)),
      };
    },
  });
  const { generation, coding, body } = loaded;
  reply.header('oddslake-generation', generation);
  if (coding !== null) reply.header('content-encoding', coding);
  reply.type('application/json; charset=utf-8');
  if (loaded.tag === null) return reply.send(body);
  const current = toCodedTag(loaded.tag, coding);
  if (match !== undefined && match.trim() !== '*' && !hasETag(match, current, false))
    throw new ProblemError(412, 'The page has changed: its ETag is not in If-Match.');
  if (noneMatch !== undefined && hasETag(noneMatch, current, true))
    return sendNotModified(
      cache,
      reply.removeHeader('content-encoding').removeHeader('content-type'),
      generation,
      current,
    );
  return reply.headers({ etag: toETag(current), 'cache-control': cacheControl }).send(body);
}

const findTag = (header: string | undefined, tags: readonly string[]): string | undefined =>
  header === undefined ? undefined : tags.find((tag) => hasETag(header, tag, true));

function sendNotModified(cache: ResponseCache, reply: FastifyReply, generation: number, tag: string): FastifyReply {
  cache.countNotModified();
  return reply
    .code(304)
    .headers({
      etag: toETag(tag),
      'cache-control': cacheControl,
      'oddslake-generation': generation,
      vary: 'accept, accept-encoding',
    })
    .send();
}

/** Identifies the bytes of a page: generation, version of the service, its limits, route and query. */
function digestPage({ context }: HistoricalService, manifest: Manifest, request: FastifyRequest): string {
  const { ticksLimitMax, rowsLimitMax } = context.settings.service;
  // `format` selected JSON.
  const { format: _, ...query } = request.query as Readonly<Record<string, unknown>>;
  const parameters = Object.entries(query).sort(([a], [b]) => (a < b ? -1 : 1));
  const limits = [ticksLimitMax, rowsLimitMax];
  const identity = [digestContent(manifest), context.version, ...limits, request.routeOptions.url, parameters];
  return hash('sha256', JSON.stringify(identity), 'base64url').slice(0, 24);
}

/**
 * Identifies the published content. The generation number does not: an archive that is rebuilt or restored may reuse it.
 * The commit ID is left out, because a repair that restores the published bytes changes nothing else.
 */
const digestContent = memoize(({ commit_id: _, ...content }: Manifest): string =>
  hash('sha256', JSON.stringify(content), 'base64url'),
);
