/** A session of the catalogue page, with its credential. */
interface PageSession {
  readonly credential: string;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

/**
 * Sign-in to the catalogue page by a link. A one-time key is exchanged once for a session, whose credential reads the
 * catalogue only. Digests are kept, in memory alone: all sessions end with the service.
 */
export interface PageSessions {
  /** Creates a one-time key. */
  createOneTimeKey(): string;
  /** Exchanges a one-time key; null if it is unknown, used or expired. */
  exchange(oneTimeKey: string): PageSession | null;
  /** The ID of a session, which reveals nothing about its credential; null if it has ended. */
  findSession(credential: string): string | null;
  end(credential: string): void;
}
