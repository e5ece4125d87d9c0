import { hash, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../../base/ports.ts';
import { hourMs, minuteMs } from '../../base/window.ts';
import type { PageSessions } from '../http/service-context.ts';
import type { RandomBytes } from '../workspace/api-keys.ts';

/** How long an unused one-time key can be exchanged, in ms. */
export const oneTimeKeyMsMax = 15 * minuteMs;
/** Life of a session, in ms. */
export const sessionMsMax = 12 * hourMs;

/** Maximum number of one-time keys and of sessions; above it, the oldest ends. */
const secretsMax = 100;
const secretBytes = 32;
const oneTimeKeyPrefix = 'olo_';
const sessionPrefix = 'ols_';

/** Whether a credential has the form of a session's, so that no database is asked for it. */
export const isSessionCredential = (credential: string): boolean => credential.startsWith(sessionPrefix);

interface Secret {
  readonly digest: Buffer;
  /** Monotonic ms, which a change of the wall clock does not extend. */
  readonly endsAt: number;
}

export function openPageSessions(clock: Clock, randomBytes: RandomBytes): PageSessions {
  let oneTimeKeys: readonly Secret[] = [];
  let sessions: readonly Secret[] = [];

  const create = (prefix: string): string => prefix + Buffer.from(randomBytes(secretBytes)).toString('base64url');
  const add = (list: readonly Secret[], secret: string, lifeMs: number): readonly Secret[] => [
    ...removeEnded(list).slice(1 - secretsMax),
    { digest: digestSecret(secret), endsAt: clock.monotonicMs() + lifeMs },
  ];
  const removeEnded = (list: readonly Secret[]): readonly Secret[] => {
    const nowMs = clock.monotonicMs();
    return list.filter(({ endsAt }) => endsAt > nowMs);
  };
  const find = (list: readonly Secret[], secret: string): Secret | undefined => {
    const digest = digestSecret(secret);
    return removeEnded(list).find((known) => timingSafeEqual(known.digest, digest));
  };

  return {
    createOneTimeKey() {
      const key = create(oneTimeKeyPrefix);
      oneTimeKeys = add(oneTimeKeys, key, oneTimeKeyMsMax);
      return key;
    },
    exchange(oneTimeKey) {
      const found = find(oneTimeKeys, oneTimeKey);
      if (found === undefined) return null;
      oneTimeKeys = oneTimeKeys.filter((key) => key !== found);
      const credential = create(sessionPrefix);
      sessions = add(sessions, credential, sessionMsMax);
      return { credential, expiresAt: clock.nowMs() + sessionMsMax };
    },
    findSession: (credential) => find(sessions, credential)?.digest.toString('hex').slice(0, 12) ?? null,
    end(credential) {
      const found = find(sessions, credential);
      sessions = sessions.filter((session) => session !== found);
    },
  };
}

const digestSecret = (secret: string): Buffer => hash('sha256', secret, 'buffer');
