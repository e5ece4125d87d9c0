import type { Feed } from '../../src/sandbox/data-source.ts';
import type { SandboxOptions } from '../../src/sandbox/options.ts';
import { checkSandboxOptions } from '../../src/sandbox/options-check.ts';
import { paths } from '../../src/sandbox/paths.ts';
import { marketsRoute, orderbookRoute, type RouteContext, ticksRoute } from '../../src/sandbox/routes.ts';
import { simulatedFeed } from '../../src/sandbox/simulated-feed.ts';
import type { OpenWire } from '../../src/upstream/transport.ts';

/** The sandbox's own routes at one moment, without a network between them and who asks. */
export function sandboxWire(given: Partial<SandboxOptions>, nowMs: number): OpenWire {
  const options = checkSandboxOptions(given);
  const feed: Feed = simulatedFeed(options);
  const routes = new Map([
    [paths.markets as string, marketsRoute],
    [paths.ticks, ticksRoute],
    [paths.orderbook, orderbookRoute],
  ]);
  // A symbol is known to the feed once the lists named it.
  feed.markets(nowMs);
  return () => ({
    async get(asked, signal, onHead) {
      signal.throwIfAborted();
      const { pathname, searchParams } = new URL(asked, 'http://sandbox.test');
      const context: RouteContext = { feed, options, nowMs, n: 0, nOfSymbol: 1, untruth: undefined };
      const { status, headers, body } = routes.get(pathname)!(searchParams, context);
      const head = { status, headers: { ...headers } };
      onHead(head);
      const bytes = Buffer.from(body);
      return { ...head, bytes, bytesReceived: bytes.length };
    },
    close: async () => {},
  });
}
