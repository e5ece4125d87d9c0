import { hourMs } from '../../base/window.ts';
import type { Condition, MeasureName, Rule, Strategy } from '../../contract/strategy-language.ts';

export interface BuiltinStrategy {
  readonly name: string;
  readonly description: string;
  readonly strategy: Strategy;
}

const alwaysTrue: Condition = { all: [] };
const useParameter = (parameter: string) => ({ parameter });
const negateParameter = (parameter: string) => ({ parameter, times: -1 });
const measureOverWindow = (measure: MeasureName) => ({ measure, window_ms: useParameter('window_ms') });

const createRule = (side: Rule['side'], entry: Condition, exit: Condition | null): Rule => ({
  side,
  entry,
  exit,
  size: { contracts: useParameter('contracts') },
  // With an exit, a symbol can be entered again; without an exit, once.
  entries_max: exit === null ? 1 : null,
});

/** All built-in strategies share the parameters of size and costs. */
const createBuiltinStrategy = (
  name: string,
  description: string,
  parameters: Readonly<Record<string, number>>,
  rules: readonly Rule[],
): BuiltinStrategy => ({
  name,
  description,
  strategy: {
    parameters: { contracts: 1, fee_per_contract: 0, slippage: 0, ...parameters },
    rules,
    fees: { per_contract: useParameter('fee_per_contract'), of_notional: 0, of_variance: 0 },
    slippage: useParameter('slippage'),
    whole_contracts: null,
  },
});

export const builtinStrategies: readonly BuiltinStrategy[] = [
  createBuiltinStrategy('buy_and_hold', 'buys yes at the first tick and holds it until settlement', {}, [
    createRule('yes', alwaysTrue, null),
  ]),
  createBuiltinStrategy(
    'threshold',
    'buys yes below one price and sells it above another',
    { buy_below: 0.2, sell_above: 0.5 },
    [
      createRule(
        'yes',
        { measure: 'price', below: useParameter('buy_below') },
        { measure: 'price', above: useParameter('sell_above') },
      ),
    ],
  ),
  createBuiltinStrategy(
    'mean_reversion',
    'bets on a return to the moving average: enters at more than enter_beyond standard deviations from it, exits at less than exit_within',
    { window_ms: 6 * hourMs, enter_beyond: 2, exit_within: 0.5 },
    [
      createRule(
        'yes',
        { ...measureOverWindow('z_score'), below: negateParameter('enter_beyond') },
        { ...measureOverWindow('z_score'), above: negateParameter('exit_within') },
      ),
      createRule(
        'no',
        { ...measureOverWindow('z_score'), above: useParameter('enter_beyond') },
        { ...measureOverWindow('z_score'), below: useParameter('exit_within') },
      ),
    ],
  ),
  createBuiltinStrategy(
    'momentum',
    'follows a move: buys yes after a rise and no after a fall, and sells when the price reverses',
    { window_ms: hourMs, move_beyond: 0.1 },
    [
      createRule(
        'yes',
        { ...measureOverWindow('return'), above: useParameter('move_beyond') },
        { ...measureOverWindow('return'), below: 0 },
      ),
      createRule(
        'no',
        { ...measureOverWindow('return'), below: negateParameter('move_beyond') },
        { ...measureOverWindow('return'), above: 0 },
      ),
    ],
  ),
  createBuiltinStrategy(
    'favourite_longshot',
    'buys yes on favourites and no on longshots, once per symbol, and holds them until settlement',
    { favourite_at_least: 0.9, longshot_at_most: 0.1 },
    [
      createRule('yes', { measure: 'price', at_least: useParameter('favourite_at_least') }, null),
      createRule('no', { measure: 'price', at_most: useParameter('longshot_at_most') }, null),
    ],
  ),
  createBuiltinStrategy(
    'cross_venue_spread',
    'buys yes if a market is cheaper than on other venues or no if it is more expensive, and sells when the prices converge',
    { window_ms: hourMs, enter_beyond: 0.05, exit_within: 0.01 },
    [
      createRule(
        'yes',
        { ...measureOverWindow('venue_spread'), below: negateParameter('enter_beyond') },
        { ...measureOverWindow('venue_spread'), above: negateParameter('exit_within') },
      ),
      createRule(
        'no',
        { ...measureOverWindow('venue_spread'), above: useParameter('enter_beyond') },
        { ...measureOverWindow('venue_spread'), below: useParameter('exit_within') },
      ),
    ],
  ),
];
