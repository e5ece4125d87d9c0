import { describe, expect, test } from 'vitest';
import { classifyOutcome, explainFailure } from '../../src/bucket/s3-errors.ts';
import { requireSafeEndpoint } from '../../src/bucket/s3-store.ts';

const url = 's3://lakes/markets';
const createError = (name: string, status?: number, message = 'AKIAEXAMPLE was refused') =>
  Object.assign(new Error(message), { name, ...(status !== undefined && { $metadata: { httpStatusCode: status } }) });

describe('an error of a request', () => {
  test.each([
    ['NoSuchKey', 404, 'absent'],
    ['NotFound', 404, 'absent'],
    ['NoSuchBucket', 404, 'failed'],
    ['PreconditionFailed', 412, 'condition'],
    ['ConditionalRequestConflict', 409, 'retry'],
    ['SlowDown', 503, 'retry'],
    ['InternalError', 500, 'retry'],
    ['NotImplemented', 501, 'failed'],
    ['AccessDenied', 403, 'failed'],
    ['RequestTimeTooSkewed', 403, 'retry'],
    ['TimeoutError', undefined, 'retry'],
    // A response that was cut off.
    ['Error: aborted', 200, 'retry'],
    ['CredentialsProviderError', undefined, 'failed'],
  ] as const)('%s %s: %s', (name, status, outcome) => {
    expect(classifyOutcome(createError(name, status, status === 200 ? 'aborted' : undefined))).toBe(outcome);
  });

  test.each(['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND'])('%s is tried again', (code) => {
    expect(classifyOutcome(Object.assign(new Error('x'), { code }))).toBe('retry');
  });
});

describe('a failure', () => {
  test.each([
    ['CredentialsProviderError', undefined, 3, /AWS_PROFILE.*metadata/],
    ['InvalidAccessKeyId', 403, 3, /rejected the credential/],
    ['SignatureDoesNotMatch', 403, 3, /rejected the credential/],
    ['AccessDenied', 403, 3, /does not permit PUT a.*policy/],
    ['NoSuchBucket', 404, 2, /no bucket s3:\/\/lakes\b/],
    ['PermanentRedirect', 301, 2, /another region/],
    ['RequestTimeTooSkewed', 403, 2, /clock/],
    ['NotImplemented', 501, 2, /does not support/],
    ['SlowDown', 503, 7, /failed 7 times \(503 SlowDown\)/],
    ['MalformedXML', 400, 1, /400 MalformedXML/],
  ] as const)('%s %s ends with exit %s and says so, without a key', (name, status, exitCode, sentence) => {
    const error = explainFailure(createError(name, status), 'PUT a', url, 7);
    expect(error).toMatchObject({ exitCode, message: expect.stringMatching(sentence) });
    expect(error.message).not.toContain('AKIAEXAMPLE');
  });

  test('a missing region is a setting', () => {
    expect(explainFailure(createError('Error', undefined, 'Region is missing'), 'GET a', url, 1)).toMatchObject({
      exitCode: 2,
      message: expect.stringContaining('AWS_REGION'),
    });
  });
});

test('only this machine may be reached without encryption', () => {
  for (const hostname of ['127.0.0.1', 'localhost', '127.3.2.1', '[::1]', 'lakes.localhost'])
    expect(() => requireSafeEndpoint({ protocol: 'http:', hostname })).not.toThrow();
  expect(() => requireSafeEndpoint({ protocol: 'https:', hostname: 's3.example' })).not.toThrow();
  for (const hostname of ['s3.example', '10.0.0.1', '127.0.0.1.example', 'localhost.example'])
    expect(() => requireSafeEndpoint({ protocol: 'http:', hostname })).toThrow(
      expect.objectContaining({ exitCode: 2 }),
    );
});
