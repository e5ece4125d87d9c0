import type { Condition, MeasureName, Rule, Strategy } from './strategy.ts';

/** A strategy that everybody has, by name. */
export interface Executable {
  readonly name: string;
  readonly says: string;
  readonly strategy: Strategy;
}

const hourMs = 3_600_000;

const always: Condition = { all: [] };
const is = (parameter: string) => ({ parameter });
const minus = (parameter: string) => ({ parameter, times: -1 });
const over = (measure: MeasureName) => ({ measure, window_ms: is('window_ms') });

const rule = (side: Rule['side'], entry: Condition, exit: Condition | null): Rule => ({
  side,
  entry,
  exit,
  size: { contracts: is('contracts') },
  // What is sold may be bought again; what is held until its end was bought once.
  entries_max: exit === null ? 1 : null,
});

/** Size and costs are named alike everywhere. */
const executable = (
  name: string,
  says: string,
  parameters: Readonly<Record<string, number>>,
  rules: readonly Rule[],
): Executable => ({
  name,
  says,
  strategy: {
    parameters: { contracts: 1, fee_per_contract: 0, slippage: 0, ...parameters },
    rules,
    fees: { per_contract: is('fee_per_contract'), of_notional: 0, of_variance: 0 },
    slippage: is('slippage'),
  },
});

export const executables: readonly Executable[] = [
  executable('buy_and_hold', 'buys yes at once and holds it until it is settled', {}, [rule('yes', always, null)]),
  executable('threshold', 'buys yes below one price and sells it above another', { buy_below: 0.2, sell_above: 0.5 }, [
    rule('yes', { measure: 'price', below: is('buy_below') }, { measure: 'price', above: is('sell_above') }),
  ]),
  executable(
    'mean_reversion',
    'bets on a return to the moving average: enters where the price is so many standard deviations off, exits near it',
    { window_ms: 6 * hourMs, enter_beyond: 2, exit_within: 0.5 },
    [
      rule(
        'yes',
        { ...over('z_score'), below: minus('enter_beyond') },
        { ...over('z_score'), above: minus('exit_within') },
      ),
      rule('no', { ...over('z_score'), above: is('enter_beyond') }, { ...over('z_score'), below: is('exit_within') }),
    ],
  ),
  executable(
    'momentum',
    'follows a move: buys yes after a rise, no after a fall, and sells once the price has turned',
    { window_ms: hourMs, move_beyond: 0.1 },
    [
      rule('yes', { ...over('return'), above: is('move_beyond') }, { ...over('return'), below: 0 }),
      rule('no', { ...over('return'), below: minus('move_beyond') }, { ...over('return'), above: 0 }),
    ],
  ),
  executable(
    'favourite_longshot',
    'buys yes of favourites and no of longshots, each once, and holds them until they are settled',
    { favourite_at_least: 0.9, longshot_at_most: 0.1 },
    [
      rule('yes', { measure: 'price', at_least: is('favourite_at_least') }, null),
      rule('no', { measure: 'price', at_most: is('longshot_at_most') }, null),
    ],
  ),
  executable(
    'cross_venue_spread',
    'buys yes where a market is cheaper than on its other venues, and no where it is dearer, until the two are near',
    { window_ms: hourMs, enter_beyond: 0.05, exit_within: 0.01 },
    [
      rule(
        'yes',
        { ...over('venue_spread'), below: minus('enter_beyond') },
        { ...over('venue_spread'), above: minus('exit_within') },
      ),
      rule(
        'no',
        { ...over('venue_spread'), above: is('enter_beyond') },
        { ...over('venue_spread'), below: is('exit_within') },
      ),
    ],
  ),
];
