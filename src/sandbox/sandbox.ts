import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { UsageError } from '../base/errors.ts';
import type { Clock } from '../base/ports.ts';
import type { TickColumns } from '../base/ticks.ts';
import { minuteMs, type Window } from '../base/window.ts';
import { computeVisibleTicks, type Feed } from './feed.ts';
import {
  applyOptionChanges,
  type ChangeableOptions,
  checkSandboxOptions,
  type SandboxOptions,
} from './sandbox-options.ts';
import { createRequestListener } from './server.ts';
import { createSimulatedFeed } from './simulated-feed.ts';
import { createStatsRecorder, type SandboxStats } from './stats.ts';

export interface SandboxDeps {
  readonly clock: Clock;
  /** Source of ticks and markets. Default: simulated from the options. */
  readonly feed?: Feed;
}

export interface Sandbox {
  /** Origin, without a trailing slash. */
  readonly url: string;
  stats(): SandboxStats;
  /** The known symbols, including resolved symbols. */
  symbols(): string[];
  /**
   * The ticks of a window visible at `asOfMs` (default: now), ascending by time. A time far in the future returns the
   * final data, future ticks included.
   * @throws UsageError if the symbol is unknown now
   */
  readTruth(symbol: string, window: Window, asOfMs?: number): TickColumns;
  /**
   * Changes options at run time: a new key revokes the old one, a new `nowMs` moves the clock.
   * @throws UsageError for an invalid value or an option that is fixed at the start
   */
  set(changes: ChangeableOptions): void;
  /** Closes every connection, cancels every wait and stops the server. May be called again. */
  stop(): Promise<void>;
}

/**
 * Serves the upstream's read interface on 127.0.0.1.
 * @throws UsageError for invalid options; the system's error if the port is in use
 */
export async function startSandbox(given: Partial<SandboxOptions>, { clock, feed }: SandboxDeps): Promise<Sandbox> {
  let options = checkSandboxOptions(given);
  const source = feed ?? createSimulatedFeed(options);
  const stats = createStatsRecorder(() => clock.monotonicMs());
  const nowMs = () => options.nowMs ?? clock.nowMs();
  const stopping = new AbortController();
  const context = { feed: source, clock, stats, options: () => options, nowMs, stopping: stopping.signal };
  const server = createServer({ keepAliveTimeout: minuteMs }, createRequestListener(context));
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
