import type { S3Client } from '@aws-sdk/client-s3';
import { UsageError } from '../base/errors.ts';
import type { Clock, Log, Random } from '../base/ports.ts';
import { computeBackoffMs } from '../client/request.ts';
import { type BucketAddress, toKey } from './address.ts';
import type { ListedObject, ObjectHead, ObjectStore, RequestCounts, WriteCondition } from './object-store.ts';
import { classifyOutcome, explainFailure } from './s3-errors.ts';

/** Limits of requests to object storage. Times are in ms. */
export interface StoreLimits {
  readonly attemptsMax: number;
  readonly delayMsMin: number;
  readonly delayMsMax: number;
  readonly connectMsMax: number;
  /** Maximum time without a byte in either direction. */
  readonly idleMsMax: number;
}

const limitsDefault: StoreLimits = {
  attemptsMax: 7,
  delayMsMin: 250,
  delayMsMax: 16_000,
  connectMsMax: 10_000,
  idleMsMax: 60_000,
};

export interface StoreOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** How the server encrypts new objects; null: as the bucket says. */
  readonly sse: 'AES256' | 'aws:kms' | null;
  /** ID or ARN of the key for `aws:kms`; null: the account's default. */
  readonly kmsKey: string | null;
  /** Whether the bucket is in the path of URLs rather than in the host name, as many servers other than Amazon's need. */
  readonly pathStyle: boolean;
  readonly limits?: Partial<StoreLimits>;
  /** The endpoint, region and credentials; by default those of the SDK's own chain. */
  readonly client?: {
    readonly endpoint: string;
    readonly region: string;
    readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  };
}

const sha256Meta = 'sha256';

/**
 * Opens the objects below a prefix by the AWS SDK, which is loaded here: no other command pays for it. The SDK finds the
 * endpoint, the region and the credentials in the environment, in ~/.aws and in the metadata of the machine.
 */
export async function openS3Store(address: BucketAddress, options: StoreOptions): Promise<ObjectStore> {
  const sdk = await import('@aws-sdk/client-s3');
  const limits = { ...limitsDefault, ...options.limits };
  const client = createClient(sdk, options, limits);
  const counts: RequestCounts = { reads: 0, writes: 0, retries: 0, bytes: 0 };
  const connection = { sdk, client, address, limits, counts, options };
  const clockOfServer = watchResponses(client);
  return {
    url: address.url,
    counts,
    serverTimeMs: () => clockOfServer.nowMs,
    get: (path) => getObject(connection, path),
    head: (path) => readHead(connection, path),
    put: (path, bytes, sha256, condition, contentType) =>
      putObject(connection, { path, bytes, sha256, condition, contentType }),
    list: (folder) => listObjects(connection, folder),
    remove: (paths) => removeObjects(connection, paths),
    close: () => client.destroy(),
  };
}

type Sdk = typeof import('@aws-sdk/client-s3');

const createClient = ({ S3Client }: Sdk, { client, pathStyle }: StoreOptions, limits: StoreLimits): S3Client =>
  new S3Client({
    ...client,
    forcePathStyle: pathStyle,
    // Retried here, so that waiting ends with the signal, and conflicts of conditional writes are retried too.
    maxAttempts: 1,
    // Uploads state their SHA-256, and downloads are hashed by their reader, which names what differs.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { connectionTimeout: limits.connectMsMax, socketTimeout: limits.idleMsMax },
  });

/** A bucket, and what its requests share. */
interface Connection {
  readonly sdk: Sdk;
  readonly client: S3Client;
  readonly address: BucketAddress;
  readonly limits: StoreLimits;
  readonly counts: RequestCounts;
  readonly options: StoreOptions;
}

/** A request, before it is sent. */
interface StoreRequest<T> {
  readonly kind: 'reads' | 'writes';
  /** For messages, e.g. `GET manifest.json`. */
  readonly what: string;
  /** The refusal that the caller expects; null: none. */
  readonly expected: 'absent' | 'condition' | null;
  readonly attemptsMax?: number;
  send(): Promise<T>;
}

/** Sends a request until there is an answer. Null if it is the refusal that the caller expects. */
async function sendRequest<T>(
  { limits, counts, address, options: { clock, random, log, signal } }: Connection,
  { kind, what, expected, attemptsMax = limits.attemptsMax, send }: StoreRequest<T>,
): Promise<T | null> {
  for (let attempt = 1; ; attempt++) {
    signal.throwIfAborted();
    counts[kind]++;
    if (attempt > 1) counts.retries++;
    try {
      return await send();
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof UsageError) throw error;
      const outcome = classifyOutcome(error);
      if (outcome === expected) return null;
      // If-Match on a missing object is 404 on some servers.
      if (outcome === 'absent' && expected === 'condition' && (error as Error).name !== 'NoSuchBucket') return null;
      if (outcome !== 'retry' || attempt >= attemptsMax) throw explainFailure(error, what, address.url, attempt);
      log.debug({ request: what, attempt, reason: (error as Error).name }, 'retrying');
      await clock.sleep(computeBackoffMs(attempt - 1, limits.delayMsMin, limits.delayMsMax, random), signal);
    }
  }
}

function getObject(connection: Connection, path: string): ReturnType<ObjectStore['get']> {
  const { sdk, client, address, counts, options } = connection;
  const input = { Bucket: address.bucket, Key: toKey(address, path) };
  return sendRequest(connection, {
    kind: 'reads',
    what: `GET ${path}`,
    expected: 'absent',
    async send() {
      const { Body, ETag, LastModified } = await client.send(new sdk.GetObjectCommand(input), {
        abortSignal: options.signal,
      });
      const bytes = await Body!.transformToByteArray();
      counts.bytes += bytes.length;
      return { bytes, etag: ETag ?? '', modifiedAt: LastModified?.getTime() ?? null };
    },
  });
}

function readHead(connection: Connection, path: string): Promise<ObjectHead | null> {
  const { sdk, client, address, options } = connection;
  const input = { Bucket: address.bucket, Key: toKey(address, path), ChecksumMode: 'ENABLED' } as const;
  return sendRequest(connection, {
    kind: 'reads',
    what: `HEAD ${path}`,
    expected: 'absent',
    async send() {
      const head = await client.send(new sdk.HeadObjectCommand(input), { abortSignal: options.signal });
      const { ContentLength = 0, ETag = '', ChecksumSHA256, ChecksumType, Metadata } = head;
      // That of an upload in several parts is no hash of the file.
      const isWhole = ChecksumSHA256 !== undefined && ChecksumType !== 'COMPOSITE' && !ChecksumSHA256.includes('-');
      const sha256 = isWhole ? Buffer.from(ChecksumSHA256, 'base64').toString('hex') : null;
      return { bytes: ContentLength, etag: ETag, sha256, recordedSha256: Metadata?.[sha256Meta] ?? null };
    },
  });
}

/** An object to write. */
interface Upload {
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly sha256: string;
  readonly condition: WriteCondition;
  readonly contentType: string;
}

function putObject(
  connection: Connection,
  { path, bytes, sha256, condition, contentType }: Upload,
): Promise<{ readonly etag: string } | null> {
  const { sdk, client, address, counts, options } = connection;
  const { sse, kmsKey, signal } = options;
  const input = {
    Bucket: address.bucket,
    Key: toKey(address, path),
    Body: bytes,
    ContentType: contentType,
    ChecksumSHA256: Buffer.from(sha256, 'hex').toString('base64'),
    Metadata: { [sha256Meta]: sha256 },
    ...(sse !== null && { ServerSideEncryption: sse }),
    ...(kmsKey !== null && { SSEKMSKeyId: kmsKey }),
    ...toHeaders(condition),
  };
  return sendRequest(connection, {
    kind: 'writes',
    what: `PUT ${path}`,
    expected: condition === 'always' ? null : 'condition',
    async send() {
      const { ETag = '' } = await client.send(new sdk.PutObjectCommand(input), { abortSignal: signal });
      counts.bytes += bytes.length;
      return { etag: ETag };
    },
  });
}

async function* listObjects(connection: Connection, folder: string): AsyncGenerator<ListedObject> {
  const { sdk, client, address, options } = connection;
  const Prefix = toKey(address, folder);
  const skipped = Prefix.length - folder.length;
  let ContinuationToken: string | undefined;
  do {
    const command = new sdk.ListObjectsV2Command({ Bucket: address.bucket, Prefix, ContinuationToken });
    const page = (await sendRequest(connection, {
      kind: 'reads',
      what: `LIST ${folder}`,
      expected: null,
      send: () => client.send(command, { abortSignal: options.signal }),
    }))!;
    for (const { Key = '', Size = 0, ETag = '', LastModified } of page.Contents ?? [])
      yield {
        path: Key.slice(skipped),
        bytes: Size,
        etag: ETag,
        modifiedAt: LastModified?.getTime() ?? Number.POSITIVE_INFINITY,
      };
    ContinuationToken = page.IsTruncated === true ? page.NextContinuationToken : undefined;
  } while (ContinuationToken !== undefined);
}

/** Removes objects. A removal is not retried: by then, another push may have created its objects again. */
async function removeObjects(connection: Connection, paths: readonly string[]): Promise<void> {
  const { sdk, client, address, options } = connection;
  for (let at = 0; at < paths.length; at += removedPerRequest) {
    const Objects = paths.slice(at, at + removedPerRequest).map((path) => ({ Key: toKey(address, path) }));
    const command = new sdk.DeleteObjectsCommand({ Bucket: address.bucket, Delete: { Objects, Quiet: true } });
    const answer = (await sendRequest(connection, {
      kind: 'writes',
      what: 'DELETE',
      expected: null,
      attemptsMax: 1,
      send: () => client.send(command, { abortSignal: options.signal }),
    }))!;
    const [first] = (answer.Errors ?? []).filter(({ Code }) => Code !== 'NoSuchKey');
    if (first === undefined) continue;
    const httpStatusCode = first.Code === 'AccessDenied' ? 403 : 400;
    const reason = { name: first.Code, message: '', $metadata: { httpStatusCode } };
    throw explainFailure(reason, 'DELETE', address.url, 1);
  }
}

/** The most that a request may remove. */
const removedPerRequest = 1000;

function toHeaders(condition: WriteCondition): { IfNoneMatch?: string; IfMatch?: string } {
  if (condition === 'always') return {};
  return condition === 'absent' ? { IfNoneMatch: '*' } : { IfMatch: condition.etag };
}

/** Notes the server's clock at each response, and refuses to send anything unencrypted to another machine. */
function watchResponses(client: S3Client): { nowMs: number | null } {
  const seen: { nowMs: number | null } = { nowMs: null };
  client.middlewareStack.add(
    (next) => async (args) => {
      requireSafeEndpoint(args.request as { protocol?: string; hostname?: string });
      const result = await next(args);
      const { headers } = (result.response ?? {}) as { headers?: Record<string, string> };
      const at = Date.parse(headers?.date ?? '');
      if (Number.isFinite(at)) seen.nowMs = at;
      return result;
    },
    // After the retries and the signature.
    { step: 'finalizeRequest', priority: 'low', name: 'oddslakeWatchResponses' },
  );
  return seen;
}

const loopbackPattern = /^(localhost|127(\.\d+){3}|\[?::1\]?)$/;

/** @throws UsageError for http to another machine */
export function requireSafeEndpoint({ protocol = '', hostname = '' }: { protocol?: string; hostname?: string }): void {
  if (protocol === 'https:' || loopbackPattern.test(hostname) || hostname.endsWith('.localhost')) return;
  throw new UsageError(
    `The endpoint ${protocol}//${hostname} is not encrypted. Use https in AWS_ENDPOINT_URL; http is accepted for this machine only.`,
  );
}
