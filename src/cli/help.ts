import type { Command } from 'commander';
import { suggestName } from '../base/nearest-name.ts';
import { completeCommands, completeHelp } from './command-name.ts';
import { adviseUnknownFlag, findProgram } from './unknown-flags.ts';

/** Width of help, in columns, if the terminal width is unknown. The same as Commander's default. */
const widthDefault = 80;

/** Programs that a user has started. */
const runPrograms = new WeakSet<Command>();

/** Lets the help of a program call it as the user did. The man page, which is made of the help of another one, calls it by its name. */
export const callAsUser = (program: Command): void => void runPrograms.add(program);

const completeIfRun = (command: Command, text: string): string =>
  runPrograms.has(findProgram(command)) ? completeHelp(text) : text;

/** Adds paragraphs after a command's options, wrapped to the terminal. */
export function withNotes(command: Command, notes: string): Command {
  return command.addHelpText('after', () => `\n${wrapNotes(command, completeIfRun(command, notes))}`);
}

/** Adds example command lines after a command's options. They are not wrapped, so that they can be copied. */
export function withExamples(command: Command, examples: string): Command {
  return command.addHelpText('after', () => `\nExamples:\n${completeIfRun(command, examples.replace(/^\n/, ''))}`);
}

/** Adds a list of terms and their meanings after a command's options, aligned with the options. */
export function withTerms(command: Command, head: string, terms: Readonly<Record<string, string>>): Command {
  const termWidth = Math.max(...Object.keys(terms).map((term) => term.length));
  return command.addHelpText('after', () => {
    const help = command.createHelp();
    help.prepareContext({ helpWidth: getHelpWidth(command) });
    const items = Object.entries(terms).map(([term, meaning]) => help.formatItem(term, termWidth, meaning, help));
    return [`\n${wrapNotes(command, head)}`, ...items].join('\n');
  });
}

/**
 * Makes Commander print usage errors like all other errors, with a hint to `--help`. If a flag of a subcommand precedes
 * the subcommand, the error says so; Commander only calls it unknown.
 */
export function configureUsageErrors(program: Command): void {
  const listSubcommands = (command: Command, name: string): [Command, string][] =>
    command.commands.flatMap((subcommand) => [
      [subcommand, `${name} ${subcommand.name()}`],
      ...listSubcommands(subcommand, `${name} ${subcommand.name()}`),
    ]);
  for (const [command, name] of [[program, 'oddslake'] as const, ...listSubcommands(program, 'oddslake')]) {
    command.showHelpAfterError(completeCommands(`${name} --help shows the usage.`));
    command.configureOutput({
      outputError(text, write) {
        const flag = /^error: unknown option '(--[\w-]+)/.exec(text)?.[1] ?? '';
        const isSubcommandFlag =
          flag !== '' &&
          listSubcommands(command, '').some(([{ options }]) => options.some((option) => option.long === flag));
        write(
          isSubcommandFlag
            ? `oddslake: ${flag} must follow the command: ${name} COMMAND ${flag} …\n`
            : suggestChoice(command, text).replace(/^error: /, 'oddslake: '),
        );
      },
    });
  }
}

/**
 * Adds the choice or the subcommand that was probably meant to a message of Commander, which has suggestions for unknown
 * commands and flags only.
 * @param command the command of the message
 */
export function suggestChoice(command: Command, message: string): string {
  const [first = '', ...rest] = message.split('\n');
  const [, flag] = /unknown option '(--?[\w-]+)/.exec(first) ?? [];
  if (flag !== undefined) {
    // Below the suggestion of Commander stands where to find the usage.
    const isSuggestion = rest[0]?.startsWith('(Did you mean') === true;
    const advice = adviseUnknownFlag(command, flag, isSuggestion ? rest[0]! : '');
    return [first, ...(advice === '' ? [] : [completeCommands(advice)]), ...(isSuggestion ? rest.slice(1) : rest)].join(
      '\n',
    );
  }
  const [, given, choices] =
    /'([^']*)' is invalid(?: for argument '[^']*')?\. Allowed choices are (.*)\.$/.exec(first) ?? [];
  const [, missing] = /missing required argument '([^']*)'$/.exec(first) ?? [];
  const missingChoices = command.registeredArguments.find((argument) => argument.name() === missing)?.argChoices;
  if (missingChoices !== undefined) return [`${first}: one of ${missingChoices.join(', ')}`, ...rest].join('\n');
  const [, extra] = /^(?:error: )?too many arguments .* but got 1: (.*)\.$/.exec(first) ?? [];
  const advice =
    given !== undefined
      ? suggestName(given, choices!.replaceAll('"', '').split(', '))
      : extra === undefined
        ? ''
        : suggestName(
            extra,
            command.commands.map((subcommand) => subcommand.name()),
          );
  return [first + advice, ...rest].join('\n');
}

const getHelpWidth = (command: Command): number => command.configureOutput().getOutHelpWidth?.() ?? widthDefault;

const wrapNotes = (command: Command, text: string): string =>
  text
    .trim()
    .split('\n\n')
    .map((paragraph) => command.createHelp().boxWrap(paragraph.replaceAll('\n', ' '), getHelpWidth(command)))
    .join('\n\n');
