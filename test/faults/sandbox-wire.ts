import type { OpenTransport } from '../../src/client/transport.ts';
import type { Feed } from '../../src/sandbox/feed.ts';
import { sandboxPaths } from '../../src/sandbox/responses.ts';
import { handleMarkets, handleOrderbook, handleTicks, type RouteContext } from '../../src/sandbox/routes.ts';
import { checkSandboxOptions, type SandboxOptions } from '../../src/sandbox/sandbox-options.ts';
import { createSimulatedFeed } from '../../src/sandbox/simulated-feed.ts';

/** The sandbox's routes at a fixed time, called without a network. */
export function sandboxWire(given: Partial<SandboxOptions>, nowMs: number): OpenTransport {
  const options = checkSandboxOptions(given);
  const feed: Feed = createSimulatedFeed(options);
  const routes = new Map([
    [sandboxPaths.markets as string, handleMarkets],
    [sandboxPaths.ticks, handleTicks],
    [sandboxPaths.orderbook, handleOrderbook],
  ]);
  // The feed knows a symbol once the lists named it.
  feed.markets(nowMs);
  return () => ({
    async get(request, signal, onHead) {
      signal.throwIfAborted();
      const { pathname, searchParams } = new URL(request, 'http://sandbox.test');
      const context: RouteContext = {
        feed,
        options,
        nowMs,
        requestNumber: 0,
        symbolRequestNumber: 1,
        bodyFault: undefined,
      };
      const { status, headers, body } = routes.get(pathname)!(searchParams, context);
      const head = { status, headers: { ...headers } };
      onHead(head);
      const bytes = Buffer.from(body);
      return { ...head, bytes, bytesReceived: bytes.length };
    },
    close: async () => {},
  });
}
