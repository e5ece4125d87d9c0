import type { Proof } from './proofs.ts';

const at = (title: string): Proof => ['e2e/backtest.test.ts', title];

const byHand = at('buy and hold gives what was computed by hand, on the terminal and as the whole result in --json');
const narrowed = at('symbols, categories, sources, times and parameters narrow what is run');
const grid = at('a grid is chosen by the span but for its end, told best first, and judged on the end');
const page = at('is written whole in place of what was there, and needs nothing beside it');
const kept = at('--save keeps it for list and show, which write its page again; without it there is nothing');
const owned = at(
  'a strategy that a user keeps is run by its name for that user, before one of everybody, and for nobody else',
);

export const backtestCommands = { 'backtest run': byHand, 'backtest list': kept, 'backtest show': kept } as const;

export const backtestFlags = {
  'backtest run --objective': byHand,
  'backtest run --symbol': narrowed,
  'backtest run --symbols-file': narrowed,
  'backtest run --category': narrowed,
  'backtest run --source': narrowed,
  'backtest run --from': narrowed,
  'backtest run --to': grid,
  'backtest run --param': narrowed,
  'backtest run --grid': grid,
  'backtest run --held-out': grid,
  'backtest run --out': page,
  'backtest run --save': kept,
  'backtest run --user': owned,
  'backtest run --workspace': owned,
  'backtest show --out': kept,
} as const;
