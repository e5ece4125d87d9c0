import { pipeline, type Readable, type Transform } from 'node:stream';
import { promisify } from 'node:util';
import {
  brotliCompress,
  constants,
  createBrotliCompress,
  createGzip,
  createZstdCompress,
  gzip,
  zstdCompress,
} from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import Negotiator from 'negotiator';
import { createFairSemaphore } from './fair-semaphore.ts';
import { addVary } from './problem-details.ts';

// Own code instead of @fastify/compress, which sends every body as a stream without a Content-Length, leaves a strong
// ETag the same for all codings, and cannot compress bodies for a cache.

/** A content coding of responses. */
export type Coding = 'zstd' | 'br' | 'gzip';

/** In order of preference among those that the client likes equally. */
const codings: readonly Coding[] = ['zstd', 'br', 'gzip'];

/** The codings that a client accepts. */
interface CodingChoice {
  /** The best coding; null to send the body as it is. */
  readonly coding: Coding | null;
  /** Whether the client refuses bodies without a coding, and accepts `coding`. */
  readonly isRequired: boolean;
}

type EncodingsOf = (available: readonly string[], options: { readonly preferred: readonly string[] }) => string[];

/** Clients send few different headers; longer ones are parsed each time. */
const choices = new LRUCache<string, CodingChoice>({ max: 100 });
const memorizedCharsMax = 100;

/**
 * Selects the coding of a response by Accept-Encoding (RFC 9110, section 12.5.3). A client that accepts nothing that the
 * service has gets the body without a coding, as section 12.4.1 allows.
 */
export function selectCoding({ headers }: Pick<FastifyRequest, 'headers'>): CodingChoice {
  const accepted = headers['accept-encoding'];
  if (accepted === undefined) return noCoding;
  const known = choices.get(accepted);
  if (known !== undefined) return known;
  const negotiator = new Negotiator({ headers: { 'accept-encoding': accepted } });
  // The types of the package lack the second parameter, which orders codings of the same quality.
  const accepts: string[] = (negotiator.encodings as EncodingsOf).call(negotiator, [...codings, 'identity'], {
    preferred: codings,
  });
  const best = accepts[0] as Coding | 'identity' | undefined;
  const choice =
    best === undefined || best === 'identity' ? noCoding : { coding: best, isRequired: !accepts.includes('identity') };
  if (accepted.length <= memorizedCharsMax) choices.set(accepted, choice);
  return choice;
}

const noCoding: CodingChoice = { coding: null, isRequired: false };

/** Media types that are compressed. Columnar files contain compressed pages already. */
const textTypes = new Set([
  'application/javascript',
  'application/json',
  'application/problem+json',
  'application/x-ndjson',
  'image/svg+xml',
  'text/css',
  'text/csv',
  'text/html',
  'text/javascript',
  'text/plain',
]);

export const isTextType = (type: unknown): boolean =>
  typeof type === 'string' && textTypes.has(type.split(';', 1)[0]!.trim());

/** Shorter bodies fit into one packet anyway. */
const bytesMin = 1024;

/** The coding for a body of this size; null to send it as it is. */
export const selectBodyCoding = ({ coding, isRequired }: CodingChoice, bytes: number): Coding | null =>
  bytes >= bytesMin || isRequired ? coding : null;

/** The ETag of a representation: a strong ETag differs between codings. @param tag without quotes */
export const toCodedTag = (tag: string, coding: Coding | null): string => (coding === null ? tag : `${tag}-${coding}`);

/**
 * The ETags that a client may have of the current content, as it accepts them now: with the chosen coding, and without
 * one, as short bodies are sent. @param tag without quotes
 */
export const listAcceptedTags = (tag: string, { coding, isRequired }: CodingChoice): readonly string[] =>
  coding === null ? [tag] : isRequired ? [toCodedTag(tag, coding)] : [toCodedTag(tag, coding), tag];

// By bench/compression.ts: 2 to 8 ms per MB. Higher levels take up to twice as long and save less than 5 percent.
const zstdParams = { [constants.ZSTD_c_compressionLevel]: 1 };
const brotliParams = { [constants.BROTLI_PARAM_QUALITY]: 3, [constants.BROTLI_PARAM_LGWIN]: 19 };
const gzipLevel = 4;

const zstdAsync = promisify(zstdCompress);
const brotliAsync = promisify(brotliCompress);
const gzipAsync = promisify(gzip);

const compressors: Readonly<Record<Coding, (bytes: Uint8Array) => Promise<Buffer>>> = {
  zstd: (bytes) => zstdAsync(bytes, { params: zstdParams, pledgedSrcSize: bytes.length }),
  br: (bytes) => brotliAsync(bytes, { params: { ...brotliParams, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } }),
  gzip: (bytes) => gzipAsync(bytes, { level: gzipLevel }),
};

/** Compresses a body outside the main thread. */
export type CompressBody = (coding: Coding, bytes: Uint8Array) => Promise<Buffer>;

/** Bodies compressed at once. Each takes up to some megabytes, however many connections wait. */
const concurrentMax = 2;

export function createBodyCompressor(): CompressBody {
  const semaphore = createFairSemaphore(concurrentMax, 0);
  const never = new AbortController().signal;
  return async (coding, bytes) => {
    using _permit = await semaphore.acquire(never, false);
    return await compressors[coding](bytes);
  };
}

/**
 * The onSend hook that compresses text bodies which are in memory and have no coding yet. A strong ETag becomes that of
 * the coded body. Bodies with `no-transform` stay byte for byte, and streams as they are.
 */
export const createCompressionHook =
  (compress: CompressBody) =>
  async (request: FastifyRequest, reply: FastifyReply, payload: unknown): Promise<unknown> => {
    if (!isTextType(reply.getHeader('content-type'))) return payload;
    if (String(reply.getHeader('cache-control')).includes('no-transform')) return payload;
    addVary(reply, 'accept-encoding');
    if (request.headers['accept-encoding'] === undefined || reply.hasHeader('content-encoding')) return payload;
    if (reply.statusCode === 206 || !(typeof payload === 'string' || payload instanceof Uint8Array)) return payload;
    const bytes = typeof payload === 'string' ? Buffer.from(payload) : payload;
    const coding = selectBodyCoding(selectCoding(request), bytes.length);
    if (coding === null) return payload;
    const coded = await compress(coding, bytes);
    const tag = /^"(.*)"$/.exec(String(reply.getHeader('etag') ?? ''))?.[1];
    if (tag !== undefined) reply.header('etag', `"${toCodedTag(tag, coding)}"`);
    reply.header('content-encoding', coding).removeHeader('content-length');
    return coded;
  };

const chunkBytes = 64 * 1024;

/** Flushes after every write, so that rows arrive when they are computed. The chunks of a file are large. */
const createStreamCompressor: Readonly<Record<Coding, () => Transform>> = {
  zstd: () => createZstdCompress({ params: zstdParams, flush: constants.ZSTD_e_flush, chunkSize: chunkBytes }),
  br: () =>
    createBrotliCompress({ params: brotliParams, flush: constants.BROTLI_OPERATION_FLUSH, chunkSize: chunkBytes }),
  gzip: () => createGzip({ level: gzipLevel, flush: constants.Z_SYNC_FLUSH, chunkSize: chunkBytes }),
};

/**
 * Compresses the stream of a text, if the client accepts that, and sets the header. An error of the stream is one of the
 * result, and destroying the result destroys the stream.
 * @param createStream not called for HEAD, which has the same headers
 */
export function compressStream(
  request: FastifyRequest,
  reply: FastifyReply,
  createStream: () => Readable,
): Readable | null {
  const { coding } = isTextType(reply.getHeader('content-type')) ? selectCoding(request) : noCoding;
  if (coding !== null) reply.header('content-encoding', coding);
  if (request.method === 'HEAD') return null;
  const stream = createStream();
  if (coding === null) return stream;
  // `pipeline` destroys both; the caller handles the error of the result.
  return pipeline(stream, createStreamCompressor[coding](), () => {});
}
