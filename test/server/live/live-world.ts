import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Archive } from '../../../src/archive/archive.ts';
import type { Clock, Log } from '../../../src/base/ports.ts';
import { systemClock, systemRandom } from '../../../src/base/system.ts';
import type { Context } from '../../../src/context/context.ts';
import { openConfiguredArchive } from '../../../src/context/open-configured.ts';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import type { SandboxOptions } from '../../../src/sandbox/sandbox-options.ts';
import { withWorkspace } from '../../../src/server/open-workspace.ts';
import { startService } from '../../../src/server/run-service.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { createContext } from '../../harness/job-context.ts';
import { scratchRoot } from '../../harness/scratch-root.ts';

// A service with live reads, an archive on disk, and the sandbox as its upstream, or one sandbox for each of several sources.
// The wall clock stands until `advance`.

export const startMs = Date.UTC(2026, 5, 4, 12);

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** The fields of all routes; a response has those of its own. */
  readonly body: {
    readonly ticks: readonly { readonly t: number; readonly p: number }[];
    readonly count: number;
    readonly from: number;
    readonly to: number;
    readonly gaps?: { from: number; to: number }[];
    readonly markets: readonly Record<string, unknown>[];
    readonly bids: readonly unknown[];
    readonly asks: readonly unknown[];
    readonly code: string;
    readonly generated_at: number;
    readonly data_time: number | null;
  };
}

export interface LiveWorld {
  readonly box: Sandbox;
  /** The sandboxes of the sources, by name; `box` is the first of them. Empty with one service. */
  readonly boxes: ReadonlyMap<string, Sandbox>;
  readonly root: string;
  readonly clock: Clock;
  readonly log: readonly { readonly level: string; readonly message: string; readonly facts: object }[];
  advance(ms: number): void;
  /** Settings for a job on the same archive and upstream. */
  context(...set: string[]): Promise<Context>;
  /** Settings for a job on another archive, which polls a service of this one. */
  copyContext(service: LiveService, ...set: string[]): Promise<Context>;
  serve(...set: string[]): Promise<LiveService>;
}

export interface LiveService {
  readonly url: string;
  readonly key: string;
  /** The archive that the service has open. */
  readonly archive: Archive;
  get(path: string): Promise<Answer>;
  /** Value of a counter of live reads. */
  count(outcome: string): Promise<number>;
  stop(): Promise<void>;
}

/** @param sources names of the sources, which list the same symbols with other ticks; by default one service */
export async function startWorld(
  options: Partial<SandboxOptions> = {},
  sources: readonly string[] = [],
): Promise<LiveWorld> {
  const root = mkdtempSync(join(scratchRoot, 'oddslake-live-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  let offset = 0;
  const clock: Clock = {
    nowMs: () => startMs + offset,
    monotonicMs: () => systemClock.monotonicMs() + offset,
    sleep: systemClock.sleep,
  };
  const startBox = async (more: Partial<SandboxOptions>): Promise<Sandbox> => {
    const started = await startSandbox({ markets: 6, ticksPerDay: 86_400, ...options, ...more }, { clock });
    onTestFinished(() => started.stop());
    return started;
  };
  const boxes = new Map<string, Sandbox>();
  for (const [i, name] of sources.entries()) boxes.set(name, await startBox({ ticksPerDay: 86_400 / (i + 1) }));
  const box = [...boxes.values()][0] ?? (await startBox({}));
  const config = join(root, 'config.yaml');
  const lines = [...boxes].map(([name, { url }]) => `  ${name}: {base_url: "${url}", api_key: sandbox-key}\n`);
  if (lines.length > 0) writeFileSync(config, `sources:\n${lines.join('')}`);
  const log: { level: string; message: string; facts: object }[] = [];
  const at =
    (level: string) =>
    (facts: object, message: string): void =>
      void log.push({ level, message, facts });
  const logger: Log = { debug() {}, info: at('info'), warn: at('warn'), error: at('error') };

  const context = (...set: string[]): Promise<Context> =>
    contextOf({ url: box.url, key: 'sandbox-key', output: join(root, 'archive') }, set, boxes.size > 0 ? config : null);

  async function contextOf(
    { url, key, output }: { readonly url: string; readonly key: string; readonly output: string },
    set: readonly string[],
    configOfSources: string | null = null,
  ): Promise<Context> {
    const settings = await loadSettings({
      env: configOfSources === null ? { ODDSLAKE_BASE_URL: url, ODDSLAKE_API_KEY: key } : {},
      cwd: tmpdir(),
      output,
      ...(configOfSources !== null && { config: configOfSources }),
      set: [
        ...(configOfSources === null ? ['source.name=box'] : []),
        'upstream.requests_per_second=5000',
        'report.nightly=false',
        'archive.parts=1',
        'archive.candles=[]',
        'service.port=0',
        'service.live.enabled=true',
        'service.connections_per_address_max=2000',
        ...set,
      ],
    });
    return createContext({ settings, clock, log: logger, waitMs: 5000, canCreateArchive: true, random: systemRandom });
  }

  async function serve(...set: string[]): Promise<LiveService> {
    const own = await context(...set);
    const archive = openConfiguredArchive(own, true);
    const close = once(archive.close);
    onTestFinished(close);
    const { key } = await withWorkspace(own, (workspace) =>
      workspace.createKey({ name: 'test', expiresAt: null, requestsPerMinute: 10_000_000 }, clock.nowMs()),
    );
    const service = await startService(own, archive);
    const stop = once(service.stop);
    onTestFinished(stop);
    const headers = { authorization: `Bearer ${key}` };
    return {
      url: service.url,
      key,
      archive,
      async get(path) {
        const response = await fetch(`${service.url}/api/v1/${path}`, { headers });
        return { status: response.status, headers: response.headers, body: (await response.json()) as Answer['body'] };
      },
      async count(outcome) {
        const text = await (await fetch(`${service.url}/metrics`)).text();
        const [, value] = new RegExp(`oddslake_live_requests\\{outcome="${outcome}"\\} (\\d+)`).exec(text) ?? [];
        return Number(value);
      },
      async stop() {
        await stop();
        close();
      },
    };
  }
  return {
    box,
    boxes,
    root: join(root, 'archive'),
    clock,
    log,
    advance(ms) {
      offset += ms;
    },
    context,
    copyContext: ({ url, key }, ...set) =>
      contextOf({ url, key, output: join(root, 'copy') }, ['source.name=copy', 'service.live.enabled=false', ...set]),
    serve,
  };
}

function once<T>(work: () => T): () => T {
  let result: { readonly value: T } | undefined;
  return () => {
    result ??= { value: work() };
    return result.value;
  };
}
