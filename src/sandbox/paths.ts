import { paths as service } from '../contract/paths.ts';

/** What the sandbox answers to: the service interface's own read routes, and one of its own. */
export const sandboxPaths = {
  markets: service.markets,
  ticks: service.ticks,
  orderbook: service.orderbook,
  /** Counters of this sandbox; no key needed, never counted, limited or faulted. */
  stats: '/sandbox/stats',
} as const;
