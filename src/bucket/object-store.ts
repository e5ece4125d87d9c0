import { exitCodes, OddslakeError } from '../base/errors.ts';

/** An object as a listing shows it. */
export interface ListedObject {
  /** Below the prefix. */
  readonly path: string;
  readonly bytes: number;
  readonly etag: string;
  /** Epoch ms, by the server's clock. */
  readonly modifiedAt: number;
}

export interface ObjectHead {
  readonly bytes: number;
  readonly etag: string;
  /** SHA-256 of the whole object, computed by the server; null if it keeps none. */
  readonly sha256: string | null;
  /** SHA-256 that was recorded at the upload; null if there is none. It says nothing about the object now. */
  readonly recordedSha256: string | null;
}

/** When a write applies: always, if there is no such object, or if it is the one with this ETag. */
export type WriteCondition = 'always' | 'absent' | { readonly etag: string };

/** Requests that were sent, retries included. */
export interface RequestCounts {
  reads: number;
  writes: number;
  retries: number;
  /** Of bodies of uploads and downloads. */
  bytes: number;
}

/**
 * The objects below one prefix of a bucket. Paths are relative to it, or to the bucket if they begin with a slash. Requests are retried within a limit, except for
 * `remove`; after that, and for every answer that is not expected, methods throw an OddslakeError with a sentence and an exit code.
 */
export interface ObjectStore {
  /** `s3://BUCKET/PREFIX`. */
  readonly url: string;
  readonly counts: RequestCounts;
  /** The server's clock at its last response, epoch ms; null if it states none. */
  serverTimeMs(): number | null;
  /** Null if there is no such object. `modifiedAt` as in `ListedObject`, null if the server does not say. */
  get(
    path: string,
  ): Promise<{ readonly bytes: Uint8Array; readonly etag: string; readonly modifiedAt: number | null } | null>;
  /** Null if there is no such object. */
  head(path: string): Promise<ObjectHead | null>;
  /**
   * Writes a whole object, which the server checks against its SHA-256.
   * @returns null if the condition does not hold, or a retried request has already written it
   */
  put(
    path: string,
    bytes: Uint8Array,
    sha256: string,
    condition: WriteCondition,
    contentType: string,
  ): Promise<{ readonly etag: string } | null>;
  list(folder: string): AsyncIterable<ListedObject>;
  /**
   * Removes objects; missing ones count as removed. This request is not retried: a first attempt whose response was lost may
   * have removed an object that another push has created again meanwhile.
   */
  remove(paths: readonly string[]): Promise<void>;
  close(): void;
}

/** What a failed request means. */
type StoreFailure =
  /** The credential was refused, or has no permission. */
  | 'credential'
  /** The bucket or the region is wrong, or missing. */
  | 'settings'
  /** The server does not support a header or a method. */
  | 'unsupported'
  /** No usable response within all attempts. */
  | 'unreachable'
  | 'unexpected';

const exitCodeOf: Readonly<Record<StoreFailure, OddslakeError['exitCode']>> = {
  credential: exitCodes.credential,
  settings: exitCodes.usage,
  unsupported: exitCodes.usage,
  unreachable: exitCodes.unreachable,
  unexpected: exitCodes.unexpected,
};

/** A request to object storage failed after its retries. */
export class StoreError extends OddslakeError {
  readonly failure: StoreFailure;
  constructor(failure: StoreFailure, message: string, options?: ErrorOptions) {
    super(exitCodeOf[failure], message, options);
    this.name = 'StoreError';
    this.failure = failure;
  }
}
