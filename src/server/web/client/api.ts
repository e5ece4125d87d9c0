/** A failed request with a message for the user. `status` is 0 if there was no response. */
export class ApiError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const storageKey = 'oddslake.key';
let onKeyRejected: (why: string) => void = () => {};

/** Stores the key for this tab only, until the tab is closed or the user removes the key. */
export const apiKeyStore = {
  read: (): string | null => sessionStorage.getItem(storageKey),
  keep: (text: string): void => sessionStorage.setItem(storageKey, text),
  forget: (): void => sessionStorage.removeItem(storageKey),
  /** Called when the service rejects the key. */
  onRefused(listener: (why: string) => void): void {
    onKeyRejected = listener;
  },
};

/** When the service rendered the page, epoch ms. The clock of the visitor may be wrong. */
export const getServedAt = (): number => Number(document.documentElement.dataset.now);

/** Whether this visitor may read the catalogue without a key. The service decides it and writes it into the page. */
export const isCataloguePublic = (): boolean => document.documentElement.dataset.access === 'public';

/** Whether the commands on the page need a key. */
export const isKeyNeeded = (): boolean => !isCataloguePublic();

const sessionPath = '/api/v1/session';

/** Exchanges the one-time key of a link for the credential of a session. @throws ApiError */
export async function exchangeOneTimeKey(oneTimeKey: string): Promise<string> {
  const response = await fetch(sessionPath, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ one_time_key: oneTimeKey }),
    credentials: 'omit',
  }).catch(() => null);
  if (response === null) throw new ApiError(0, unreachable);
  const body = (await response.json().catch(() => ({}))) as { credential?: string; detail?: string };
  if (body.credential === undefined) throw new ApiError(response.status, body.detail ?? 'The sign-in failed.');
  return body.credential;
}

/** Ends the session of a credential, if it is one. */
export async function endSession(credential: string): Promise<void> {
  if (!credential.startsWith('ols_')) return;
  const headers = { authorization: `Bearer ${credential}` };
  // The session ends by itself if the service cannot be reached.
  await fetch(sessionPath, { method: 'DELETE', headers, credentials: 'omit' }).catch(() => null);
}

const unreachable = 'Cannot reach the service. Check that it is running, and check the network connection.';

/** Sends a request with the key. @throws ApiError for every response that is not a success */
export async function fetchApi(path: string, signal?: AbortSignal): Promise<Response> {
  const credential = apiKeyStore.read();
  const response = await fetch(path, {
    ...(credential === null ? {} : { headers: { authorization: `Bearer ${credential}` } }),
    ...(signal === undefined ? {} : { signal }),
    cache: 'no-cache',
    credentials: 'omit',
  }).catch((error: unknown) => {
    if ((error as Error).name === 'AbortError') throw error;
    throw new ApiError(0, unreachable);
  });
  if (response.ok) return response;
  const why = await readErrorMessage(response);
  if (response.status === 401 || (response.status === 403 && !isPermissionMissing(response))) onKeyRejected(why);
  throw new ApiError(response.status, why);
}

/** Like `fetchApi`, for a JSON response. Parameters that are null or undefined are omitted. */
export async function fetchJson<T>(
  path: string,
  parameters: Readonly<Record<string, string | number | null | undefined>> = {},
  signal?: AbortSignal,
): Promise<T> {
  const query = Object.entries(parameters).flatMap(([name, value]) =>
    value === null || value === undefined ? [] : [[name, String(value)]],
  );
  const response = await fetchApi(query.length === 0 ? path : `${path}?${new URLSearchParams(query)}`, signal);
  try {
    return (await response.json()) as T;
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw error;
    throw new ApiError(0, 'The response is incomplete: the service stopped, or the network connection was lost.');
  }
}

const historyPath = (name: string): string => `/api/v1/historical/${name}`;

/** Whether the archive has rows of a symbol in a dataset; false also if the key does not permit the dataset. */
export const hasRows = (name: string, symbol: string, signal: AbortSignal): Promise<boolean> =>
  fetchJson<{ count: number }>(historyPath(name), { symbol, limit: 1 }, signal).then(
    ({ count }) => count > 0,
    () => false,
  );

const pageSize = 10_000;
const pagesMax = 20;

/**
 * Fetches the first rows of a historical route, about `rowsMax` of them. `isCut` is true if there are more.
 * @returns also the first response, which may have more than rows
 */
export async function fetchRows<Row, Page extends object = object>(
  name: string,
  query: Readonly<Record<string, string | number>>,
  rowsMax: number,
  signal: AbortSignal,
): Promise<{ rows: Row[]; isCut: boolean; first: Page }> {
  const rows: Row[] = [];
  let [cursor, first]: [string | null, Page | null] = [null, null];
  for (let page = 0; page < pagesMax && rows.length < rowsMax; page++) {
    const paging = { limit: Math.min(pageSize, rowsMax - rows.length), cursor };
    const response: Page & { next_cursor: string | null } = await fetchJson(
      historyPath(name),
      { ...query, ...paging },
      signal,
    );
    first ??= response;
    rows.push(...(response as unknown as Record<string, Row[]>)[name]!);
    cursor = response.next_cursor;
    if (cursor === null) break;
  }
  return { rows, isCut: cursor !== null, first: first! };
}

/** Whether the key is valid and only this response is refused: the key has other scopes, or permits other datasets. */
const isPermissionMissing = ({ headers }: Response): boolean =>
  headers.get('www-authenticate')?.includes('insufficient_scope') === true;

async function readErrorMessage(response: Response): Promise<string> {
  const { status, headers } = response;
  if (status === 401 && apiKeyStore.read()?.startsWith('ols_'))
    return 'The session has ended. Sign in again, with a key or with a new link.';
  if (status === 401 && apiKeyStore.read() === null) return 'The service asks for a key now. Reload the page.';
  if (status === 401)
    return 'The service does not accept this key. Check that it is complete, not expired and not revoked.';
  if (status === 403 && !isPermissionMissing(response))
    return 'The archive requires a market data key. This is another kind of credential.';
  if (status === 429) {
    const seconds = Number(headers.get('retry-after'));
    const when = Number.isFinite(seconds) && seconds > 0 ? `in ${Math.ceil(seconds)} s` : 'in a minute';
    return `Too many requests with this key. Try again ${when}.`;
  }
  const problem = (await response.json().catch(() => ({}))) as { detail?: unknown };
  const detail = typeof problem.detail === 'string' ? ` ${problem.detail}` : '';
  if (status === 403) return `This key does not permit this.${detail}`;
  if (status === 503) return `The service is unavailable at the moment.${detail}`;
  return `The service responded with status ${status}.${detail}`;
}

/** Whether the request was cancelled because the view changed. */
export const isAbortError = (error: unknown): boolean => (error as Error | null)?.name === 'AbortError';

/** Formats an error as a message for the user. */
export const toErrorMessage = (error: unknown): string =>
  error instanceof ApiError ? error.message : `Internal error of the page: ${(error as Error).message}`;
