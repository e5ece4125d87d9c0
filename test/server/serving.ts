import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { tryLock } from '../../src/archive/journal/lock.ts';
import { openArchive } from '../../src/archive/open-archive.ts';
import { watchManifest } from '../../src/archive/read/manifest-watcher.ts';
import { openVerifiedFiles } from '../../src/archive/read/verified-files.ts';
import type { Clock, Log } from '../../src/base/ports.ts';
import { systemClock, systemRandom, systemRandomBytes } from '../../src/base/system.ts';
import { openPageSessions } from '../../src/server/auth/page-sessions.ts';
import { createService } from '../../src/server/create-service.ts';
import { type ServiceLimits, serviceLimits, stopService } from '../../src/server/http/connection-limits.ts';
import type { App, PageSessions } from '../../src/server/http/service-context.ts';
import type { DatabaseLocation } from '../../src/server/workspace/database-url.ts';
import { openWorkspace, type Workspace } from '../../src/server/workspace/workspace.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { clockAt, now, scratchFolder, upstreamName } from '../archive/scratch.ts';
import { scratchRoot } from '../harness/scratch-root.ts';
import { createResponseCheck, isJson } from './documented.ts';
import { hashPublished } from './made-once.ts';

// Test setup: the real server on loopback over a real archive, with a real key and a stopped clock.

export interface ServingOptions {
  /** Settings as for `--set`: `service.ticks_limit_max=10`. */
  readonly set?: readonly string[];
  readonly clock?: Clock;
  readonly log?: Log;
  /** The service's database; by default a new SQLite file. */
  readonly database?: DatabaseLocation;
  /** Limits for clients that differ from the defaults. */
  readonly limits?: Partial<ServiceLimits>;
}

export interface Serving {
  readonly url: string;
  readonly archive: Archive;
  readonly sessions: PageSessions;
  /** A market data key. */
  readonly key: string;
  readonly workspace: Workspace;
  /** Stops the service before the end of the test. */
  stop(): Promise<void>;
  readonly app: App;
  /**
   * Sends a request with the key, unless `headers` has another authorization; an empty one sends none.
   * @throws if the response does not match the OpenAPI document
   */
  ask(path: string, init?: RequestInit): Promise<Response>;
  /** The same, with the body parsed as JSON. */
  json<T = Record<string, unknown>>(
    path: string,
    init?: RequestInit,
  ): Promise<{ status: number; headers: Headers; body: T }>;
}

/** A stopped clock on which job runners look for jobs continuously instead of every two seconds. Time limits stay as they are. */
export const restlessAt = (now: number): Clock => ({
  ...clockAt(now),
  sleep: (ms, signal) => systemClock.sleep(ms <= 2_000 ? ms / 100 : ms, signal),
});

/** Keeps all backtests of an archive waiting; call it before a service starts. Returns the function that ends it. */
export function holdJobs({ layout }: Archive): () => void {
  mkdirSync(layout.privateFolder, { recursive: true });
  return tryLock(join(layout.privateFolder, 'backtests.lock'))!.release;
}

/** A test that leaves a response unread does not wait long for the service to stop. */
const shutdownMsMax = 500;

const silent: Log = { debug() {}, info() {}, warn() {}, error() {} };

const urlOf = (location: DatabaseLocation): string =>
  location.kind === 'sqlite' ? `sqlite:${location.path}` : location.url;

/** Serves an archive until the test ends. */
export async function serving(archive: Archive, options: ServingOptions = {}): Promise<Serving> {
  const service = await served(archive, options, scratchFolder());
  onTestFinished(service.stop);
  return service;
}

/**
 * A service shared by tests that do not affect each other. A test that changes a published file fails them.
 * @param copyTo copies an archive into the given folder; by default the archive is new
 */
export function sharedServing(
  options: ServingOptions = {},
  copyTo: (root: string) => Promise<void> = async () => {},
): () => Serving {
  let service: Serving | undefined;
  const end: (() => unknown)[] = [];
  beforeAll(async () => {
    const folder = mkdtempSync(join(scratchRoot, 'oddslake-shared-'));
    end.unshift(() => rmSync(folder, { recursive: true }));
    const root = join(folder, 'archive');
    await copyTo(root);
    const opening = { create: true, upstream: upstreamName, parts: 4, writer: 'oddslake test' };
    const archive = openArchive({ root, ...opening }, systemDisk);
    end.unshift(archive.close);
    const before = hashPublished(root);
    end.unshift(() => expect(hashPublished(root)).toEqual(before));
    service = await served(archive, options, folder);
    end.unshift(service.stop);
  });
  afterAll(async () => {
    for (const one of end) await one();
  });
  return () => service!;
}

async function served(archive: Archive, options: ServingOptions, folder: string): Promise<Serving> {
  const { set = [], clock = clockAt(now), log = silent, limits = {} } = options;
  const { database } = options;
  // A given database is named by its URL, as an operator does.
  const named = database === undefined ? [] : [`service.database_url=${urlOf(database)}`];
  // The tests of credentials need a service that asks for them; on loopback, the catalogue would be open by default.
  const keyed = ['service.public_catalogue=false'];
  const settings = await loadSettings({ env: {}, cwd: folder, set: ['service.port=0', ...keyed, ...named, ...set] });
  const workspace = await openWorkspace({
    location: database ?? { kind: 'sqlite', path: `${folder}/service.sqlite` },
    tokens: settings.service.tokens,
    randomBytes: systemRandomBytes,
    clock,
    log,
  });
  const { key } = await workspace.createKey(
    { name: 'test', expiresAt: null, requestsPerMinute: 1_000_000 },
    clock.nowMs(),
  );
  const sessions = openPageSessions(clock, systemRandomBytes);
  const stop = new AbortController();
  const app = await createService(
    {
      archive,
      current: watchManifest(archive),
      files: openVerifiedFiles(archive, settings.service.cacheBytesMax),
      workspace,
      settings,
      clock,
      log,
      random: systemRandom,
      version: '0.0.0-test',
      sessions,
      signal: stop.signal,
    },
    { ...serviceLimits, ...limits },
  );
  const check = createResponseCheck(app.swagger());
  const url = await app.listen({ host: settings.service.host, port: settings.service.port });
  let stopping: Promise<void> | undefined;
  async function end(): Promise<void> {
    stop.abort();
    await stopService(app, systemClock, limits.shutdownMsMax ?? shutdownMsMax);
    await workspace.close();
  }
  const stopNow = (): Promise<void> => (stopping ??= end());
  const ask = async (path: string, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers);
    if (!headers.has('authorization')) headers.set('authorization', `Bearer ${key}`);
    if (headers.get('authorization') === '') headers.delete('authorization');
    const answer = await fetch(`${url}${path}`, { ...init, headers });
    // JSON only: other bodies may be long, or tests read them slowly.
    const body = isJson(answer.headers) ? await answer.clone().text() : undefined;
    check({ method: init.method ?? 'GET', path, status: answer.status, headers: answer.headers, body });
    return answer;
  };
  return {
    url,
    archive,
    key,
    sessions,
    workspace,
    app,
    ask,
    stop: stopNow,
    async json<T>(path: string, init?: RequestInit) {
      const answer = await ask(path, init);
      return { status: answer.status, headers: answer.headers, body: (await answer.json()) as T };
    },
  };
}
