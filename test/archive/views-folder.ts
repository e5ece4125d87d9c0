import { execFileSync } from 'node:child_process';

export type Row = Record<string, unknown>;

/** Runs views.sql (or another file) and statements in a process whose working folder is the archive. */
export function inFolder(root: string, statements: readonly string[], views = 'views.sql'): Row[][] {
  const program = new URL('views-process.ts', import.meta.url).pathname;
  const args = ['--disable-warning=ExperimentalWarning', program, views, ...statements];
  return JSON.parse(execFileSync(process.execPath, args, { cwd: root, encoding: 'utf8' })) as Row[][];
}
