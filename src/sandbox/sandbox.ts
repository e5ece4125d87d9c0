import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { UsageError } from '../base/errors.ts';
import type { Clock } from '../base/ports.ts';
import type { TickColumns } from '../base/ticks.ts';
import type { Window } from '../base/window.ts';
import type { Feed } from './data-source.ts';
import type { ChangeableOptions, SandboxOptions } from './options.ts';
import { applyOptionChanges, checkSandboxOptions } from './options-check.ts';
import { computeVisibleTicks } from './query-ticks.ts';
import { createRequestListener } from './server.ts';
import { createSimulatedFeed } from './simulated-feed.ts';
import { createStatsRecorder, type SandboxStats } from './stats.ts';

export interface SandboxDeps {
  readonly clock: Clock;
  /** Ticks and markets; without one they are simulated from the options. */
  readonly feed?: Feed;
}

export interface Sandbox {
  /** Origin, without a slash at the end. */
  readonly url: string;
  stats(): SandboxStats;
  /** Symbols known by now, resolved ones included. */
  symbols(): string[];
  /**
   * The ticks of a window as far as they can be seen at `asOfMs` (default: now), by rising time. A moment far ahead
   * gives the final truth, of ticks yet to come too.
   * @throws UsageError for a symbol unknown now
   */
  readTruth(symbol: string, window: Window, asOfMs?: number): TickColumns;
  /**
   * Changes options while it runs: another key revokes the old one, another `nowMs` moves time.
   * @throws UsageError for a bad value, and for what is fixed at the start
   */
  set(changes: ChangeableOptions): void;
  /** Ends every connection and wait, then the server; may be called again. */
  stop(): Promise<void>;
}

/**
 * Serves the upstream's read interface on 127.0.0.1.
 * @throws UsageError for bad options; the system's error where the port is taken
 */
export async function startSandbox(given: Partial<SandboxOptions>, { clock, feed }: SandboxDeps): Promise<Sandbox> {
  let options = checkSandboxOptions(given);
  const source = feed ?? createSimulatedFeed(options);
  const stats = createStatsRecorder(() => clock.monotonicMs());
  const nowMs = () => options.nowMs ?? clock.nowMs();
  const stopping = new AbortController();
  const parts = { feed: source, clock, stats, options: () => options, nowMs, stopping: stopping.signal };
  const server = createServer({ keepAliveTimeout: 60_000 }, createRequestListener(parts));
  server.listen(options.port, '127.0.0.1');
  await once(server, 'listening');
  const closed = once(server, 'close');

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stats: () => stats.snapshot(),
    symbols: () => source.symbols(nowMs()),
    readTruth(symbol, window, asOfMs = nowMs()) {
      if (source.getLifetime(symbol, nowMs()) === undefined) throw new UsageError(`sandbox: unknown symbol ${symbol}`);
      return computeVisibleTicks(source.ticks(symbol, window), symbol, asOfMs, options);
    },
    set(changes) {
      options = applyOptionChanges(changes, options);
    },
    async stop() {
      stopping.abort(new Error('the sandbox has stopped'));
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
