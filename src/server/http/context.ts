import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify';
import type { Archive } from '../../archive/archive.ts';
import type { ManifestWatcher } from '../../archive/read/manifest-watcher.ts';
import type { VerifiedFiles } from '../../archive/read/verified-files.ts';
import type { Clock, Log, Random } from '../../base/ports.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Workspace } from '../workspace/workspace.ts';
import type { LiveReads } from './live-reads.ts';
import type { PageSessions } from './page-sessions.ts';

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

/** The application that routes and hooks are added to; the types of a handler follow from the schema of its route. */
export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;
