import { spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { project } from './kept-current.ts';

/** Every page of the documentation, by its path from the root. New pages are found by themselves. */
export const pages: readonly string[] = ['README.md', ...globSync('docs/**/*.md', { cwd: project }).sort()];

export const readPage = (page: string): string => readFileSync(project + page, 'utf8');

/** A fenced block. */
interface Block {
  readonly language: string;
  readonly code: string;
  /** The number of its first line in the page, from 1. */
  readonly line: number;
}

export function parseBlocks(text: string): Block[] {
  const blocks: Block[] = [];
  let open: { language: string; line: number; lines: string[] } | undefined;
  for (const [i, line] of text.split('\n').entries()) {
    const fence = /^\s*```(\S*)/.exec(line);
    if (fence === null) open?.lines.push(line);
    else if (open === undefined) open = { language: fence[1]!, line: i + 2, lines: [] };
    else {
      blocks.push({ language: open.language, code: `${open.lines.join('\n')}\n`, line: open.line });
      open = undefined;
    }
  }
  return blocks;
}

export const findBlocks = (text: string, language: string): string[] =>
  parseBlocks(text)
    .filter((block) => block.language === language)
    .map(({ code }) => code);

/** One command: a line, or several lines if the shell would wait for more. */
interface ShellCommand {
  readonly code: string;
  readonly line: number;
}

/** The commands of a shell block, without lines that are only comments. */
export function parseCommands({ code, line: first }: Block): ShellCommand[] {
  const typed: ShellCommand[] = [];
  let pending = '';
  let start = first;
  for (const [i, line] of code.split('\n').entries()) {
    if (pending === '' && (line.trim() === '' || line.trim().startsWith('#'))) continue;
    if (pending === '') start = first + i;
    pending += `${line}\n`;
    if (line.endsWith('\\') || needsMoreLines(pending)) continue;
    typed.push({ code: pending, line: start });
    pending = '';
  }
  if (pending !== '') typed.push({ code: pending, line: start });
  return typed;
}

function needsMoreLines(code: string): boolean {
  // Most commands are one line, and starting a shell takes a while.
  if (!/['"`({]|<<|\b(do|then|case|if|for|while)\b/.test(code)) return false;
  const { status, stderr } = spawnSync('bash', ['-n', '-c', code], { encoding: 'utf8' });
  return status !== 0 ? /unexpected (end of file|EOF)/.test(stderr) : /here-document/.test(stderr);
}

/**
 * Files that the reader of a page has to create: blocks that start with `# name.py`, or that follow a line that ends with
 * `name.json`: in backquotes. Files with an absolute path belong to other machines.
 */
export function findFiles(text: string): { name: string; code: string }[] {
  const lines = text.split('\n');
  return parseBlocks(text).flatMap(({ language, code, line }) => {
    const before = lines.slice(0, line - 2).findLast((other) => other.trim() !== '');
    const name =
      /(?:^|\s)`([\w-][\w./-]*\.\w+)`:$/.exec(before ?? '')?.[1] ?? /^# ([\w-][\w./-]*\.\w+)\b/.exec(code)?.[1];
    return name === undefined || language === 'sh' || language === 'bash' ? [] : [{ name, code }];
  });
}

/** The languages of shell blocks. */
export const shells = ['sh', 'bash'];

/** Every shell command of a page. */
export const listCommands = (page: string): ShellCommand[] =>
  parseBlocks(readPage(page))
    .filter(({ language }) => shells.includes(language))
    .flatMap(parseCommands);
