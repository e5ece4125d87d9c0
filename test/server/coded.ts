import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';
import type { Serving } from './serving.ts';

// Requests whose responses are not decoded, unlike those of fetch.

const decoders = { zstd: zstdDecompressSync, br: brotliDecompressSync, gzip: gunzipSync } as const;
export type CodingName = keyof typeof decoders;
export const codingNames = Object.keys(decoders) as CodingName[];

interface CodedResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** As sent. */
  readonly body: Buffer;
  /** Decoded by Content-Encoding. */
  readonly text: string;
}

/** Sends a request with the key, and resolves with the response before its body has arrived. */
export const beginCoded = (
  { url, key }: Pick<Serving, 'url' | 'key'>,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  method = 'GET',
): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const options = { method, headers: { authorization: `Bearer ${key}`, ...headers }, agent: false };
    request(`${url}${path}`, options, resolve).on('error', reject).end();
  });

/** Rejects if the response is incomplete. */
export async function readCoded(message: IncomingMessage): Promise<CodedResponse> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  const coding = message.headers['content-encoding'] as CodingName | undefined;
  const text = String(coding === undefined || body.length === 0 ? body : decoders[coding](body));
  return { status: message.statusCode!, headers: message.headers, body, text };
}

export const askCoded = async (...request: Parameters<typeof beginCoded>): Promise<CodedResponse> =>
  await readCoded(await beginCoded(...request));
