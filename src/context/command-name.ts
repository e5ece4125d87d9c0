import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { delimiter, isAbsolute, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findOtherOwner } from '../archive/disk/owner.ts';
import { quoteShellWord } from '../base/shell-quote.ts';
import { readProcessEnvironment } from '../settings/environment.ts';
import type { Settings } from '../settings/settings.ts';

/** What decides how a user starts this program again. */
interface Launch {
  /** Absolute path of the launcher, bin/oddslake. */
  readonly launcher: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The working folder. */
  readonly cwd: string;
}

/** Command that starts this program again from the working folder, quoted for a shell. */
export function getCommandName(): string {
  return findCommandName({
    launcher: launcherPath(),
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
      return ['npx', ...packages.map((name) => `--package=${name}`), 'oddslake'].map(quoteShellWord).join(' ');
  }
  if (findOnPath(env.PATH ?? '', cwd) === toRealPath(launcher)) return 'oddslake';
  const relativePath = relative(cwd, launcher);
  return quoteShellWord(relativePath.startsWith('..') || isAbsolute(relativePath) ? launcher : relativePath);
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

/** Arguments of this run, whose flags printed commands repeat. Set by `main`, which may be called with other ones. */
let runArgs: readonly string[] = [];
export function setRunArgs(args: readonly string[]): void {
  runArgs = args;
}
export const getRunArgs = (): readonly string[] => runArgs;

/** The root of this run's archive, once the settings are read; its owner alone may run commands that write there. */
let runRoot: string | null = null;
export function setRunRoot(root: string): void {
  runRoot = root;
}

/** Completes the commands in a text of this run. Formatters receive it, so that they stay pure. */
export const completeCommands: CompleteCommands = (text, gap) =>
  createCommandCompleter(() => (runRoot === null ? '' : getOwnerPrefix(runRoot)) + getCommandName(), runArgs)(
    text,
    gap,
  );

/**
 * Completes the commands in a text for a reader who is elsewhere, as of a notification: with the absolute paths of the
 * launcher, the config and the archive.
 */
export const completeForElsewhere = ({
  configFile,
  archive,
}: Pick<Settings, 'configFile' | 'archive'>): CompleteCommands =>
  createCommandCompleter(
    () => `${getOwnerPrefix(archive.output)}${quoteShellWord(launcherPath())}`,
    [
      ...(configFile === null ? [] : ['--config', resolve(configFile)]),
      '--output',
      archive.bucketUrl ?? resolve(archive.output),
    ],
  );

/** `sudo -u OWNER ` if the archive belongs to another user, who alone may write there. */
const getOwnerPrefix = (root: string): string => {
  const owner = findOtherOwner(root);
  return owner === null ? '' : `sudo -u ${quoteShellWord(owner)} `;
};

const launcherPath = (): string => fileURLToPath(new URL('../../bin/oddslake', import.meta.url));

/** Calls the program in a text of its help as the user did, without further flags. */
export const completeHelp = (text: string): string => createCommandCompleter(getCommandName, [])(text);

/** Commands with a command of their own behind them, such as `gaps accept`. */
const groups = 'backtest|config|gaps|keys|symbols|tokens';
const commands =
  'backfill|changes|completion|demo|doctor|export|help|import|init|markets|nightly|orderbook|publish|pull|push|report|sandbox|schedule|serve|snapshot|sql|status|tail|ticks|verify';
/** Not a whole command line after sudo, nor a demo's upstream "oddslake sandbox". The name, the command, flags without a value, and whether other flags that select the archive follow. */
const commandPattern = new RegExp(
  `(?<![\\w./-]|upstream |sudo -u .*)oddslake(?: (?:(${commands})|(?:${groups})(?: (?:accept|check|create|forget|issue|list|retry|revoke|rotate|run|usage|show|watch))?)(?![\\w-])(?: --(?:dry-run|force|json|now|repair)(?![\\w-]))*| (?=--help))`,
  'g',
);
/** What may follow a command that is written out: flags with their values, and addresses. */
const restPattern = /^(?: (?:--[\w-]+(?:[= ](?!-)(?:'[^']*'|[^\s',;]+))?|s3:\S+|[A-Z]+(?![\w-])))*/;

/** Completes the commands in a text. `gap` stands for the spaces inside of them. */
export type CompleteCommands = (text: string, gap?: string) => string;

/**
 * Creates a function that completes the commands in a message, so that they can be pasted. Messages call the program
 * `oddslake`; the user may have called it otherwise, and has to name the same config, archive and service again.
 * @param name how this program is started, quoted for a shell
 * @param args arguments of this run; --config, --output and --archive are repeated, and some --set
 */
export function createCommandCompleter(name: () => string, args: readonly string[]): CompleteCommands {
  const selection = listSelection(args);
  return (text, gap = ' ') => {
    let out = '';
    let end = 0;
    for (const match of text.matchAll(commandPattern)) {
      const [command, ungrouped] = match;
      const after = match.index + command.length;
      const rest = restPattern.exec(text.slice(after))![0].replace(/[.)]+$/, '');
      // The flags of a command may follow its other arguments.
      const own = text.slice(match.index).split(/[.,;] | oddslake /, 1)[0]!;
      const isSelective = / --(?:config|output|archive|help)\b/.test(own) || command.endsWith(' ');
      const flags = isSelective ? [] : chooseFlags(selection, ungrouped ?? '');
      const words = [name(), command.slice('oddslake '.length), ...flags].filter((word) => word !== '').join(' ');
      const complete = words + (command.endsWith(' ') ? ' ' : '') + rest;
      out += text.slice(end, match.index) + complete.replaceAll(' ', gap);
      end = after + rest.length;
    }
    // A command at the end loses the full stop, which would be pasted with it.
    return out + (end > 0 && text.slice(end) === '.' ? '' : text.slice(end));
  };
}

interface SelectionFlag {
  readonly flag: '--config' | '--output' | '--set';
  readonly value: string;
}

/** Settings without which the same command would be about another archive or service. A key is never printed. */
const repeatedSetting = /^\s*(?:(?:archive|sources?)\.(?![^=]*_key)|upstream\.base_url=)/;

/** The flags that select the config, the archive and its service, in the order given. */
const listSelection = (args: readonly string[]): SelectionFlag[] =>
  args.flatMap((arg, i): SelectionFlag[] => {
    const [, flag, own] = /^(--(?:config|output|archive|set))(?:=(.*))?$/s.exec(arg) ?? [];
    const value = own ?? args[i + 1];
    if (flag === undefined || value === undefined) return [];
    if (flag === '--set') return repeatedSetting.test(value) ? [{ flag, value }] : [];
    return [{ flag: flag === '--config' ? flag : '--output', value }];
  });

/** The flags of the selection that a command has. init makes the config and the archive; others use none. */
function chooseFlags(selection: readonly SelectionFlag[], command: string): string[] {
  if (/^(?:completion|demo|help|sandbox)$/.test(command)) return [];
  const has = ({ flag }: SelectionFlag): boolean =>
    command === 'init' ? flag === '--output' : command === 'pull' ? flag === '--config' : true;
  const flags = selection.filter(has).map(({ flag, value }) => `${flag} ${quoteShellWord(value)}`);
  return [...new Set(flags)];
}
