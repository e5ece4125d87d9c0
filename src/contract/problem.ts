import { Type } from 'typebox';
import { paths } from './paths.ts';

/** Maximum number of errors in one response. A small body can have thousands of invalid fields. */
export const problemErrorsMax = 100;

/** A kind of error: its status, what it means and what the client should do. */
interface ProblemKind {
  readonly status: number;
  /** Of all kinds of the status; only the first of them has it. */
  readonly title?: string;
  readonly meaning: string;
  readonly action: string;
}

/**
 * Every problem code of the service. Clients rely on the codes: do not rename them. The first code of a status is the
 * default of that status.
 */
export const problemKinds = {
  invalid_request: {
    status: 400,
    title: 'Bad request',
    meaning: 'The request is invalid; `detail` gives the reason, and `errors` the fields, if there are any.',
    action: 'Correct the request. Sending it again unchanged gives the same response.',
  },
  invalid_parameter: {
    status: 400,
    meaning: 'A parameter of the path, the query or the headers is missing, unknown, repeated or invalid.',
    action: 'Correct the parameters that `errors` names.',
  },
  invalid_body: {
    status: 400,
    meaning: 'The body is missing, is not JSON, or has invalid fields.',
    action: 'Correct the fields that `errors` names.',
  },
  invalid_cursor: {
    status: 400,
    meaning: 'The cursor was changed, or belongs to a query with other parameters.',
    action: 'Send `next_cursor` unchanged with the same parameters, or start again without a cursor.',
  },
  empty_window: {
    status: 400,
    meaning: '`from` is not before `to`.',
    action: 'Send a window with `from` before `to`; windows are half-open.',
  },
  invalid_credential: {
    status: 401,
    title: 'Credential missing or invalid',
    meaning: 'The credential is invalid, expired or revoked.',
    action: 'Get a new credential. Do not repeat the request: too many invalid credentials lead to 429.',
  },
  missing_credential: {
    status: 401,
    meaning: 'The request has no credential.',
    action: 'Send a credential in the `Authorization` header, in the form `Bearer CREDENTIAL`.',
  },
  forbidden: {
    status: 403,
    title: 'Forbidden',
    meaning: 'The credential is valid but does not permit this request.',
    action: 'Use a market data key for market data, and a user token for objects of users.',
  },
  missing_scope: {
    status: 403,
    meaning: 'The user token does not have the scope that the route requires.',
    action: 'Get a token with the scope that `WWW-Authenticate` names.',
  },
  not_found: {
    status: 404,
    title: 'Not found',
    meaning: 'The path, the object or the file does not exist, or belongs to another user or key.',
    action: 'Check the path and the ID. Lists name the existing objects.',
  },
  unknown_symbol: {
    status: 404,
    meaning: 'The archive does not know the symbol.',
    action: 'Search for the symbol with `/api/v1/historical/markets?q=`.',
  },
  method_not_allowed: {
    status: 405,
    title: 'Method not allowed',
    meaning: 'The path does not support the method.',
    action: 'Use a method that the `Allow` header lists.',
  },
  not_acceptable: {
    status: 406,
    title: 'Not acceptable',
    meaning: 'The route supports none of the types in the `Accept` header.',
    action: 'Request a supported type, or select one with `format`.',
  },
  request_timeout: {
    status: 408,
    title: 'Request timeout',
    meaning: 'The request did not arrive in time, or the client disconnected.',
    action: 'Send the request again.',
  },
  conflict: {
    status: 409,
    title: 'Conflict',
    meaning: 'The request conflicts with the current state of an object, for example of an unfinished backtest.',
    action: 'Request the object again, and repeat the request when its state permits it.',
  },
  object_limit: {
    status: 409,
    meaning: 'The user has the maximum number of objects of this kind.',
    action: 'Remove objects that are no longer needed.',
  },
  stream_expired: {
    status: 410,
    title: 'Gone',
    meaning:
      'The stream cannot continue after the last event ID without loss: the service no longer keeps what followed.',
    action: 'Connect without `Last-Event-ID`, then read the ticks since the last one you have from `/api/v1/ticks`.',
  },
  trades_not_stored: {
    status: 410,
    meaning: 'Not all trades of the backtest were stored, because the files of the user would have been too large.',
    action: 'Remove backtests that are no longer needed, and run the backtest again.',
  },
  precondition_failed: {
    status: 412,
    title: 'Precondition failed',
    meaning: 'The file was replaced by a newer one, so that a precondition of the request is false.',
    action: 'Request the list of files again, and then the new file.',
  },
  body_too_large: {
    status: 413,
    title: 'Content too large',
    meaning: 'The body is larger than the service accepts.',
    action: 'Send a smaller body.',
  },
  uri_too_long: {
    status: 414,
    title: 'URI too long',
    meaning: 'The path, or path and query, is too long.',
    action: 'Send a shorter query.',
  },
  unsupported_media_type: {
    status: 415,
    title: 'Unsupported media type',
    meaning: 'The body is not `application/json`, or has a content encoding.',
    action: 'Send JSON without a content encoding.',
  },
  range_not_satisfiable: {
    status: 416,
    title: 'Range not satisfiable',
    meaning: 'The file has no such range.',
    action: 'Request a range within the size that `Content-Range` gives.',
  },
  expectation_failed: {
    status: 417,
    title: 'Expectation failed',
    meaning: 'The `Expect` header has another value than `100-continue`.',
    action: 'Omit the header.',
  },
  unprocessable: {
    status: 422,
    title: 'Unprocessable content',
    meaning: 'The request is valid, but cannot be carried out.',
    action: 'Change the request as `detail` says.',
  },
  idempotency_conflict: {
    status: 422,
    meaning: 'The `Idempotency-Key` was used with another body.',
    action: 'Send a new key for a new request.',
  },
  backtest_too_large: {
    status: 422,
    meaning: 'The backtest needs more ticks or more time than the service permits.',
    action: 'Select fewer symbols, a shorter window or fewer grid points, or send it with `save`.',
  },
  rate_limited: {
    status: 429,
    title: 'Too many requests',
    meaning: 'The rate limit of the credential, or the limit of invalid credentials of the address, is exceeded.',
    action: 'Wait for the seconds in `Retry-After`.',
  },
  too_many_jobs: {
    status: 429,
    meaning: 'Too many jobs of this user are waiting or running.',
    action: 'Wait until a job has ended, or remove one.',
  },
  too_many_streams: {
    status: 429,
    meaning: 'The key has the maximum number of open streams.',
    action: 'Close a stream, or stream several symbols in one.',
  },
  headers_too_large: {
    status: 431,
    title: 'Request header fields too large',
    meaning: 'The request line and headers are too large.',
    action: 'Send fewer or smaller headers.',
  },
  internal_error: {
    status: 500,
    title: 'Internal error',
    meaning: 'The service has an error, which its log describes under the ID in `X-Request-Id`.',
    action: 'Retry once; then report the request ID to the operator.',
  },
  unavailable: {
    status: 503,
    title: 'Service unavailable',
    meaning: 'The service cannot respond at the moment; `detail` gives the reason.',
    action: 'With `Retry-After`, retry after that time. Without it, the operator must act.',
  },
  busy: {
    status: 503,
    meaning: 'Too many requests are being processed or waiting.',
    action: 'Retry after the seconds in `Retry-After`.',
  },
  database_unavailable: {
    status: 503,
    meaning: 'The database of credentials and objects is unavailable.',
    action: 'Retry after the seconds in `Retry-After`.',
  },
  damaged_data: {
    status: 503,
    meaning: 'The requested data is damaged and is not served until the archive is repaired.',
    action: 'Tell the operator to run `oddslake verify --repair`.',
  },
  not_ready: {
    status: 503,
    meaning:
      'The archive cannot be read or is not up to date, or the database cannot be read; `errors` gives the cause.',
    action: 'Send requests to another instance, or tell the operator.',
  },
} as const satisfies Readonly<Record<string, ProblemKind>>;

export type ProblemCode = keyof typeof problemKinds;

export const problemCodes = Object.keys(problemKinds) as ProblemCode[];

const defaultCodes = new Map<number, ProblemCode>();
for (const code of problemCodes) {
  const { status } = problemKinds[code];
  if (!defaultCodes.has(status)) defaultCodes.set(status, code);
}

/** The code of an error for which no other code is given. Statuses without a code of their own count as 400 or 500. */
export const findDefaultProblemCode = (status: number): ProblemCode =>
  defaultCodes.get(status) ?? (status < 500 ? 'invalid_request' : 'internal_error');

/** The title of the kinds of a status: that of the first of them. */
export const findProblemTitle = (status: number): string =>
  (problemKinds[findDefaultProblemCode(status)] as ProblemKind).title!;

/** The URI of a problem type: a relative reference to its description on the service's own page. */
export const toProblemType = (code: ProblemCode): string => `${paths.problems}#${code}`;

/** The body of every error: RFC 9457, `application/problem+json`. */
export const Problem = Type.Object(
  {
    type: Type.String({
      maxLength: 100,
      description: `URI of the problem type, relative to this service: \`${paths.problems}#\` and the code.`,
    }),
    code: Type.Unsafe<ProblemCode>({
      type: 'string',
      enum: problemCodes,
      description: 'Code of the problem type. Codes are stable; new ones may be added.',
    }),
    title: Type.String({ maxLength: 100, description: 'Short description of the problem type.' }),
    status: Type.Integer({ minimum: 400, maximum: 599, description: 'Status code of the response.' }),
    detail: Type.Optional(Type.String({ description: 'Description of the error and what to do.' })),
    errors: Type.Optional(
      Type.Array(
        Type.Object(
          {
            name: Type.String({ description: 'Name of the parameter or field.' }),
            reason: Type.String({ description: 'What was expected.' }),
          },
          {
            title: 'FieldError',
            description: 'An invalid parameter or field.',
            examples: [{ name: 'limit', reason: 'must be a whole number' }],
          },
        ),
        {
          maxItems: problemErrorsMax,
          description: `The invalid parameters and fields; at most the first ${problemErrorsMax}.`,
        },
      ),
    ),
  },
  {
    title: 'Problem',
    description: 'An error (RFC 9457).',
    examples: [
      {
        type: toProblemType('invalid_parameter'),
        code: 'invalid_parameter',
        title: findProblemTitle(400),
        status: 400,
        detail: 'The query is invalid.',
        errors: [{ name: 'limit', reason: 'must be a whole number' }],
      },
    ],
  },
);
export type Problem = Type.Static<typeof Problem>;

export const problemType = 'application/problem+json';
