import type { Command } from 'commander';
import { variables } from '../contract/promises.ts';
import { commandsOf } from './program.ts';

// One man page of the whole program, made of what its help says, in the macros of man(7).

/** Text as roff takes it: nothing in it is a request, a macro or an escape. */
export const escaped = (text: string): string =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('…', '...')
    .replaceAll('’', "'")
    .replace(/[^\t\n\x20-\x7e]/g, (c) => `\\[u${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}]`)
    .replace(/^(?=[.'])/gm, '\\&');

const paragraph = (text: string): string => `.PP\n${escaped(text)}\n`;
const term = (name: string, text: string): string => `.TP\n.B ${escaped(name)}\n${escaped(text)}\n`;
const example = (lines: readonly string[]): string => `.PP\n.EX\n${lines.map(escaped).join('\n')}\n.EE\n`;

/** Wide enough that nothing is broken. */
const columns = 100_000;

/** What stands in the help of a command behind its options: paragraphs, terms, examples. */
function afterwards(command: Command): string {
  let text = '';
  command.configureOutput({ writeOut: (piece) => (text += piece), getOutHelpWidth: () => columns });
  command.outputHelp();
  const extra = text.slice(text.indexOf(command.helpInformation()) + command.helpInformation().length);
  return extra
    .split('\n\n')
    .map((block) => block.replace(/^\n+|\n+$/g, ''))
    .filter((block) => block !== '')
    .map(blockText)
    .join('');
}

function blockText(block: string): string {
  const [head = '', ...rest] = block.split('\n');
  if (/^Examples:$/.test(head))
    return `.PP\n${escaped(head)}\n${example(rest.map((line) => line.replace(/^ {2}/, '')))}`;
  const items = rest.map((line) => /^ {2}(\S.*?) {2,}(\S.*)$/.exec(line));
  if (rest.length > 0 && items.every((item) => item !== null))
    return paragraph(head) + items.map(([, name, meaning]) => term(name!, meaning!)).join('');
  return paragraph(block.replaceAll('\n', ' '));
}

interface Listed {
  readonly flags: string;
  readonly text: string;
}

function optionsOf(command: Command): { own: Listed[]; common: Listed[] } {
  const help = command.createHelp();
  const own: Listed[] = [];
  const common: Listed[] = [];
  for (const option of help.visibleOptions(command))
    (option.helpGroupHeading === 'Common options:' || option.long === '--help' ? common : own).push({
      flags: help.optionTerm(option),
      text: help.optionDescription(option),
    });
  return { own, common };
}

function commandText(command: Command): string {
  const help = command.createHelp();
  const args = help.visibleArguments(command).map((argument) => ({
    flags: help.argumentTerm(argument),
    text: help.argumentDescription(argument),
  }));
  const usage = help.commandUsage(command).replace(/^oddslake /, '');
  return [
    `.SS "${escaped(usage).replaceAll('"', '\\(dq')}"\n`,
    `${escaped(sentence(command.description()))}\n`,
    ...[...args, ...optionsOf(command).own].map(({ flags, text }) => term(flags, text)),
    afterwards(command),
  ].join('');
}

const sentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.]$/.test(text) ? '' : '.'}`;

/** The page; `exits` is what each exit code means, `version` as package.json has it. */
export function manPage(root: Command, version: string, exits: Readonly<Record<number, string>>): string {
  const commands = commandsOf(root);
  const common = new Map<string, Listed>();
  for (const command of commands.values())
    for (const option of optionsOf(command).common) common.set(option.flags, common.get(option.flags) ?? option);
  return [
    `.\\" Written by test/docs/man-page.test.ts from the program.\n`,
    `.TH ODDSLAKE 1 "" "oddslake ${version}" "User Commands"\n`,
    '.nh\n.ad l\n',
    `.SH NAME\noddslake \\- keep prediction\\-market data for good, as day\\-partitioned Parquet\n`,
    `.SH SYNOPSIS\n.B oddslake\n.I command\n[\\fIargument\\fR ...] [\\fIoption\\fR ...]\n`,
    `.SH DESCRIPTION\n${escaped(root.description())}\n`,
    paragraph('Times are UTC. Windows are half-open: their end is not of them.'),
    `.SH COMMANDS\n${[...commands].map(([, command]) => commandText(command)).join('')}`,
    '.SH COMMON OPTIONS\nEvery command takes these, as far as they can matter to it.\n',
    ...[...common.values()].map(({ flags, text }) => term(flags, text)),
    `.SH EXIT STATUS\n${Object.entries(exits)
      .map(([code, meaning]) => term(code, sentence(meaning)))
      .join('')}`,
    `.SH ENVIRONMENT\n${Object.entries(variables)
      .map(([name, path]) =>
        term(name, path === null ? 'The config file to read, where --config names none.' : `The setting ${path}.`),
      )
      .join('')}`,
    '.SH FILES\n',
    term('manifest.json', 'In an archive: the published files of this generation, with their sha256.'),
    term('README.md', 'In an archive: what is in it, what is missing, and how to load it.'),
    term('.oddslake/', 'In an archive: the state, what is journaled, and what was set aside. No reader needs it.'),
    term('config/default.yaml', 'In the package: every setting with its unit and default.'),
    `.SH SEE ALSO\n.BR cron (8),\n.BR systemd.timer (5)\n`,
  ].join('');
}
