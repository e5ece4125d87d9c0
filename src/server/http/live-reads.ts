/**
 * How a request was served. `fresh`: from the archive, without asking · `fetched`: after asking the upstream ·
 * `timeout`: from the archive, while the upstream is still being asked · `failed`: from the archive, the upstream failed ·
 * `paused`: from the archive, because the upstream failed before · `crowded`: from the archive, because too many other
 * requests to the upstream are waiting, or the journal is full
 */
export const liveOutcomes = ['fresh', 'fetched', 'timeout', 'failed', 'paused', 'crowded'] as const;
export type LiveOutcome = (typeof liveOutcomes)[number];

/** Brings the archive up to date before a response is read from it. No method rejects, or waits longer than the timeout. */
export interface LiveReads {
  /** @param to end of the window that the request asks for, epoch ms */
  refreshTicks(symbol: string, to: number): Promise<void>;
  /** @param polledAt times of the last polls in the archive, epoch ms, by source; null: the only service */
  refreshMarkets(polledAt: ReadonlyMap<string | null, number>): Promise<void>;
  /** @param fetchedAt time of the last response with an order book in the archive, epoch ms; null if there is none */
  refreshOrderBook(symbol: string, fetchedAt: number | null): Promise<void>;
  /** Numbers of requests since the start. */
  getCounts(): Readonly<Record<LiveOutcome, number>>;
  /** Ends the requests to the upstream, and records the run. */
  close(): Promise<void>;
}
