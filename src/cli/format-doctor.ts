import { formatCount } from '../base/format-quantity.ts';
import type { Diagnosis } from '../doctor/doctor.ts';
import type { Finding } from '../doctor/finding.ts';
import { wrapAction, wrapAdvice, wrapText } from './table.ts';
import { createPaints, escapeControls, type TerminalStyle } from './terminal-style.ts';

/** Formats the findings of doctor. Ends with a newline. */
export function formatDiagnosis(diagnosis: Diagnosis, style: TerminalStyle): string {
  const { width, hasColour } = style;
  const { bold, faint, cyan, green, yellow, red } = createPaints(hasColour);
  const marks = { ok: green('✓'), warning: yellow('!'), action_required: red('✗') };
  const nameWidth = Math.max(...diagnosis.findings.map(({ check }) => check.length));
  const indent = ' '.repeat(nameWidth + 6);
  const wrap = (text: string, first = indent): string[] => wrapText(text, width, first, indent);
  const settings = diagnosis.settings.flatMap(({ path, value, from }) =>
    wrap(faint(escapeControls(`${path} = ${value} (${from})`))),
  );
  const formatFinding = ({ check, severity, message, action }: Finding): string[] => {
    const name = severity === 'ok' ? check : bold(check);
    return [
      ...wrapAdvice(
        escapeControls(message),
        style,
        `  ${marks[severity]} ${name}${' '.repeat(nameWidth - check.length)}  `,
        indent,
      ),
      ...(action === null ? [] : wrapAction(`→ ${escapeControls(action)}`, style, indent).map(paintAction)),
      ...(check === 'settings' ? settings : []),
    ];
  };
  const paintAction = (line: string): string => line.replace(/\S.*/, (text) => cyan(text));
  const body = [...Map.groupBy(diagnosis.findings, ({ group }) => group)].flatMap(([group, findings]) => [
    bold(group[0]!.toUpperCase() + group.slice(1)),
    ...findings.flatMap(formatFinding),
    '',
  ]);
  const { problems, warnings, exit_code, findings } = diagnosis;
  const counts = `${formatCount(problems, 'problem')}, ${formatCount(warnings, 'warning')}, ${findings.length - problems - warnings} ok.`;
  const conclusion =
    problems > 0
      ? `${red(counts)} A run would end with exit code ${exit_code}.`
      : warnings > 0
        ? `${yellow(counts)} Runs can continue.`
        : green('No problem found in what was checked.');
  return `${[...body, conclusion].join('\n')}\n`;
}
