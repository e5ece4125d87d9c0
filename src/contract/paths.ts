/** Routes of the market data service, relative to its base URL. Plain strings, so that importing them loads no schema. */
export const paths = {
  markets: '/api/v1/markets',
  ticks: '/api/v1/ticks',
  orderbook: '/api/v1/orderbook',
  backtest: '/api/v1/backtest',
  researchBacktest: '/api/v1/research/backtest',
  bots: '/api/v1/bots',
  strategies: '/api/v1/strategies',
  /** Planned by the upstream and not specified yet; oddslake serves it and the following routes. */
  historicalMarkets: '/api/v1/historical/markets',
  historicalTicks: '/api/v1/historical/ticks',
  historicalCandles: '/api/v1/historical/candles',
  historicalCoverage: '/api/v1/historical/coverage',
  historicalOrderbooks: '/api/v1/historical/orderbooks',
  export: '/api/v1/export',
  /** Describes the credential of the request; oddslake only. */
  me: '/api/v1/me',
  exportFiles: '/api/v1/export/files',
  exportJobs: '/api/v1/export/jobs',
  openapi: '/api/v1/openapi.json',
  documentation: '/docs',
  health: '/healthz',
  ready: '/readyz',
  metrics: '/metrics',
  catalogue: '/',
} as const;
