import { spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { project } from './kept-current.ts';

/** Every page of the project that people read, by its path from the root: a new one is there by itself. */
export const pages: readonly string[] = ['README.md', ...globSync('docs/**/*.md', { cwd: project }).sort()];

export const textOf = (page: string): string => readFileSync(project + page, 'utf8');

/** What stands between two fences. */
export interface Block {
  readonly language: string;
  readonly code: string;
  /** Of its first line in the page, from 1. */
  readonly line: number;
}

export function blocksOf(text: string): Block[] {
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

export const blocksIn = (text: string, language: string): string[] =>
  blocksOf(text)
    .filter((block) => block.language === language)
    .map(({ code }) => code);

/** What is typed at once: a line, or several where the shell would ask for more. */
export interface Typed {
  readonly code: string;
  readonly line: number;
}

/** The commands of a block of shell, without comments that stand alone. */
export function typedIn({ code, line: first }: Block): Typed[] {
  const typed: Typed[] = [];
  let pending = '';
  let start = first;
  for (const [i, line] of code.split('\n').entries()) {
    if (pending === '' && (line.trim() === '' || line.trim().startsWith('#'))) continue;
    if (pending === '') start = first + i;
    pending += `${line}\n`;
    if (line.endsWith('\\') || asksForMore(pending)) continue;
    typed.push({ code: pending, line: start });
    pending = '';
  }
  if (pending !== '') typed.push({ code: pending, line: start });
  return typed;
}

function asksForMore(code: string): boolean {
  // Most lines stand alone, and a shell takes a while to start.
  if (!/['"`({]|<<|\b(do|then|case|if|for|while)\b/.test(code)) return false;
  const { status, stderr } = spawnSync('bash', ['-n', '-c', code], { encoding: 'utf8' });
  return status !== 0 ? /unexpected (end of file|EOF)/.test(stderr) : /here-document/.test(stderr);
}

/**
 * Files that a page shows and tells its reader to have: blocks that begin with `# name.py`, or that stand behind a line that
 * ends with `name.json`: in backquotes. Those with an absolute path are other machines'.
 */
export function filesOf(text: string): { name: string; code: string }[] {
  const lines = text.split('\n');
  return blocksOf(text).flatMap(({ language, code, line }) => {
    const before = lines.slice(0, line - 2).findLast((each) => each.trim() !== '');
    const name =
      /(?:^|\s)`([\w-][\w./-]*\.\w+)`:$/.exec(before ?? '')?.[1] ?? /^# ([\w-][\w./-]*\.\w+)\b/.exec(code)?.[1];
    return name === undefined || language === 'sh' || language === 'bash' ? [] : [{ name, code }];
  });
}

/** Languages of blocks that are shell. */
export const shells = ['sh', 'bash'];

/** Every command of shell that a page tells its reader to type. */
export const typedOn = (page: string): Typed[] =>
  blocksOf(textOf(page))
    .filter(({ language }) => shells.includes(language))
    .flatMap(typedIn);
