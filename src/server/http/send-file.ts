import { type IncomingHttpHeaders, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { OpenedFile } from '../../archive/read/verified-files.ts';
import type { Random } from '../../base/ports.ts';
import { parseHttpDate } from '../../client/classify-error.ts';
import { generateRandomId } from '../workspace/tables.ts';
import { ProblemError } from './problem-details.ts';

/** A file to send byte for byte. */
interface FileToSend {
  readonly bytes: number;
  /** Hex. */
  readonly sha256: string;
  readonly type: string;
  /** File name for saving; by default the last segment of the URL. */
  readonly name?: string;
  open(): Promise<OpenedFile>;
}

/** The file may be replaced at any time: clients may cache it, but must revalidate. */
const cacheControl = 'private, no-cache, no-transform';

/** Responds to GET or HEAD for a file; supports HTTP preconditions and ranges (RFC 9110, sections 13 and 14). */
export async function sendFile(
  file: FileToSend,
  request: FastifyRequest,
  reply: FastifyReply,
  random: Random,
): Promise<FastifyReply> {
  const { headers, method } = request;
  // Evaluate conditions on the ETag without opening the file: mirrors send thousands of them.
  const early = sendWithoutBody(file, evaluatePreconditions(headers, file.sha256, null), reply);
  if (early !== null) return early;
  const opened = await file.open();
  reply.raw.once('close', () => opened.close());
  // The close event has already passed if the client disconnected.
  if (reply.raw.destroyed) opened.close();
  const { modifiedMs } = opened;
  const late = sendWithoutBody(
    file,
    modifiedMs === null ? 'send' : evaluatePreconditions(headers, file.sha256, modifiedMs),
    reply,
  );
  if (late !== null) return late;
  const isRanged = method === 'GET' && allowsRange(headers['if-range'], file.sha256);
  const ranges = isRanged ? parseByteRanges(headers.range, file.bytes) : 'none';
  if (ranges === 'unsatisfiable') {
    throw new ProblemError(416, `The range is outside the file, which has ${file.bytes} bytes.`, {
      headers: { 'content-range': `bytes */${file.bytes}`, 'accept-ranges': 'bytes' },
    });
  }
  reply.headers({
    etag: toETag(file.sha256),
    'cache-control': cacheControl,
    'accept-ranges': 'bytes',
    'repr-digest': `sha-256=:${Buffer.from(file.sha256, 'hex').toString('base64')}:`,
    ...(modifiedMs === null ? {} : { 'last-modified': new Date(modifiedMs).toUTCString() }),
    ...(file.name === undefined ? {} : { 'content-disposition': `attachment; filename="${file.name}"` }),
  });
  const parts = ranges === 'none' ? [toWholeRange(file)] : ranges;
  if (ranges !== 'none') reply.code(206);
  if (parts.length > 1) return sendMultipartRanges(file, opened, parts, reply, random);
  const { first, last } = parts[0]!;
  if (ranges !== 'none') reply.header('content-range', formatContentRange(file, parts[0]!));
  reply.type(file.type).header('content-length', last - first + 1);
  if (method === 'HEAD') return reply.send();
  if (opened.bytes !== null) return reply.send(opened.bytes.subarray(first, last + 1));
  return reply.send(new FileStream(opened, parts));
}

function sendWithoutBody(
  file: FileToSend,
  outcome: ReturnType<typeof evaluatePreconditions>,
  reply: FastifyReply,
): FastifyReply | null {
  if (outcome === 'failed')
    throw new ProblemError(412, 'The file was replaced by a newer one. Start again with the new file.');
  if (outcome === 'send') return null;
  return reply
    .code(304)
    .headers({ etag: toETag(file.sha256), 'cache-control': cacheControl })
    .send();
}

const toWholeRange = ({ bytes }: FileToSend): ByteRange => ({ first: 0, last: bytes - 1 });

const formatContentRange = ({ bytes }: FileToSend, { first, last }: ByteRange): string =>
  `bytes ${first}-${last}/${bytes}`;

/** Sends several ranges as multipart/byteranges. */
function sendMultipartRanges(
  file: FileToSend,
  opened: OpenedFile,
  ranges: readonly ByteRange[],
  reply: FastifyReply,
  random: Random,
): FastifyReply {
  const boundary = `part-${generateRandomId(random)}${generateRandomId(random)}${generateRandomId(random)}`;
  const heads = ranges.map((range, i) =>
    Buffer.from(
      `${i === 0 ? '' : '\r\n'}--${boundary}\r\nContent-Type: ${file.type}\r\nContent-Range: ${formatContentRange(file, range)}\r\n\r\n`,
    ),
  );
  const end = Buffer.from(`\r\n--${boundary}--\r\n`);
  const segments = [...ranges.flatMap((range, i) => [heads[i]!, range]), end];
  const length = ranges.reduce((sum, { first, last }, i) => sum + heads[i]!.length + last - first + 1, end.length);
  return reply
    .type(`multipart/byteranges; boundary=${boundary}`)
    .header('content-length', length)
    .send(new FileStream(opened, segments));
}

/** Bytes from `first` to `last`, both inclusive, as in HTTP. */
interface ByteRange {
  readonly first: number;
  readonly last: number;
}

/** Maximum number of ranges in a response; beyond it, or if they sum to more than the file, the whole file is sent. */
const rangesMax = 8;

/**
 * Parses a Range header (RFC 9110, section 14) for a file of `size` bytes. Returns the ranges inside the file, at least
 * one, in the order of the header; `none`, to send the whole file, if the header is absent or malformed, has another
 * unit or exceeds the limits; `unsatisfiable` if all ranges are outside the file.
 */
function parseByteRanges(header: string | undefined, size: number): readonly ByteRange[] | 'none' | 'unsatisfiable' {
  const [, set] = /^bytes=(.*)$/i.exec(header ?? '') ?? [];
  if (set === undefined) return 'none';
  // One more than the maximum is enough to detect too many; the rest of a long list is ignored.
  const specs = set.split(',', rangesMax + 1).map((spec) => /^[ \t]*(\d*)-(\d*)[ \t]*$/.exec(spec));
  if (specs.length > rangesMax) return 'none';
  const ranges: ByteRange[] = [];
  for (const spec of specs) {
    const [, from = '', to = ''] = spec ?? [];
    const isSuffix = from === '';
    if ((isSuffix && to === '') || (!isSuffix && to !== '' && Number(from) > Number(to))) return 'none';
    const first = isSuffix ? Math.max(0, size - Number(to)) : Number(from);
    const last = isSuffix || to === '' ? size - 1 : Math.min(size - 1, Number(to));
    if (first <= last) ranges.push({ first, last });
  }
  if (ranges.length === 0) return 'unsatisfiable';
  return countRangeBytes(ranges) > size ? 'none' : ranges;
}

const countRangeBytes = (ranges: readonly ByteRange[]): number =>
  ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0);

type PreconditionOutcome = 'send' | 'not-modified' | 'failed';

/**
 * Evaluates the conditions of a GET or HEAD (RFC 9110, section 13.2.2) for a file with this SHA-256 as its ETag.
 * If `modifiedMs` is null, the modification time is not known yet: conditions on it count as met, and if the result is
 * `send`, the conditions must be evaluated again with the time.
 */
function evaluatePreconditions(
  headers: IncomingHttpHeaders,
  sha256: string,
  modifiedMs: number | null,
): PreconditionOutcome {
  const match = headers['if-match'];
  const noneMatch = headers['if-none-match'];
  if (match !== undefined) {
    if (!hasETag(match, sha256, false)) return 'failed';
  } else {
    const unmodifiedSince = parseHttpDate(headers['if-unmodified-since'] ?? '');
    if (unmodifiedSince !== undefined && modifiedMs === null) return 'send';
    if (unmodifiedSince !== undefined && isModifiedAfter(modifiedMs!, unmodifiedSince)) return 'failed';
  }
  if (noneMatch !== undefined) return hasETag(noneMatch, sha256, true) ? 'not-modified' : 'send';
  const modifiedSince = parseHttpDate(headers['if-modified-since'] ?? '');
  if (modifiedSince === undefined || modifiedMs === null) return 'send';
  return isModifiedAfter(modifiedMs, modifiedSince) ? 'send' : 'not-modified';
}

/**
 * Whether If-Range allows a Range. A date never does: two versions may have been modified in the same second, and a
 * client would combine parts of both.
 */
const allowsRange = (ifRange: string | string[] | undefined, sha256: string): boolean =>
  ifRange === undefined || (typeof ifRange === 'string' && ifRange.trim() === toETag(sha256));

/** The strong ETag of content with this SHA-256. */
export const toETag = (sha256: string): string => `"${sha256}"`;

/** Whether a list of ETags, or `*`, contains the one of a SHA-256; `weakly` also matches weak ones. */
export function hasETag(list: string, sha256: string, weakly: boolean): boolean {
  if (list.trim() === '*') return true;
  const tags = [...list.matchAll(/(W\/)?("[\x21\x23-\x7e\x80-\xff]*")/g)];
  return tags.some(([, weak, tag]) => tag === toETag(sha256) && (weakly || weak === undefined));
}

/** HTTP dates are in whole seconds. */
const isModifiedAfter = (modifiedMs: number, sinceMs: number): boolean =>
  Math.floor(modifiedMs / 1000) > Math.floor(sinceMs / 1000);

/** Size of one read, and the maximum number of buffers per response. */
const chunkBytes = 256 * 1024;
const chunksMax = 4;

/** Concurrent reads per response; with a single one the socket would sometimes wait. */
const readsConcurrentMax = 2;

/** A stream of byte arrays and ranges of an open file. Supports only `pipe`. */
class FileStream extends Readable {
  private readonly opened: OpenedFile;
  private readonly segments: readonly (Uint8Array | ByteRange)[];
  private readonly buffers = new BufferPool();

  constructor(opened: OpenedFile, segments: readonly (Uint8Array | ByteRange)[]) {
    super();
    this.opened = opened;
    this.segments = segments;
    this.once('close', () => this.buffers.end());
  }

  override _read(): void {}

  /** Reuses a buffer once the socket has written it: allocating one per chunk would take more than half of the time. */
  override pipe<T extends NodeJS.WritableStream>(to: T, options?: { end?: boolean }): T {
    void this.pump(to).then(
      () => {
        if (options?.end !== false && !this.destroyed) to.end();
        this.push(null);
        this.resume();
      },
      (error: Error) => this.destroy(error),
    );
    return to;
  }

  private async pump(to: NodeJS.WritableStream): Promise<void> {
    const { bytes } = this.opened;
    for (const segment of this.segments) {
      if (this.destroyed) return;
      if (segment instanceof Uint8Array) to.write(segment);
      else if (bytes !== null) to.write(bytes.subarray(segment.first, segment.last + 1));
      else await this.pumpRange(to, segment);
    }
  }

  private async pumpRange(to: NodeJS.WritableStream, { first, last }: ByteRange): Promise<void> {
    const reads: Promise<Buffer>[] = [];
    let at = first;
    const readOn = (): void => {
      for (; at <= last && reads.length < readsConcurrentMax; at += chunkBytes) {
        const read = this.fill(at, Math.min(chunkBytes, last + 1 - at));
        // The first failure is reported; later reads are not awaited.
        read.catch(() => {});
        reads.push(read);
      }
    };
    for (readOn(); reads.length > 0; ) {
      const chunk = await reads.shift()!;
      readOn();
      if (this.destroyed) return;
      const release = (): void => this.buffers.release(chunk);
      // Streams other than a response may keep the buffer they were given.
      to.write(to instanceof ServerResponse ? chunk : Buffer.from(chunk), release);
    }
  }

  /** A buffer with `length` bytes from `at`. */
  private async fill(at: number, length: number): Promise<Buffer> {
    const chunk = (await this.buffers.acquire()).subarray(0, length);
    for (let filled = 0; filled < length; ) filled += await this.opened.read(chunk.subarray(filled), at + filled);
    return chunk;
  }
}

/** A pool of reusable buffers. */
class BufferPool {
  private readonly free: Buffer[] = [];
  private allocatedCount = 0;
  private readonly waiting: PromiseWithResolvers<Buffer>[] = [];
  private isEnded = false;

  /** Serves requests in order: the chunk to send next must not wait for a later one. */
  acquire(): Promise<Buffer> {
    if (this.isEnded) return Promise.reject(new Error('The client disconnected.'));
    const free = this.free.pop();
    if (free !== undefined) return Promise.resolve(free);
    if (this.allocatedCount < chunksMax) {
      this.allocatedCount++;
      return Promise.resolve(Buffer.allocUnsafeSlow(chunkBytes));
    }
    const waiter = Promise.withResolvers<Buffer>();
    this.waiting.push(waiter);
    return waiter.promise;
  }

  /** @param piece an acquired buffer, or the beginning of one */
  release(chunk: Buffer): void {
    const buffer = Buffer.from(chunk.buffer);
    const waiter = this.waiting.shift();
    if (waiter === undefined) this.free.push(buffer);
    else waiter.resolve(buffer);
  }

  end(): void {
    this.isEnded = true;
    for (const waiter of this.waiting.splice(0)) waiter.reject(new Error('The client disconnected.'));
  }
}
