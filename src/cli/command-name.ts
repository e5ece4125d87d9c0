import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { delimiter, isAbsolute, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What decides how a user starts this program again. */
export interface Launch {
  /** Absolute path of the launcher, bin/oddslake. */
  readonly launcher: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The working folder. */
  readonly cwd: string;
}

/** Command that starts this program again from the working folder, quoted for a shell. */
export async function getCommandName(): Promise<string> {
  const { readProcessEnvironment } = await import('../settings/source.ts');
  const root = new URL(import.meta.url.endsWith('.ts') ? '../../' : '../../../', import.meta.url);
  return findCommandName({
    launcher: fileURLToPath(new URL('bin/oddslake', root)),
    env: readProcessEnvironment(),
    cwd: resolve('.'),
  });
}

/**
 * `oddslake` if the PATH leads to this launcher; otherwise its path. The PATH that npx sets ends with npx, so there it is the
 * call of npx with the same packages.
 */
export function findCommandName({ launcher, env, cwd }: Launch): string {
  if (env.npm_lifecycle_event === 'npx') {
    const packages = listNpxPackages(launcher);
    if (packages !== null)
      return ['npx', ...packages.map((name) => `--package=${name}`), 'oddslake'].map(quoteForShell).join(' ');
  }
  if (findOnPath(env.PATH ?? '', cwd) === toRealPath(launcher)) return 'oddslake';
  const relativePath = relative(cwd, launcher);
  return quoteForShell(relativePath.startsWith('..') || isAbsolute(relativePath) ? launcher : relativePath);
}

/** The packages that npx was called with, which it notes in its own folder; null elsewhere, as in a project's node_modules. */
function listNpxPackages(launcher: string): readonly string[] | null {
  const file = resolve(launcher, '../../../../package.json');
  try {
    const { _npx: npx } = JSON.parse(readFileSync(file, 'utf8')) as { _npx?: { packages?: unknown } };
    const packages = npx?.packages;
    return Array.isArray(packages) && packages.every((name) => typeof name === 'string') ? packages : null;
  } catch {
    return null;
  }
}

function findOnPath(path: string, cwd: string): string | null {
  const found = path
    .split(delimiter)
    .map((folder) => join(resolve(cwd, folder), 'oddslake'))
    .find((file) => existsSync(file));
  return found === undefined ? null : toRealPath(found);
}

const toRealPath = (path: string): string | null => (existsSync(path) ? realpathSync(path) : null);

/** Quotes a word for a shell if needed. */
export const quoteForShell = (text: string): string =>
  /^[\w./@=:+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
