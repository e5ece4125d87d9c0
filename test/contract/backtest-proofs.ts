import type { Proof } from './proofs.ts';

const at = (title: string): Proof => ['e2e/backtest.test.ts', title];

const byHand = at('buy and hold gives the results computed by hand, as text and JSON');
const narrowed = at('selects by symbols, categories, sources and times, and sets parameters');
const grid = at('a grid is chosen in sample, listed best first, and evaluated on held-out data');
const page = at('replaces an existing file atomically and is self-contained');
const kept = at('--save saves a backtest for list and show');
const costs = at('--fees and --whole-contracts replace those of the strategy');
const trades = at('--trades writes all trades to a file, atomically');
const owned = at('runs a saved strategy of the user before a built-in one');

export const backtestCommands = { 'backtest run': byHand, 'backtest list': kept, 'backtest show': kept } as const;

export const backtestFlags = {
  'backtest run --objective': byHand,
  'backtest run --symbol': narrowed,
  'backtest run --symbols-file': narrowed,
  'backtest run --category': narrowed,
  'backtest run --source': narrowed,
  'backtest run --from': narrowed,
  'backtest run --to': grid,
  'backtest run --since': ['e2e/since.test.ts', 'is a window that ends now, for gaps, exports and backtests'],
  'backtest run --param': narrowed,
  'backtest run --grid': grid,
  'backtest run --held-out': grid,
  'backtest run --fees': costs,
  'backtest run --whole-contracts': costs,
  'backtest run --out': page,
  'backtest run --trades': trades,
  'backtest run --csv-safe': trades,
  'backtest run --save': kept,
  'backtest run --user': owned,
  'backtest run --workspace': owned,
  'backtest show --out': kept,
} as const;
