import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify';
import type { Archive } from '../../archive/archive.ts';
import { readArchiveStatus } from '../../archive/read/archive-status.ts';
import type { Facts } from '../../archive/read/judge.ts';
import type { ManifestWatcher } from '../../archive/read/manifest-watcher.ts';
import type { VerifiedFiles } from '../../archive/read/verified-files.ts';
import type { Clock, Log, Random } from '../../base/ports.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Workspace } from '../workspace/workspace.ts';

/** External dependencies of the service, passed to all routes. */
export interface ServiceContext {
  readonly archive: Archive;
  readonly current: ManifestWatcher;
  readonly files: VerifiedFiles;
  readonly workspace: Workspace;
  readonly settings: Settings;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly version: string;
  /** Aborted when the service stops. */
  readonly signal: AbortSignal;
  /** Live reads; absent if `service.live.enabled` is off. */
  readonly live?: LiveReads | null;
  /** Sign-in to the catalogue page by a link; absent if no link is ever issued. */
  readonly sessions?: PageSessions | null;
}

/** What the judge of the archive needs. */
export function readServiceFacts({ archive, clock, log, settings }: ServiceContext): Facts {
  const [nowMs, lagMsMax] = [clock.nowMs(), settings.service.lagSecondsMax * 1000];
  try {
    return { nowMs, lagMsMax, status: readArchiveStatus(archive, nowMs) };
  } catch (error) {
    log.error({ err: error }, 'the archive cannot be read');
    return { nowMs, lagMsMax, status: null };
  }
}

/** The application that routes and hooks are added to; the types of a handler follow from the schema of its route. */
export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

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
