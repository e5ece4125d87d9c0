import { formatCount } from '../base/format-quantity.ts';
import type { ListedSetting, SettingOrigin, SettingProblem } from '../settings/inspect.ts';
import { toShortPath } from './command-name.ts';
import { renderList, wrapText } from './table.ts';
import { createPaints, escapeControls, type TerminalStyle } from './terminal-style.ts';

/** Whether a setting differs from its default. A secret counts as changed if it is set. */
export const isChanged = ({ value, default: byDefault }: ListedSetting): boolean =>
  JSON.stringify(value) !== JSON.stringify(byDefault);

/** Formats settings as a table with their sources. Ends with a newline. */
export function formatSettings(
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
export function formatProblems(
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
