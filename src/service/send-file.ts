import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Random } from '../core/clock.ts';
import type { OpenedFile } from '../reading/files/verified-files.ts';
import { type ByteRange, parseByteRanges } from './byte-ranges.ts';
import { allowsRange, evaluatePreconditions, toETag } from './conditional-requests.ts';
import { FileStream } from './file-stream.ts';
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
