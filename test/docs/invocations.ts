import type { Command } from 'commander';
import { mapCommands, program } from './program.ts';

const root = program;
const commands = mapCommands(root);
const groups = new Set(root.commands.filter((each) => each.commands.length > 0).map((each) => each.name()));

/** Lists commands and flags in the calls of `oddslake` in shell or prose that do not exist. */
export function findUnknownCalls(code: string): string[] {
  return findCalls(code).flatMap((words) => {
    const [first = '', second = ''] = words;
    const both = `${first} ${second}`;
    const name = commands.has(both) || (groups.has(first) && !commands.has(first)) ? both : first;
    const command = commands.get(name);
    if (command === undefined) return isPlaceholder(first, second) ? [] : [`there is no command ${name}`];
    return findFlags(words)
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

const findFlags = (words: readonly string[]): string[] => {
  const end = words.indexOf('--');
  return words.slice(0, end < 0 ? words.length : end).flatMap((word) => /^\[?(--[a-z][\w-]*)/.exec(word)?.[1] ?? []);
};

/**
 * The words after each `oddslake` that is in the position of a command, or that a known command follows, as in `docker run …
 * oddslake nightly`. A unit, a folder or an image of that name is not a call.
 */
function findCalls(code: string): string[][] {
  const calls: string[][] = [];
  for (const part of code.replaceAll('\\\n', ' ').split(/\n|&&|\|\||[;|&]|\$\(|`/)) {
    const words = splitWords(part.replace(/(^|\s)#.*/, ''));
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

const splitWords = (part: string): string[] =>
  [...part.matchAll(/(?:"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s"'])+/g)].map(([word]) => word.replace(/[.,:)]+$/, ''));

/** Calls of oddslake in inline code of a page's prose and tables. */
export const findInlineCalls = (text: string): string[] =>
  [...text.replace(/^```[\s\S]*?^```/gm, '').matchAll(/(?<!`)`([^`]+)`(?!`)/g)]
    .map(([, code]) => code!)
    .filter((code) => /^(\S*\/)?oddslake\s/.test(code));
