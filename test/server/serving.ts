import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, onTestFinished } from 'vitest';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { tryLock } from '../../src/archive/journal/lock.ts';
import { type Archive, openArchive } from '../../src/archive/open-archive.ts';
import { watchManifest } from '../../src/archive/read/manifest-watcher.ts';
import { openVerifiedFiles } from '../../src/archive/read/verified-files.ts';
import type { Clock, Log } from '../../src/base/ports.ts';
import { systemClock, systemRandom, systemRandomBytes } from '../../src/base/system.ts';
import { type ServiceLimits, serviceLimits } from '../../src/server/http/connection-limits.ts';
import type { App } from '../../src/server/http/context.ts';
import { createService } from '../../src/server/server.ts';
import type { DatabaseLocation } from '../../src/server/workspace/database-url.ts';
import { openWorkspace, type Workspace } from '../../src/server/workspace/workspace.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { clockAt, hourMs, now, scratchFolder, upstreamName } from '../archive/scratch.ts';
import { scratchRoot } from '../harness/scratch-root.ts';
import { documented, isJson } from './documented.ts';

// The wiring of the tests of the service: the real server on loopback over a real archive, a real key, a clock that stands.

export interface ServingOptions {
  /** As `--set` has them: `service.ticks_limit_max=10`. */
  readonly set?: readonly string[];
  readonly clock?: Clock;
  readonly log?: Log;
  /** The service's own database; by default a SQLite file of the test's own. */
  readonly database?: DatabaseLocation;
  /** What a client may take, where it is to be less than usual. */
  readonly limits?: Partial<ServiceLimits>;
}

export interface Serving {
  readonly url: string;
  /** A market data key. */
  readonly key: string;
  readonly workspace: Workspace;
  /** Stops it before the test is over. */
  stop(): Promise<void>;
  readonly app: App;
  /**
   * Asks with the key, unless `headers` have another authorization; an empty one sends none.
   * @throws where the answer is not one that the OpenAPI document describes
   */
  ask(path: string, init?: RequestInit): Promise<Response>;
  /** The same, its body read as JSON. */
  json<T = Record<string, unknown>>(
    path: string,
    init?: RequestInit,
  ): Promise<{ status: number; headers: Headers; body: T }>;
}

/** A clock that stands, on which those that work off jobs look for more all the time, and not every two seconds. */
export const restless: Clock = { ...clockAt(now), sleep: (ms, signal) => systemClock.sleep(ms / 100, signal) };

/** Keeps all jobs of an archive waiting, where it is called before a service of it is started; gives what ends that. */
export function heldUp({ layout }: Archive, jobs: 'exports' | 'backtests'): () => void {
  mkdirSync(layout.privateFolder, { recursive: true });
  return tryLock(join(layout.privateFolder, `${jobs}.lock`))!.release;
}

const silent: Log = { debug() {}, info() {}, warn() {}, error() {} };

const urlOf = (location: DatabaseLocation): string =>
  location.kind === 'sqlite' ? `sqlite:${location.path}` : location.url;

/** Serves an archive until the test is over. */
export async function serving(archive: Archive, options: ServingOptions = {}): Promise<Serving> {
  const service = await served(archive, options, scratchFolder());
  onTestFinished(service.stop);
  return service;
}

/**
 * A service for all tests of a file or a describe, none of which changes what another one sees.
 * @param copyTo puts an archive into the folder that it is to be in; by default it is a new one
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
    const opening = { create: true, upstream: upstreamName, parts: 4, writer: 'oddslake test', settleMs: hourMs };
    const archive = openArchive({ root, ...opening }, systemDisk);
    end.unshift(archive.close);
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
  // One that is named is told as an operator does.
  const named = database === undefined ? [] : [`service.database_url=${urlOf(database)}`];
  const settings = await loadSettings({ env: {}, cwd: folder, set: ['service.port=0', ...named, ...set] });
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
      signal: stop.signal,
    },
    { ...serviceLimits, ...limits },
  );
  const check = documented(app.swagger());
  const url = await app.listen({ host: settings.service.host, port: settings.service.port });
  let stopping: Promise<void> | undefined;
  async function end(): Promise<void> {
    stop.abort();
    await app.close();
    await workspace.close();
  }
  const stopNow = (): Promise<void> => (stopping ??= end());
  const ask = async (path: string, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers);
    if (!headers.has('authorization')) headers.set('authorization', `Bearer ${key}`);
    if (headers.get('authorization') === '') headers.delete('authorization');
    const answer = await fetch(`${url}${path}`, { ...init, headers });
    // Of JSON only: what else there is may be long, or is to be read slowly.
    const body = isJson(answer.headers) ? await answer.clone().text() : undefined;
    check({ method: init.method ?? 'GET', path, status: answer.status, headers: answer.headers, body });
    return answer;
  };
  return {
    url,
    key,
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
