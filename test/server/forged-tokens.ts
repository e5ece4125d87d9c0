import { createHmac } from 'node:crypto';
import { now } from '../archive/scratch.ts';

// Forged tokens, and the responses of the service to them.

export const secret = 'a secret of more than 32 characters, for tests';
export const seconds = Math.floor(now / 1000);
export const claims = { sub: 'alice', iss: 'oddslake', aud: 'oddslake', iat: seconds, exp: seconds + 600 };

export const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** A token with any header and claims, always signed by HMAC. */
export function crafted(header: object, payload: object, key: string | Buffer = secret, hash = 'sha256'): string {
  const text = `${part(header)}.${part(payload)}`;
  return `${text}.${createHmac(hash, key).update(text).digest('base64url')}`;
}

export const hs256 = { alg: 'HS256', typ: 'JWT' };
export const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

/** Status and challenge of a users' route. */
export async function answered(url: string, token: string, path = '/api/v1/bots'): Promise<[number, string | null]> {
  const answer = await fetch(`${url}${path}`, bearer(token));
  await answer.arrayBuffer();
  return [answer.status, answer.headers.get('www-authenticate')];
}

export const refused = [401, 'Bearer error="invalid_token"'];
