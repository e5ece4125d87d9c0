import { StoreError } from './object-store.ts';

// What the errors of the AWS SDK mean. Texts of the server are not shown: some quote the key.

/** The parts of an SDK error that are read. */
interface SdkError {
  readonly name?: string;
  readonly code?: string;
  readonly $metadata?: { readonly httpStatusCode?: number };
  readonly cause?: unknown;
}

type RequestOutcome =
  /** No such object. */
  | 'absent'
  /** A condition does not hold. */
  | 'condition'
  /** Another attempt may succeed. */
  | 'retry'
  | 'failed';

const retryableCodes = new Set([
  'SlowDown',
  'InternalError',
  'ServiceUnavailable',
  'RequestTimeout',
  'ThrottlingException',
  'ConditionalRequestConflict',
  'OperationAborted',
  // The SDK corrects its clock by the response.
  'RequestTimeTooSkewed',
  'TimeoutError',
]);

const connectionCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);

export function classifyOutcome(error: unknown): RequestOutcome {
  const { name = '', code = '' } = error as SdkError;
  const status = getStatus(error);
  if (name === 'NoSuchBucket' || name === 'InvalidBucketName') return 'failed';
  if (status === 412) return 'condition';
  if (status === 404) return 'absent';
  if (status === 501) return 'failed';
  const isConnection = connectionCodes.has(code) || (status === undefined && isBrokenResponse(error));
  const isRetryable = retryableCodes.has(name) || status === 408 || status === 409 || status === 429;
  return isConnection || isRetryable || (status ?? 0) >= 500 ? 'retry' : 'failed';
}

/** Whether a response ended before its end, or was none. */
const isBrokenResponse = (error: unknown): boolean =>
  /aborted|socket hang up|premature|Parse Error|ERR_STREAM|other side closed|terminated/i.test(
    `${(error as Error).message} ${(error as SdkError).code ?? ''}`,
  );

const getStatus = (error: unknown): number | undefined => {
  const status = (error as SdkError).$metadata?.httpStatusCode;
  // A response that was cut off has a status too.
  return status !== undefined && status >= 300 ? status : undefined;
};

/**
 * Explains why a request failed for good.
 * @param what the request, e.g. `PUT manifest.json`
 * @param attempts how often it was sent
 */
export function explainFailure(error: unknown, what: string, url: string, attempts: number): StoreError {
  const { name = '', code = '' } = error as SdkError;
  const { message = '' } = error as Error;
  const status = getStatus(error);
  const options = { cause: error };
  const bucket = url.replace(/^(s3:\/\/[^/]+).*/, '$1');
  if (
    name === 'CredentialsProviderError' ||
    /Could not load credentials|No value provided for input HTTP label/.test(message)
  )
    return new StoreError(
      'credential',
      `No credentials for ${url}. Looked in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), in the profile (AWS_PROFILE in ~/.aws), in single sign-on, in a web identity token and in the metadata of the machine or container.`,
      options,
    );
  if (/Region is missing/.test(message))
    return new StoreError(
      'settings',
      `No region for ${url}. Set AWS_REGION, or region in the profile in ~/.aws/config. For servers other than Amazon's, us-east-1 usually works.`,
      options,
    );
  if (name === 'NoSuchBucket' || name === 'InvalidBucketName')
    return new StoreError(
      'settings',
      `There is no bucket ${bucket}. Create it first, or check the address and AWS_ENDPOINT_URL.`,
      options,
    );
  if (name === 'PermanentRedirect' || name === 'AuthorizationHeaderMalformed' || status === 301)
    return new StoreError('settings', `${bucket} is in another region. Set AWS_REGION to that region.`, options);
  if (name === 'RequestTimeTooSkewed')
    return new StoreError(
      'settings',
      `${url} rejected ${what}, because the clock of this machine differs too much from the server's. Set the clock.`,
      options,
    );
  if (
    name === 'InvalidAccessKeyId' ||
    name === 'SignatureDoesNotMatch' ||
    name === 'ExpiredToken' ||
    name === 'InvalidToken' ||
    status === 401
  )
    return new StoreError(
      'credential',
      `${url} rejected the credential (${name}). It came from the environment, the profile in ~/.aws or the metadata of the machine, in this order.`,
      options,
    );
  if (status === 403)
    return new StoreError(
      'credential',
      `${url} does not permit ${what} (${nameCode(name, status)}). docs/BUCKET.md has the policy that is needed.`,
      options,
    );
  if (status === 501)
    return new StoreError('unsupported', `${url} does not support ${what} (${nameCode(name, status)}).`, options);
  if (classifyOutcome(error) === 'retry') {
    const reason = status === undefined ? code || name : nameCode(name, status);
    const times = attempts === 1 ? 'once' : `${attempts} times`;
    return new StoreError('unreachable', `${url} could not be reached: ${what} failed ${times} (${reason}).`, options);
  }
  if (/CERT|SELF_SIGNED|UNABLE_TO_|EPROTO/.test(code))
    return new StoreError('unreachable', `${url} has no trusted certificate (${code}).`, options);
  const reason = status === undefined ? code || name : nameCode(name, status);
  return new StoreError('unexpected', `${url} answered ${what} unexpectedly (${reason}).`, options);
}

const nameCode = (name: string, status: number): string =>
  /^[A-Za-z]{3,60}$/.test(name) && name !== 'Error' && name !== 'UnknownError' ? `${status} ${name}` : `${status}`;
