/** What the sandbox answers to: the service interface's own read routes, and one of its own. */
export const paths = {
  markets: '/api/v1/markets',
  ticks: '/api/v1/ticks',
  orderbook: '/api/v1/orderbook',
  /** Counters of this sandbox; no key needed, never counted, limited or faulted. */
  stats: '/sandbox/stats',
} as const;
