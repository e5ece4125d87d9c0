import type { Command } from 'commander';

/** Terminal columns of help where they are not known, as Commander has it too. */
const widthDefault = 80;

/** Adds paragraphs after a command's options, wrapped to the terminal. */
export function withNotes(command: Command, notes: string): Command {
  return command.addHelpText('after', () => `\n${wrapNotes(command, notes)}`);
}

/** Adds command lines after a command's options, as they are: they are there to be copied. */
export function withExamples(command: Command, examples: string): Command {
  return command.addHelpText('after', `\nExamples:\n${examples.replace(/^\n/, '')}`);
}

/** Adds names and what they mean after a command's options, in the columns of its options. */
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
 * How Commander speaks of bad usage: as every other error, and with where to look. A flag of the commands that stands
 * before one is told so: Commander only says that it does not know it.
 */
export function configureUsageErrors(program: Command): void {
  const below = (command: Command, name: string): [Command, string][] =>
    command.commands.flatMap((each) => [[each, `${name} ${each.name()}`], ...below(each, `${name} ${each.name()}`)]);
  for (const [command, name] of [[program, 'oddslake'] as const, ...below(program, 'oddslake')]) {
    command.showHelpAfterError(`${name} --help says what is expected.`);
    command.configureOutput({
      outputError(text, write) {
        const renamed = renamedFlags.get(/^error: unknown option '(--[\w-]+)/.exec(text)?.[1] ?? '');
        if (renamed !== undefined) return write(`oddslake: ${renamed.before} is now called ${renamed.now}\n`);
        const flag = command.commands.length > 0 ? /^error: unknown option '(--[\w-]+)/.exec(text)?.[1] : undefined;
        const own =
          flag !== undefined && below(command, '').some(([{ options }]) => options.some((o) => o.long === flag));
        write(own ? `oddslake: ${flag} stands after the command: ${name} COMMAND ${flag} …\n` : prefixError(text));
      },
    });
  }
}

/** Flags that were renamed, by the name that they had: also listed in docs/CHANGED-NAMES.md. */
const renamedFlags: ReadonlyMap<string, { readonly before: string; readonly now: string }> = new Map(
  (
    [
      ['--heeds', '--honors'],
      ['--crowd', '--burst-ticks'],
      ['--foreign-share', '--invalid-share'],
      ['--live-on-top', '--uncapped-age'],
      ['--generated-behind', '--generated-at-lag'],
      ['--generated-step', '--generated-at-resolution'],
      ['--cap-falls-after', '--cap-drops-after'],
    ] as const
  ).map(([before, now]) => [before, { before, now }]),
);

const prefixError = (text: string): string => text.replace(/^error: /, 'oddslake: ');

const getHelpWidth = (command: Command): number => command.configureOutput().getOutHelpWidth?.() ?? widthDefault;

const wrapNotes = (command: Command, text: string): string =>
  text
    .trim()
    .split('\n\n')
    .map((paragraph) => command.createHelp().boxWrap(paragraph.replaceAll('\n', ' '), getHelpWidth(command)))
    .join('\n\n');
