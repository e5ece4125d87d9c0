import type { Command } from 'commander';
import { createProgram } from '../../src/cli/main.ts';
import type { JobLoaders } from '../../src/collector/run/job.ts';

const noJob = () => Promise.reject(new Error('nothing is run here'));

/** The whole command line, to be looked at. */
export const program = (): Command =>
  createProgram('0.0.0', new Proxy({}, { get: () => noJob }) as JobLoaders, () => {});

/** What does something, by how it is called: `serve`, `keys create`. */
export const commandsOf = (root: Command): Map<string, Command> =>
  new Map(
    root.commands.flatMap((command) =>
      // A command that takes subcommands may do something by itself: then it has arguments or flags of its own.
      command.commands.length === 0 || command.options.length > 0
        ? [
            [command.name(), command] as const,
            ...command.commands.map((each) => [`${command.name()} ${each.name()}`, each] as const),
          ]
        : command.commands.map((each) => [`${command.name()} ${each.name()}`, each] as const),
    ),
  );
