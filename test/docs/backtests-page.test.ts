import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { objectives } from '../../src/backtest/engine/objectives.ts';
import { builtinStrategies } from '../../src/backtest/strategy/builtin-strategies.ts';
import { describeExecutables } from '../../src/cli/commands/backtest.ts';
import { formatParameters } from '../../src/report/backtest-figures.ts';
import { readPage } from './blocks.ts';
import { project } from './kept-current.ts';

const text = readPage('docs/BACKTESTS.md');

test('docs/BACKTESTS.md lists every strategy and objective, and its links have targets', () => {
  for (const { name, description, strategy } of builtinStrategies) {
    const { contracts, fee_per_contract, slippage, ...ownParameters } = strategy.parameters;
    expect([contracts, fee_per_contract, slippage]).toEqual([1, 0, 0]);
    const parameterText = formatParameters(ownParameters);
    expect(text).toContain(`| \`${name}\` | ${description} |${parameterText === '' ? '' : ` ${parameterText}`} |\n`);
  }
  for (const [name, { description }] of Object.entries(objectives))
    expect(text).toContain(`| \`${name}\` | ${description} |\n`);
  expect(Object.keys(describeExecutables(builtinStrategies))).toContain('all of them');
  for (const [, link] of text.matchAll(/\]\(([\w./-]+)\)/g))
    expect(existsSync(join(project, 'docs', link!)), link).toBe(true);
});
