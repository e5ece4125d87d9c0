import type { Argument, Command, Option } from 'commander';
import { datasetNames } from '../archive/format/datasets.ts';
import { settingSchemas } from '../settings/layers.ts';

/** One of several words that can be completed to. */
export interface Candidate {
  readonly word: string;
  /** One line; empty if there is nothing to say. */
  readonly description: string;
}

/** What the last word can become. The shell completes `files` and `folders`; `symbols` are those of the archive. */
export type Completion =
  | { readonly kind: 'words'; readonly candidates: readonly Candidate[] }
  | { readonly kind: 'files' }
  | { readonly kind: 'folders' }
  | {
      readonly kind: 'symbols';
      /** Start of the symbol. */
      readonly start: string;
      /** What the word has before the symbol, such as `--symbol=`. */
      readonly prefix: string;
    };

type Accepted = 'any' | 'files' | 'folders' | 'symbols' | readonly string[];

/**
 * Finds what the last word of a command line can become.
 * @param program with the command of the line loaded
 * @param words those after the program, up to the cursor; the last one may be empty
 */
export function completeWords(program: Command, words: readonly string[]): Completion {
  const current = words.at(-1) ?? '';
  const command = findCommand(program, words.slice(0, -1));
  const options = command.createHelp().visibleOptions(command);
  const [, own, start] = /^(--[^=]*)=(.*)$/s.exec(current) ?? [];
  const flag = own ?? words.at(-2) ?? '';
  const option = options.find(({ long, required, optional }) => long === flag && (required || optional));
  if (option !== undefined)
    return toCompletion(listFlagValues(option), start ?? current, own === undefined ? '' : `${own}=`);
  if (current.startsWith('-'))
    return listCandidates(
      options.map(({ long, description }) => [long!, description]),
      current,
    );
  const subcommands = listCommands(command);
  return subcommands.length > 0
    ? listCandidates(subcommands, current)
    : toCompletion(listArgumentValues(program, command), current);
}

/** The command that the first words name, or the subcommand; the program if they name none. */
function findCommand(program: Command, words: readonly string[]): Command {
  let found = program;
  for (const word of words.slice(0, 2)) {
    const next = found.createHelp().visibleCommands(found);
    found = next.find((command) => command.name() === word) ?? found;
  }
  return found;
}

const listCommands = (command: Command): (readonly [string, string])[] =>
  command
    .createHelp()
    .visibleCommands(command)
    .map((each) => [each.name(), each.description()]);

function toCompletion(accepted: Accepted, start: string, prefix = ''): Completion {
  if (accepted === 'any') return { kind: 'words', candidates: [] };
  if (accepted === 'symbols') return { kind: accepted, start, prefix };
  if (accepted === 'files' || accepted === 'folders') return { kind: accepted };
  return listCandidates(
    accepted.map((word) => [prefix + word, '']),
    prefix + start,
  );
}

const listCandidates = (words: readonly (readonly [string, string])[], start: string): Completion => ({
  kind: 'words',
  candidates: words
    .filter(([word]) => word.startsWith(start))
    .map(([word, description]) => ({ word, description: description.replace(/\s+/g, ' ').trim() })),
});

function listFlagValues({ long, flags, argChoices }: Option): Accepted {
  if (argChoices !== undefined) return argChoices;
  if (long === '--dataset') return datasetNames;
  if (long === '--set') return [...settingSchemas.keys()].map((key) => `${key}=`);
  return guessValues(/[<[]([^>\]]*)[>\]]/.exec(flags)?.[1] ?? '');
}

function listArgumentValues(program: Command, command: Command): Accepted {
  const [first] = command.registeredArguments as readonly (Argument & { argChoices?: string[] })[];
  if (first === undefined) return 'any';
  if (command.name() === 'help') return listCommands(program).map(([name]) => name);
  return first.argChoices ?? guessValues(first.name());
}

/** @param name placeholder of a value in the help, such as `dir` */
function guessValues(name: string): Accepted {
  if (/symbol/.test(name)) return 'symbols';
  if (/file/.test(name)) return 'files';
  return /dir|folder/.test(name) ? 'folders' : 'any';
}
