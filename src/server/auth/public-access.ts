import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { Settings } from '../../settings/settings.ts';

/** What decides whether a request without a key may read the catalogue. Headers are those of the client, unchecked. */
export interface RequestOrigin {
  /** Address of the other end of the connection, not what a proxy says. */
  readonly remoteAddress: string | undefined;
  readonly httpVersion: string;
  readonly headers: IncomingHttpHeaders;
}

export type AccessSettings = Pick<Settings['service'], 'publicCatalogue' | 'host'>;

/**
 * Whether the catalogue may be open to requests without a key at all. With `auto`, the service must listen on a loopback
 * address; `isPublicRequest` decides about each request.
 */
export const isCataloguePublic = ({ publicCatalogue, host }: AccessSettings): boolean =>
  publicCatalogue === 'auto' ? isLoopbackName(host) : publicCatalogue;

/**
 * Whether a request needs no key to read the catalogue. With `auto`, it must come from this machine to a name of this
 * machine, and not through a proxy. The Host check refuses pages of other sites whose name was pointed to 127.0.0.1
 * (DNS rebinding); a reverse proxy on this machine gives itself away by the headers that it adds, or by HTTP/1.0.
 */
export function isPublicRequest(
  settings: AccessSettings,
  { remoteAddress, httpVersion, headers }: RequestOrigin,
): boolean {
  if (!isCataloguePublic(settings)) return false;
  if (settings.publicCatalogue !== 'auto') return true;
  return (
    httpVersion === '1.1' &&
    isLoopbackAddress(remoteAddress ?? '') &&
    isLoopbackName(parseHostName(headers.host ?? '')) &&
    !Object.keys(headers).some((name) => proxyHeaderPattern.test(name)) &&
    !isFromAnotherSite(headers)
  );
}

/** The origin of a request of the service. */
export const toRequestOrigin = ({ raw }: FastifyRequest): RequestOrigin => ({
  remoteAddress: raw.socket.remoteAddress,
  httpVersion: raw.httpVersion,
  headers: raw.headers,
});

/** Headers that proxies add, in lower case as Node gives them. */
const proxyHeaderPattern =
  /^(forwarded|via|x-forwarded(-.*)?|x-real-ip|x-client-ip|x-cluster-client-ip|x-original-.*|x-envoy-.*|x-proxy.*|true-client-ip|cf-.*|fastly-.*|cdn-loop)$/;

/**
 * Whether a script of another site sends the request. It could not read the response, but it could measure it. A person
 * who follows a link from another site is welcome.
 */
function isFromAnotherSite(headers: IncomingHttpHeaders): boolean {
  const {
    'sec-fetch-site': site = 'none',
    'sec-fetch-mode': mode,
    'sec-fetch-dest': destination,
    origin,
    host,
  } = headers;
  if (origin !== undefined && origin !== `http://${host}`) return true;
  if (site === 'same-origin' || site === 'none') return false;
  return mode !== 'navigate' || destination !== 'document';
}

/** The host of a Host header without the port; an empty text if it is malformed. */
const parseHostName = (host: string): string => /^(\[[0-9a-f:.]+\]|[^:[\]]+)(:\d{1,5})?$/i.exec(host)?.[1] ?? '';

/** Whether a host name or address can only mean this machine. */
function isLoopbackName(name: string): boolean {
  const bare = name.toLowerCase().replace(/^\[(.*)\]$/, '$1');
  return bare === 'localhost' || isLoopbackAddress(bare);
}

function isLoopbackAddress(address: string): boolean {
  const bare = address.replace(/^::ffff:(?=\d+\.)/i, '');
  // isIP accepts four decimal parts only, so that 127.1 or 0x7f.0.0.1 are no addresses here.
  return (isIP(bare) === 4 && bare.startsWith('127.')) || bare === '::1';
}
