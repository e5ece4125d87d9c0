/** What went wrong, as a sentence for people; `status` is 0 where no answer came. */
export class ApiError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const storageKey = 'oddslake.key';
let onKeyRejected: (why: string) => void = () => {};

/** Kept for this tab alone, until it is closed or the key is forgotten. */
export const apiKeyStore = {
  read: (): string | null => sessionStorage.getItem(storageKey),
  keep: (text: string): void => sessionStorage.setItem(storageKey, text),
  forget: (): void => sessionStorage.removeItem(storageKey),
  /** Called when the service says that the key is not good. */
  onRefused(listener: (why: string) => void): void {
    onKeyRejected = listener;
  },
};

/** Asks with the key. @throws ApiError for every answer that is none */
export async function fetchApi(path: string, signal?: AbortSignal): Promise<Response> {
  const credential = apiKeyStore.read();
  const answer = await fetch(path, {
    ...(credential === null ? {} : { headers: { authorization: `Bearer ${credential}` } }),
    ...(signal === undefined ? {} : { signal }),
    cache: 'no-cache',
    credentials: 'omit',
  }).catch((error: unknown) => {
    if ((error as Error).name === 'AbortError') throw error;
    throw new ApiError(0, 'The service cannot be reached: it is down, or the network is gone.');
  });
  if (answer.ok) return answer;
  const why = await readErrorMessage(answer);
  if (answer.status === 401 || answer.status === 403) onKeyRejected(why);
  throw new ApiError(answer.status, why);
}

/** The same for an answer in JSON; parameters that are null or undefined are left out. */
export async function fetchJson<T>(
  path: string,
  parameters: Readonly<Record<string, string | number | null | undefined>> = {},
  signal?: AbortSignal,
): Promise<T> {
  const said = Object.entries(parameters).flatMap(([name, value]) =>
    value === null || value === undefined ? [] : [[name, String(value)]],
  );
  const answer = await fetchApi(said.length === 0 ? path : `${path}?${new URLSearchParams(said)}`, signal);
  try {
    return (await answer.json()) as T;
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw error;
    throw new ApiError(0, 'The answer broke off: the service stopped, or the network is gone.');
  }
}

async function readErrorMessage(answer: Response): Promise<string> {
  const { status, headers } = answer;
  if (status === 401)
    return 'The service does not accept this key. Check that it is whole, not expired and not revoked.';
  if (status === 403) return 'This is not a market data key: the archive is read with one.';
  if (status === 429) {
    const seconds = Number(headers.get('retry-after'));
    const when = Number.isFinite(seconds) && seconds > 0 ? `in ${Math.ceil(seconds)} s` : 'in a minute';
    return `Too many requests under this key. Try again ${when}.`;
  }
  const problem = (await answer.json().catch(() => ({}))) as { detail?: unknown };
  const detail = typeof problem.detail === 'string' ? ` ${problem.detail}` : '';
  if (status === 503) return `The service cannot answer this at the moment.${detail}`;
  return `The service answered ${status}.${detail}`;
}

/** Whether it is only that somebody looks at something else by now. */
export const isAbortError = (error: unknown): boolean => (error as Error | null)?.name === 'AbortError';

/** The sentence for anything that was thrown. */
export const toErrorMessage = (error: unknown): string =>
  error instanceof ApiError ? error.message : `The page has a fault of its own: ${(error as Error).message}`;
