import { type IncomingHttpHeaders, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { OpenedFile } from '../../archive/read/verified-files.ts';
import type { Random } from '../../base/ports.ts';
import { ProblemError } from './problem-details.ts';

/** What is sent, byte for byte. */
export interface FileToSend {
  readonly bytes: number;
  /** In hex. */
  readonly sha256: string;
  readonly type: string;
  /** How it is to be called where it is saved; by default as its address ends. */
  readonly name?: string;
  open(): Promise<OpenedFile>;
}

/** It may be replaced under its name at any time: kept, but asked about before it is used. */
const cacheControl = 'private, no-cache, no-transform';

/** Answers GET or HEAD of a file with all of HTTP's conditions and ranges (RFC 9110, sections 13 and 14). */
export async function sendFile(
  file: FileToSend,
  request: FastifyRequest,
  reply: FastifyReply,
  random: Random,
): Promise<FastifyReply> {
  const { headers, method } = request;
  // Conditions on the tag need no look at the file: mirrors ask for thousands of them.
  const early = sendWithoutBody(file, evaluatePreconditions(headers, file.sha256, null), reply);
  if (early !== null) return early;
  const opened = await file.open();
  reply.raw.once('close', () => opened.close());
  // Whoever is gone already closes no more.
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
    throw new ProblemError(416, `The file has ${file.bytes} bytes, and none of them is in the range.`, {
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
  verdict: ReturnType<typeof evaluatePreconditions>,
  reply: FastifyReply,
): FastifyReply | null {
  if (verdict === 'failed')
    throw new ProblemError(412, 'The file is another one by now: it was published again. Begin anew with the new one.');
  if (verdict === 'send') return null;
  return reply
    .code(304)
    .headers({ etag: toETag(file.sha256), 'cache-control': cacheControl })
    .send();
}

const toWholeRange = ({ bytes }: FileToSend): ByteRange => ({ first: 0, last: bytes - 1 });

const formatContentRange = ({ bytes }: FileToSend, { first, last }: ByteRange): string =>
  `bytes ${first}-${last}/${bytes}`;

/** Several ranges, as multipart/byteranges. */
function sendMultipartRanges(
  file: FileToSend,
  opened: OpenedFile,
  ranges: readonly ByteRange[],
  reply: FastifyReply,
  random: Random,
): FastifyReply {
  const word = (): string =>
    Math.floor(random() * 36 ** 10)
      .toString(36)
      .padStart(10, '0');
  const boundary = `part-${word()}${word()}${word()}`;
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

/** Bytes from `first` to `last`, both included, as HTTP counts them. */
export interface ByteRange {
  readonly first: number;
  readonly last: number;
}

/** Ranges that one answer gives; whoever asks for more gets the whole, as does who asks for more bytes than there are. */
export const rangesMax = 8;

/**
 * What a Range header (RFC 9110, section 14) asks of `size` bytes: ranges inside of them, at least one, in the order
 * asked; `none` where the whole is to be sent, as the header is absent, of another unit, not well-formed, or too much;
 * `unsatisfiable` where all of it lies outside.
 */
export function parseByteRanges(
  header: string | undefined,
  size: number,
): readonly ByteRange[] | 'none' | 'unsatisfiable' {
  const [, set] = /^bytes=(.*)$/i.exec(header ?? '') ?? [];
  if (set === undefined) return 'none';
  // One more than is taken tells that there are too many; the rest of a long list is not looked at.
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

/** Bytes of all of them together. */
export const countRangeBytes = (ranges: readonly ByteRange[]): number =>
  ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0);

export type PreconditionOutcome = 'send' | 'not-modified' | 'failed';

/**
 * What the conditions of a GET or HEAD come to (RFC 9110, section 13.2.2), for what has this sha256 as its tag.
 * `modifiedMs` null: nobody has looked yet, and conditions on time count as met, so that `send` is to be asked again.
 */
export function evaluatePreconditions(
  headers: IncomingHttpHeaders,
  sha256: string,
  modifiedMs: number | null,
): PreconditionOutcome {
  const match = headers['if-match'];
  const noneMatch = headers['if-none-match'];
  if (match !== undefined) {
    if (!hasETag(match, sha256, false)) return 'failed';
  } else {
    const unmodifiedSince = parseHttpDate(headers['if-unmodified-since']);
    if (unmodifiedSince !== null && modifiedMs === null) return 'send';
    if (unmodifiedSince !== null && toSeconds(modifiedMs!) > unmodifiedSince) return 'failed';
  }
  if (noneMatch !== undefined) return hasETag(noneMatch, sha256, true) ? 'not-modified' : 'send';
  const modifiedSince = parseHttpDate(headers['if-modified-since']);
  if (modifiedSince === null || modifiedMs === null) return 'send';
  return toSeconds(modifiedMs) <= modifiedSince ? 'not-modified' : 'send';
}

/**
 * Whether If-Range lets a Range count. A date never does: two versions can be of one second, and parts of both would be
 * put together.
 */
export const allowsRange = (ifRange: string | string[] | undefined, sha256: string): boolean =>
  ifRange === undefined || (typeof ifRange === 'string' && ifRange.trim() === toETag(sha256));

/** The strong entity tag of what has this hash. */
export const toETag = (sha256: string): string => `"${sha256}"`;

/** Whether a list of tags, or `*`, names this one; weak tags count where `weakly`. */
function hasETag(list: string, sha256: string, weakly: boolean): boolean {
  if (list.trim() === '*') return true;
  const tags = [...list.matchAll(/(W\/)?("[\x21\x23-\x7e\x80-\xff]*")/g)];
  return tags.some(([, weak, tag]) => tag === toETag(sha256) && (weakly || weak === undefined));
}

const httpDatePattern = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} (\w{3}) \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** Epoch seconds of a date as HTTP writes it; null for any other text, which is to be passed over. */
function parseHttpDate(text: string | undefined): number | null {
  const ms = text !== undefined && httpDatePattern.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? null : toSeconds(ms);
}

const toSeconds = (ms: number): number => Math.floor(ms / 1000);

/** Bytes that are read at once, and how many such buffers one reader may have in use. */
const chunkBytes = 256 * 1024;
const chunksMax = 4;

/** Reads under way for one reader: with one, the socket waits for it now and then. */
const readsConcurrentMax = 2;

/** Texts and ranges of an open file one after the other, as a stream that can be piped only. */
export class FileStream extends Readable {
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

  /**
   * A buffer is filled again once the socket has let go of it: new ones for every piece would cost more than half of the
   * time.
   */
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
        // Whoever fails first is told of; the ones behind it are not waited for.
        read.catch(() => {});
        reads.push(read);
      }
    };
    for (readOn(); reads.length > 0; ) {
      const piece = await reads.shift()!;
      readOn();
      if (this.destroyed) return;
      const give = (): void => this.buffers.release(piece);
      // Any other stream may hold on to what it was given.
      to.write(to instanceof ServerResponse ? piece : Buffer.from(piece), give);
    }
  }

  /** A buffer with the `length` bytes from `at` on. */
  private async fill(at: number, length: number): Promise<Buffer> {
    const piece = (await this.buffers.acquire()).subarray(0, length);
    for (let filled = 0; filled < length; ) filled += await this.opened.read(piece.subarray(filled), at + filled);
    return piece;
  }
}

/** Buffers that go round. */
class BufferPool {
  private readonly free: Buffer[] = [];
  private allocatedCount = 0;
  private readonly waiting: PromiseWithResolvers<Buffer>[] = [];
  private isEnded = false;

  /** Those who wait are served in their order: the piece that is sent next must not wait for one behind it. */
  acquire(): Promise<Buffer> {
    if (this.isEnded) return Promise.reject(new Error('The reader is gone.'));
    const held = this.free.pop();
    if (held !== undefined) return Promise.resolve(held);
    if (this.allocatedCount < chunksMax) {
      this.allocatedCount++;
      return Promise.resolve(Buffer.allocUnsafeSlow(chunkBytes));
    }
    const one = Promise.withResolvers<Buffer>();
    this.waiting.push(one);
    return one.promise;
  }

  /** @param piece a taken buffer, or its beginning */
  release(piece: Buffer): void {
    const buffer = Buffer.from(piece.buffer);
    const one = this.waiting.shift();
    if (one === undefined) this.free.push(buffer);
    else one.resolve(buffer);
  }

  end(): void {
    this.isEnded = true;
    for (const one of this.waiting.splice(0)) one.reject(new Error('The reader is gone.'));
  }
}
