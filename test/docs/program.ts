import type { Command } from 'commander';
import { createProgram } from '../../src/cli/main.ts';
import type { JobLoaders } from '../../src/collector/job.ts';

const noJob = () => Promise.reject(new Error('nothing is run here'));

/** The complete command line, for inspection. */
export const program: Command = await createProgram(
  '0.0.0',
  new Proxy({}, { get: () => noJob }) as JobLoaders,
  () => {},
);

/** Every command that can run, by its name: `serve`, `keys create`. */
export const mapCommands = (root: Command): Map<string, Command> =>
  new Map(
    root.commands.flatMap((command) =>
      // A command with subcommands can also run by itself if it has its own options.
      command.commands.length === 0 || command.options.length > 0
        ? [
            [command.name(), command] as const,
            ...command.commands.map((each) => [`${command.name()} ${each.name()}`, each] as const),
          ]
        : command.commands.map((each) => [`${command.name()} ${each.name()}`, each] as const),
    ),
  );
