import { crafted, hs256, secret, claims as usual } from './forged-tokens.ts';
import type { Serving } from './serving.ts';

// Users of the service by their tokens, and their requests.

export const withTokens = [`service.tokens.secret=${secret}`, 'service.requests_per_minute=1000000'];

/** A token of a user, with or without a workspace. */
export const tokenOf = (user: string, workspace?: string, scope = 'research'): string =>
  crafted(hs256, { ...usual, sub: user, scope, ...(workspace === undefined ? {} : { workspace }) });

export const alice = tokenOf('alice', 'trading');

export interface Reported<T = Record<string, unknown>> {
  readonly status: number;
  readonly headers: Headers;
  /** Undefined if the response has no body. */
  readonly body: T;
}

/** Sends a request of a user, optionally with a JSON body; checks the response against the document. */
export async function as<T = Record<string, unknown>>(
  { ask }: Pick<Serving, 'ask'>,
  token: string,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Reported<T>> {
  const sent = body === undefined ? {} : { 'content-type': 'application/json' };
  const answer = await ask(path, {
    method,
    headers: { authorization: `Bearer ${token}`, ...sent, ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, body: text === '' ? undefined : JSON.parse(text) };
}

export const buyAndHold = { rules: [{ side: 'yes', entry: { all: [] }, size: { contracts: 1 } }] };

export const errorsOf = ({ body }: Reported): [name: string, reason: string][] =>
  ((body.errors ?? []) as { name: string; reason: string }[]).map(({ name, reason }) => [name, reason]);
