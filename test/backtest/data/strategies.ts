import { builtinStrategies } from '../../../src/backtest/strategy/builtin-strategies.ts';
import { bindParameters, parseStrategy } from '../../../src/backtest/strategy/parse-strategy.ts';
import type { Strategy } from '../../../src/contract/strategy-language.ts';
import { hourMs } from '../../archive/scratch.ts';

export const builtIn = (name: string): Strategy => builtinStrategies.find((one) => one.name === name)!.strategy;

export function strategyOf(json: unknown): Strategy {
  const read = parseStrategy(json);
  if ('faults' in read) throw new Error(JSON.stringify(read.faults));
  return read.strategy;
}

export const bound = (name: string, values: Record<string, number>): Strategy => {
  const read = bindParameters(builtIn(name), values);
  if ('faults' in read) throw new Error(JSON.stringify(read.faults));
  return read.strategy;
};

/** Uses all kinds of data. */
export const curious = strategyOf({
  rules: [
    {
      side: 'yes',
      entry: {
        all: [
          { measure: 'category', in: ['sports'] },
          { measure: 'confidence', above: 0.3 },
          { measure: 'time_to_close_ms', above: 20 * hourMs },
          { measure: 'price', below: { measure: 'moving_average', window_ms: 2 * hourMs } },
        ],
      },
      exit: {
        any: [
          { measure: 'gain', above: 0.03 },
          { measure: 'held_ms', above: 3 * hourMs },
        ],
      },
      size: { dollars: 5 },
    },
    {
      side: 'no',
      entry: { measure: 'confidence', below: 0.2 },
      exit: { measure: 'category', not_in: ['law'] },
      size: { contracts: 2 },
    },
  ],
  fees: { per_contract: 0.001, of_variance: 0.07 },
  slippage: 0.002,
});
