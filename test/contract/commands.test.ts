import { expect, test } from 'vitest';
import { exitCodes } from '../../src/base/errors.ts';
import { createProgram } from '../../src/cli/main.ts';
import type { JobLoaders } from '../../src/collector/job.ts';
import { readEnvironmentLayers } from '../../src/settings/layers.ts';
import { commands, commonFlags, exitCodes as promisedCodes, variables } from './promises.ts';

const noJob = () => Promise.reject(new Error('commands must not run in this test'));
const jobs = new Proxy({}, { get: () => noJob }) as JobLoaders;
const program = await createProgram('0.0.0', jobs, () => {});
/** Commands with an action by their full names: `serve`, `keys create`. */
const byName = new Map(
  program.commands.flatMap((command) =>
    // A command with subcommands has an action of its own if it has flags.
    command.commands.length === 0 || command.options.length > 0
      ? [
          [command.name(), command] as const,
          ...command.commands.map((each) => [`${command.name()} ${each.name()}`, each] as const),
        ]
      : command.commands.map((each) => [`${command.name()} ${each.name()}`, each] as const),
  ),
);

test('every promised command and flag exists', () => {
  expect([...byName.keys()].sort()).toEqual(expect.arrayContaining(Object.keys(commands).sort()));
  for (const [name, flags] of Object.entries(commands)) {
    const known = byName.get(name)!.options.map((option) => option.long);
    expect(known, name).toEqual(expect.arrayContaining([...flags]));
  }
});

test('every command is promised', () => {
  expect([...byName.keys()].sort()).toEqual(Object.keys(commands).sort());
});

test('every command accepts the common flags and lists those that it uses', () => {
  const reads = ['--no-progress', '--wait', '--strict'];
  const idle: Readonly<Record<string, readonly string[]>> = {
    status: reads,
    gaps: reads,
    symbols: reads,
    tail: reads,
    sql: reads,
    changes: reads,
    report: reads,
    'backtest run': ['--wait'],
    'backtest list': reads,
    'backtest show': reads,
    export: ['--wait', '--strict'],
    snapshot: ['--wait', '--strict'],
    push: ['--wait'],
    pull: ['--output', '--strict'],
    serve: reads,
    'keys create': reads,
    'keys list': reads,
    'keys rotate': reads,
    'keys revoke': reads,
    'keys usage': reads,
    'tokens list': reads,
    'tokens revoke': reads,
    'tokens issue': ['--output', ...reads],
    doctor: ['--no-progress', '--wait'],
    completion: ['--config', '--output', '--set', ...reads],
    'config show': reads,
    'config check': reads,
    'gaps accept': ['--no-progress', '--strict'],
    'gaps revoke': ['--no-progress', '--strict'],
    'symbols forget': ['--no-progress', '--strict'],
    'symbols watch': ['--no-progress', '--strict'],
    schedule: ['--no-progress'],
    sandbox: ['--config', '--output', '--set', ...reads],
    // init writes the config and describes these flags differently.
    init: ['--config', '--quiet', '--log-level', '--no-progress', '--wait', '--strict'],
  };
  for (const [name, command] of byName) {
    const help = command.helpInformation();
    const taken = command.options.map((option) => option.long);
    for (const flag of commonFlags) {
      expect(help.includes(`  ${flag}`), `${name} ${flag}`).toBe(idle[name]?.includes(flag) !== true);
      if (flag !== '--help' && name !== 'init') expect(taken, name).toContain(flag);
    }
  }
});

test('the help of every command has a description and a usage line', () => {
  for (const [name, command] of byName) {
    expect(command.description().length, name).toBeGreaterThan(20);
    expect(command.helpInformation(), name).toMatch(new RegExp(`^Usage: oddslake ${name}\\b`));
  }
});

test('the exit codes are as promised', () => {
  const codes = Object.values(exitCodes).sort((a, b) => a - b);
  expect(codes).toEqual(Object.keys(promisedCodes).map(Number));
});

test('every promised variable of the environment sets its setting', () => {
  for (const [name, path] of Object.entries(variables)) {
    if (path === null) continue;
    const [layer] = readEnvironmentLayers({ [name]: name.endsWith('SECOND') ? '7' : 'x'.repeat(32) });
    expect([...layer!.values.keys()], name).toEqual([path]);
  }
});
