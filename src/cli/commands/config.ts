import type { Command } from 'commander';
import { exitCodes } from '../../base/errors.ts';
import { formatCount } from '../../base/format-quantity.ts';
import { toShortPath } from '../../settings/environment.ts';
import type { ListedSetting, SettingOrigin, SettingProblem } from '../../settings/inspect-settings.ts';
import type { SettingSources } from '../../settings/load.ts';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  printResult,
  toSettingSources,
  withCommonFlags,
} from '../command-context.ts';
import { withHelp } from '../help.ts';
import { renderList, wrapText } from '../table.ts';
import { createPaints, escapeControls, type TerminalStyle } from '../terminal-style.ts';

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
    .option('--all', 'list every setting');
  withHelp(show, showNotes, showExamples);
  withCommonFlags(show, flagsUnusedByReaders).action(async (flags: ShowFlags) => {
    const { listSettings } = await import('../../settings/inspect-settings.ts');
    const { config, settings } = await listSettings(toSettingSources(flags));
    const shown = flags.all === true ? settings : settings.filter(isChanged);
    printResult(flags, { config, settings: shown, settings_count: settings.length }, (style) =>
      formatSettings({ config, settings: shown, totalCount: settings.length }, style),
    );
  });
}

function addCheck(cli: CliContext, config: Command): void {
  const check = config
    .command('check')
    .description(
      'check the settings of the config file, the environment and the flags, and list every problem at once',
    );
  withHelp(check, checkNotes, checkExamples);
  withCommonFlags(check, flagsUnusedByReaders).action(async (flags: CommonFlags) => {
    const { checkSettings } = await import('../../settings/inspect-settings.ts');
    const sources = toSettingSources(flags);
    const { config, problems } = await checkSettings(sources);
    const warnings = problems.length === 0 ? await findSettingWarnings(sources) : [];
    const exitCode = problems.length === 0 ? exitCodes.done : exitCodes.usage;
    const result = { config, valid: problems.length === 0, problems, warnings, exit_code: exitCode };
    printResult(flags, result, (style) => formatProblems({ config, problems, warnings }, style));
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

/** Whether a setting differs from its default. A secret counts as changed if it is set. */
const isChanged = ({ value, default: byDefault }: ListedSetting): boolean =>
  JSON.stringify(value) !== JSON.stringify(byDefault);

/** Formats settings as a table with their sources. Ends with a newline. */
function formatSettings(
  list: { config: string | null; settings: readonly ListedSetting[]; totalCount: number },
  style: TerminalStyle,
): string {
  const { settings, totalCount } = list;
  const head = list.config === null ? 'no config file' : `config file ${escapeControls(toShortPath(list.config))}`;
  if (settings.length === 0) return `${head}\nall ${totalCount} settings have their defaults\n`;
  const counted =
    settings.length === totalCount
      ? formatCount(totalCount, 'setting')
      : `${settings.length} of ${totalCount} settings differ from their default; --all lists every setting`;
  const cells = {
    setting: ({ key }: ListedSetting) => key,
    source: ({ from }: ListedSetting) => formatOrigin(from),
    value: ({ value }: ListedSetting) => formatValue(value),
  };
  return `${head}\n\n${renderList(settings, cells, style, counted, { value: 'text', source: 'text' })}`;
}

/** A text without quotes, unless it could be read as another value; anything else as JSON. */
function formatValue(value: unknown): string {
  const isPlain = typeof value === 'string' && /^[\p{L}\p{N}(./~]/u.test(value);
  return isPlain && !/^(null|true|false|[\d.]+)$/.test(value) ? value : JSON.stringify(value);
}

function formatOrigin({ kind, name, line }: SettingOrigin): string {
  if (name === null) return kind;
  return kind === 'config' ? `${toShortPath(name)}${line === null ? '' : `:${line}`}` : name;
}

/** Formats the problems of the settings. Ends with a newline. */
function formatProblems(
  given: {
    config: string | null;
    problems: readonly SettingProblem[];
    /** Sentences. */
    warnings?: readonly string[];
  },
  { width, hasColour }: TerminalStyle,
): string {
  const { config, problems, warnings = [] } = given;
  const { bold, cyan, green, red, yellow } = createPaints(hasColour);
  const checked = config === null ? 'the environment and the flags' : escapeControls(toShortPath(config));
  if (problems.length === 0) {
    const shown = warnings.flatMap((text) => wrapText(escapeControls(text), width, `${yellow('!')} `, '  '));
    return `${[...shown, `${green('✓')} ${checked}: no problems`].join('\n')}\n`;
  }
  const lines = problems.flatMap((problem) => {
    const { key, value, expected, suggestion, from, message } = problem;
    if (key === null || from === null) return [...wrapText(escapeControls(message), width, `${red('✗')} `, '  '), ''];
    const shown = escapeControls(key) + (value === null ? '' : ` is ${escapeControls(value)}`);
    const isUnknown = value === null && expected === null;
    const advice = [
      ...(isUnknown ? [from.kind === 'environment' ? 'unknown environment variable' : 'unknown setting'] : []),
      ...(expected === null ? [] : [`expected ${escapeControls(expected)}`]),
      ...(from.kind === 'environment' && isUnknown ? [] : [`in ${escapeControls(formatOrigin(from))}`]),
    ];
    return [
      ...wrapText(shown, width, `${red('✗')} `, '  ').map((line) => bold(line)),
      ...advice.flatMap((line) => wrapText(line, width, '  ', '  ')),
      ...(suggestion === null
        ? []
        : wrapText(cyan(`→ did you mean ${escapeControls(suggestion)}?`), width, '  ', '  ')),
      '',
    ];
  });
  return `${[...lines, red(`${checked}: ${formatCount(problems.length, 'problem')}`)].join('\n')}\n`;
}

const showNotes = `
Flags override environment variables, which override the config file, which overrides the defaults. Values are shown as they were
given: a relative path is relative to the folder of the config file. The meaning of each setting is in config/default.yaml.`;

const showExamples = `
  oddslake config show
  oddslake config show --config lake.yaml --all --json`;

const checkNotes = `
Reads the config file, the key files that it names and, if there are selectors of symbols, the known symbols of the archive: it
sends no request and changes nothing. A selector that matches no symbol is a warning. oddslake doctor also tries the address, the
key and the archive.

Exit codes: 0 the settings are valid, 2 there are problems.`;

const checkExamples = `
  oddslake config check --config lake.yaml
  oddslake config check --set poll.page_limit=1000 --json`;
