import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  type Coding,
  type CompressBody,
  isTextType,
  listAcceptedTags,
  selectBodyCoding,
  selectCoding,
  toCodedTag,
} from './compress-response.ts';
import { addVary } from './problem-details.ts';
import { hasETag, toETag } from './send-file.ts';

/** A body that stays the same while the service runs. It is kept in memory with its coded forms. */
export interface StaticBody {
  /** The Content-Type. */
  readonly type: string;
  readonly bytes: Buffer;
  /** In hex. The ETag is derived from it. */
  readonly sha256: string;
  /** The coded forms that were requested so far. */
  readonly coded: Map<Coding, Promise<Buffer>>;
}

export function createStaticBody(type: string, content: string | Buffer): StaticBody {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  return { type, bytes, sha256: createHash('sha256').update(bytes).digest('hex'), coded: new Map() };
}

/** Sends a body with a strong ETag, or 304 if the client has it. Text is compressed once per coding. */
export async function sendStaticBody(
  request: FastifyRequest,
  reply: FastifyReply,
  body: StaticBody,
  compress: CompressBody,
): Promise<FastifyReply> {
  const choice = isTextType(body.type) ? selectCoding(request) : { coding: null, isRequired: false };
  if (isTextType(body.type)) addVary(reply, 'accept-encoding');
  const coding = selectBodyCoding(choice, body.bytes.length);
  const etags = request.headers['if-none-match'];
  const tags = coding === null ? [body.sha256] : listAcceptedTags(body.sha256, choice);
  const known = etags === undefined ? undefined : tags.find((tag) => hasETag(etags, tag, true));
  if (known !== undefined) return reply.code(304).header('etag', toETag(known)).send();
  const bytes = coding === null ? body.bytes : await loadCoded(body, coding, compress);
  if (coding !== null) reply.header('content-encoding', coding);
  return reply
    .header('etag', toETag(toCodedTag(body.sha256, coding)))
    .type(body.type)
    .send(bytes);
}

function loadCoded({ bytes, coded }: StaticBody, coding: Coding, compress: CompressBody): Promise<Buffer> {
  const known = coded.get(coding);
  if (known !== undefined) return known;
  const started = compress(coding, bytes);
  coded.set(coding, started);
  started.catch(() => coded.delete(coding));
  return started;
}
