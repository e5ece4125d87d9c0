import type { Command } from 'commander';
import { commandsOf, program } from './program.ts';

const root = program();
const commands = commandsOf(root);
const groups = new Set(root.commands.filter((each) => each.commands.length > 0).map((each) => each.name()));

/** What is wrong with the calls of `oddslake` in a piece of shell or prose: commands and flags that are not there. */
export function misspelt(code: string): string[] {
  return callsIn(code).flatMap((words) => {
    const [first = '', second = ''] = words;
    const both = `${first} ${second}`;
    const name = commands.has(both) || (groups.has(first) && !commands.has(first)) ? both : first;
    const command = commands.get(name);
    if (command === undefined) return isPlaceholder(first, second) ? [] : [`there is no command ${name}`];
    return flagsIn(words)
      .filter((flag) => !isKnown(command, flag))
      .map((flag) => `${name} has no ${flag}`);
  });
}

/** `oddslake COMMAND --help`, `oddslake --version`, `oddslake keys`, `oddslake help nightly`. */
const isPlaceholder = (first: string, second: string): boolean =>
  /^[A-Z_…]+$/.test(first) ||
  ['--help', '--version', 'help', ''].includes(first) ||
  (groups.has(first) &&
    (second === '' || second === '--help' || (/^[A-Z…|a-z]+$/.test(second) && second.includes('|'))));

const isKnown = (command: Command, flag: string): boolean =>
  flag === '--help' || command.options.some((option) => option.long === flag);

const flagsIn = (words: readonly string[]): string[] => {
  const end = words.indexOf('--');
  return words.slice(0, end < 0 ? words.length : end).flatMap((word) => /^\[?(--[a-z][\w-]*)/.exec(word)?.[1] ?? []);
};

/**
 * The words behind each `oddslake`: where a command stands, or where a known command follows, as in `docker run … oddslake
 * nightly`; a unit, a folder or an image of that name is no call.
 */
function callsIn(code: string): string[][] {
  const calls: string[][] = [];
  for (const part of code.replaceAll('\\\n', ' ').split(/\n|&&|\|\||[;|&]|\$\(|`/)) {
    const words = wordsOf(part.replace(/(^|\s)#.*/, ''));
    for (const [at, word] of words.entries()) {
      if (!/^(\S*\/)?oddslake$/.test(word)) continue;
      const behind = words.slice(at + 1);
      const isCommand = words.slice(0, at).every((before) => /^\w+=|^(exec|sudo|time|nice|export|env)$/.test(before));
      const isKnownCommand = commands.has(behind[0] ?? '') || groups.has(behind[0] ?? '');
      if (isCommand || isKnownCommand) calls.push(behind);
    }
  }
  return calls;
}

const wordsOf = (part: string): string[] =>
  [...part.matchAll(/(?:"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s"'])+/g)].map(([word]) => word.replace(/[.,:)]+$/, ''));

/** Pieces of code in the prose and the tables of a page. */
export const inlineIn = (text: string): string[] =>
  [...text.replace(/^```[\s\S]*?^```/gm, '').matchAll(/(?<!`)`([^`]+)`(?!`)/g)]
    .map(([, code]) => code!)
    .filter((code) => /^(\S*\/)?oddslake\s/.test(code));
