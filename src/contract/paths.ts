/** Routes of the market data service, relative to its base URL. This file imports no schema, so that it loads fast. */
export const paths = {
  markets: '/api/v1/markets',
  ticks: '/api/v1/ticks',
  /** An extension of oddslake. */
  ticksStream: '/api/v1/ticks/stream',
  orderbook: '/api/v1/orderbook',
  backtest: '/api/v1/backtest',
  researchBacktest: '/api/v1/research/backtest',
  bots: '/api/v1/bots',
  strategies: '/api/v1/strategies',
  /**
   * The routes below this path, by the names of datasets, and the following ones are oddslake's. The upstream has announced
   * some of them without a specification.
   */
  historical: '/api/v1/historical',
  export: '/api/v1/export',
  /** Describes the credential of the request; oddslake only. */
  me: '/api/v1/me',
  /** Search in the symbols; oddslake only. */
  symbols: '/api/v1/symbols',
  /** Sample rows of a dataset, for the catalogue page only. */
  samples: '/api/v1/catalogue/samples',
  /** Sessions of the catalogue page; oddslake only. */
  session: '/api/v1/session',
  exportFiles: '/api/v1/export/files',
  openapi: '/api/v1/openapi.json',
  documentation: '/docs',
  /** The page that explains every problem code. */
  problems: '/docs/problems',
  health: '/healthz',
  ready: '/readyz',
  metrics: '/metrics',
  catalogue: '/',
} as const;
