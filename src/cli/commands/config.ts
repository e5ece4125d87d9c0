import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { exitCodes, UsageError } from '../../base/errors.ts';
import { readProcessEnvironment } from '../../settings/environment.ts';
import type { SettingSources } from '../../settings/load.ts';
import {
  type CliContext,
  type CommonFlags,
  configFileDefault,
  flagsUnusedByReaders,
  mergeArchiveFlags,
  printResult,
  withCommonFlags,
} from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';
import { getTerminalStyle } from '../terminal-style.ts';

interface ShowFlags extends CommonFlags {
  readonly all?: boolean;
}

/** `config show` lists the settings and their sources; `config check` lists everything that is wrong with them. */
export function addConfig(config: Command, cli: CliContext): void {
  addShow(config);
  addCheck(cli, config);
}

function addShow(config: Command): void {
  const show = config
    .command('show')
    .description('list the settings that differ from their default, with value and source; secrets are hidden')
    .argument('[file]', 'config file, in place of --config')
    .option('--all', 'list every setting');
  withNotes(show, showNotes);
  withExamples(show, showExamples);
  withCommonFlags(show, flagsUnusedByReaders).action(async (file: string | undefined, flags: ShowFlags) => {
    const [{ listSettings }, { formatSettings, isChanged }] = await Promise.all([
      import('../../settings/inspect.ts'),
      import('../format-config.ts'),
    ]);
    const sources = await collectSources(file, flags);
    const { config, settings } = await listSettings(sources);
    const shown = flags.all === true ? settings : settings.filter(isChanged);
    warnOfUnreadConfig(config, flags);
    printResult(flags, { config, settings: shown, settings_count: settings.length }, () =>
      formatSettings({ config, settings: shown, totalCount: settings.length }, getTerminalStyle(process.stdout)),
    );
  });
}

function addCheck(cli: CliContext, config: Command): void {
  const check = config
    .command('check')
    .description('check the settings of the config file, the environment and the flags, and list every problem at once')
    .argument('[file]', 'config file, in place of --config');
  withNotes(check, checkNotes);
  withExamples(check, checkExamples);
  withCommonFlags(check, flagsUnusedByReaders).action(async (file: string | undefined, flags: CommonFlags) => {
    const [{ checkSettings }, { formatProblems }] = await Promise.all([
      import('../../settings/inspect.ts'),
      import('../format-config.ts'),
    ]);
    const sources = await collectSources(file, flags);
    const { config, problems } = await checkSettings(sources);
    const warnings = problems.length === 0 ? await findSettingWarnings(sources) : [];
    const exitCode = problems.length === 0 ? exitCodes.done : exitCodes.usage;
    warnOfUnreadConfig(config, flags);
    const result = { config, valid: problems.length === 0, problems, warnings, exit_code: exitCode };
    printResult(flags, result, () => formatProblems({ config, problems, warnings }, getTerminalStyle(process.stdout)));
    cli.setExitCode(exitCode);
  });
}

/** Selectors that match no symbol of the archive, if there is one. */
async function findSettingWarnings(sources: SettingSources): Promise<string[]> {
  const [{ loadSettings }, { selectSource }, { inspectUnmatchedSelectors }] = await Promise.all([
    import('../../settings/load.ts'),
    import('../../settings/settings.ts'),
    import('../../archive/read/unmatched-selectors.ts'),
  ]);
  const settings = await loadSettings(sources);
  if (settings.symbols.length > 0) return [];
  const { output } = settings.archive;
  if (settings.sources.length === 0) return inspectUnmatchedSelectors(output, null, settings.source);
  return settings.sources.flatMap(({ name }) =>
    inspectUnmatchedSelectors(output, name, selectSource(settings, name).source).map((text) => `${name}: ${text}`),
  );
}

async function collectSources(file: string | undefined, flags: CommonFlags): Promise<SettingSources> {
  if (file !== undefined && flags.config !== undefined && resolve(file) !== resolve(flags.config))
    throw new UsageError('Give the config file either as an argument or with --config, not both.');
  const output = mergeArchiveFlags(flags);
  return {
    env: readProcessEnvironment(),
    cwd: process.cwd(),
    config: file ?? flags.config,
    output,
    logLevel: flags.logLevel,
    set: flags.set,
  };
}

/** The config of the working folder is read only if it is named. */
function warnOfUnreadConfig(config: string | null, { quiet }: CommonFlags): void {
  if (config === null && quiet !== true && existsSync(configFileDefault))
    process.stderr.write(`${configFileDefault} exists but is not read: pass --config ${configFileDefault} to use it\n`);
}

const showNotes = `
Flags override environment variables, which override the config file, which overrides the defaults. Values are shown as they were
given: a relative path is relative to the folder of the config file. The meaning of each setting is in config/default.yaml.`;

const showExamples = `
  oddslake config show --config oddslake.yaml
  oddslake config show oddslake.yaml --all --json`;

const checkNotes = `
Reads the config file, the key files that it names and, if there are selectors of symbols, the known symbols of the archive: it
sends no request and changes nothing. A selector that matches no symbol is a warning. oddslake doctor also tries the address, the
key and the archive.

Exit codes: 0 the settings are valid, 2 there are problems.`;

const checkExamples = `
  oddslake config check oddslake.yaml
  oddslake config check --config oddslake.yaml --set poll.page_limit=1000 --json`;
