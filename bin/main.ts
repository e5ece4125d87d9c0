import { main } from '../src/cli/main.ts';

process.exitCode = await main(process.argv, {
  nightly: async () => (await import('../jobs/nightly.ts')).job,
  markets: async () => (await import('../jobs/markets.ts')).job,
  ticks: async () => (await import('../jobs/ticks.ts')).job,
  orderbook: async () => (await import('../jobs/orderbook.ts')).job,
  backfill: async () => (await import('../jobs/backfill.ts')).job,
  import: async () => (await import('../jobs/import.ts')).job,
  repair: async () => (await import('../jobs/repair.ts')).job,
  verify: async () => (await import('../jobs/verify.ts')).job,
  publish: async () => (await import('../jobs/publish.ts')).job,
});
