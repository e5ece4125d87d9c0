import type { Command } from 'commander';
import { variables } from '../contract/promises.ts';
import { mapCommands } from './program.ts';

// Generates one man page of the program from its help texts, with the macros of man(7).

/** Escapes text for roff, so that it contains no request, macro or escape. */
export const escapeRoff = (text: string): string =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('…', '...')
    .replaceAll('’', "'")
    .replace(/[^\t\n\x20-\x7e]/g, (c) => `\\[u${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}]`)
    .replace(/^(?=[.'])/gm, '\\&');

const formatParagraph = (text: string): string => `.PP\n${escapeRoff(text)}\n`;
const formatTerm = (name: string, text: string): string => `.TP\n.B ${escapeRoff(name)}\n${escapeRoff(text)}\n`;
const formatExample = (lines: readonly string[]): string => `.PP\n.EX\n${lines.map(escapeRoff).join('\n')}\n.EE\n`;

/** Wide enough that no line is wrapped. */
const columnsMax = 100_000;

/** The help of a command after its options: paragraphs, terms, examples. */
function formatExtraHelp(command: Command): string {
  let text = '';
  // Other test files of this process read the help of the same command.
  const before = { ...command.configureOutput() };
  command.configureOutput({ writeOut: (piece) => (text += piece), getOutHelpWidth: () => columnsMax });
  command.outputHelp();
  const extra = text.slice(text.indexOf(command.helpInformation()) + command.helpInformation().length);
  command.configureOutput(before);
  return extra
    .split('\n\n')
    .map((block) => block.replace(/^\n+|\n+$/g, ''))
    .filter((block) => block !== '')
    .map(formatBlock)
    .join('');
}

function formatBlock(block: string): string {
  const [head = '', ...rest] = block.split('\n');
  if (/^Examples:$/.test(head))
    return `.PP\n${escapeRoff(head)}\n${formatExample(rest.map((line) => line.replace(/^ {2}/, '')))}`;
  const items = rest.map((line) => /^ {2}(\S.*?) {2,}(\S.*)$/.exec(line));
  if (rest.length > 0 && items.every((item) => item !== null))
    return formatParagraph(head) + items.map(([, name, meaning]) => formatTerm(name!, meaning!)).join('');
  return formatParagraph(block.replaceAll('\n', ' '));
}

interface ListedOption {
  readonly flags: string;
  readonly text: string;
}

function listOptions(command: Command): { own: ListedOption[]; common: ListedOption[] } {
  const help = command.createHelp();
  const own: ListedOption[] = [];
  const common: ListedOption[] = [];
  for (const option of help.visibleOptions(command))
    (option.helpGroupHeading === 'Common options:' || option.long === '--help' ? common : own).push({
      flags: help.optionTerm(option),
      text: help.optionDescription(option),
    });
  return { own, common };
}

function formatCommand(command: Command): string {
  const help = command.createHelp();
  const args = help.visibleArguments(command).map((argument) => ({
    flags: help.argumentTerm(argument),
    text: help.argumentDescription(argument),
  }));
  const usage = help.commandUsage(command).replace(/^oddslake /, '');
  return [
    `.SS "${escapeRoff(usage).replaceAll('"', '\\(dq')}"\n`,
    `${escapeRoff(toSentence(command.description()))}\n`,
    ...[...args, ...listOptions(command).own].map(({ flags, text }) => formatTerm(flags, text)),
    formatExtraHelp(command),
  ].join('');
}

const toSentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.]$/.test(text) ? '' : '.'}`;

/** The page. `exits`: the meaning of each exit code; `version`: that of package.json. */
export function formatManPage(root: Command, version: string, exits: Readonly<Record<number, string>>): string {
  const commands = mapCommands(root);
  const common = new Map<string, ListedOption>();
  for (const command of commands.values())
    for (const option of listOptions(command).common) common.set(option.flags, common.get(option.flags) ?? option);
  return [
    `.\\" Written by test/docs/man-page.test.ts from the program.\n`,
    `.TH ODDSLAKE 1 "" "oddslake ${version}" "User Commands"\n`,
    '.nh\n.ad l\n',
    `.SH NAME\noddslake \\- keep prediction\\-market data for good, as day\\-partitioned Parquet\n`,
    `.SH SYNOPSIS\n.B oddslake\n.I command\n[\\fIargument\\fR ...] [\\fIoption\\fR ...]\n`,
    `.SH DESCRIPTION\n${escapeRoff(root.description())}\n`,
    formatParagraph('Times are UTC. Windows are half-open: the end is excluded.'),
    `.SH COMMANDS\n${[...commands].map(([, command]) => formatCommand(command)).join('')}`,
    '.SH COMMON OPTIONS\nEach command accepts the options that apply to it.\n',
    ...[...common.values()].map(({ flags, text }) => formatTerm(flags, text)),
    `.SH EXIT STATUS\n${Object.entries(exits)
      .map(([code, meaning]) => formatTerm(code, toSentence(meaning)))
      .join('')}`,
    `.SH ENVIRONMENT\n${Object.entries(variables)
      .map(([name, path]) =>
        formatTerm(
          name,
          path === null
            ? 'The config file to read, unless --config names one. Without both: oddslake.yaml in the working folder, if there is one.'
            : `Sets ${path}.`,
        ),
      )
      .join('')}`,
    '.SH FILES\n',
    formatTerm('manifest.json', 'In an archive: the published files of the generation, with their SHA-256.'),
    formatTerm('README.md', 'In an archive: its content, what is missing, and how to load it.'),
    formatTerm('.oddslake/', 'In an archive: the state, the journal, and quarantined data. Readers do not need it.'),
    formatTerm('config/default.yaml', 'In the package: every setting with its unit and default.'),
    `.SH SEE ALSO\n.BR cron (8),\n.BR systemd.timer (5)\n`,
  ].join('');
}
