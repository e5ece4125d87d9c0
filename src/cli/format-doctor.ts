import stringWidth from 'string-width';
import { formatCount } from '../base/format-quantity.ts';
import type { Diagnosis } from '../doctor/doctor.ts';
import type { Finding } from '../doctor/finding.ts';
import { escapeControls, type TerminalStyle } from './terminal-style.ts';

const headings: Record<Finding['group'], string> = {
  machine: 'Machine',
  disk: 'Disk',
  settings: 'Settings',
  upstream: 'Upstream',
  archive: 'Archive',
  service: 'Service',
};

const marks: Record<Finding['level'], { readonly mark: string; readonly colour: number }> = {
  ok: { mark: '✓', colour: 32 },
  warning: { mark: '!', colour: 33 },
  problem: { mark: '✗', colour: 31 },
};

/** Width if there is no terminal: lines are not wrapped. */
const widthUnlimited = 10_000;

/** Formats the findings of doctor. Ends with a newline. */
export function formatDiagnosis(diagnosis: Diagnosis, style: TerminalStyle): string {
  const paint = (code: number, text: string): string => (style.hasColour ? `\u001b[${code}m${text}\u001b[0m` : text);
  const width = Math.max(40, style.width ?? widthUnlimited);
  const nameWidth = Math.max(...diagnosis.findings.map(({ check }) => check.length));
  const indent = ' '.repeat(nameWidth + 6);
  const lines = (text: string, first: string): string[] =>
    wrapWords(text, width - indent.length).map((line, i) => `${i === 0 ? first : indent}${line}`);
  const formatFinding = (finding: Finding): string[] => {
    const { mark, colour } = marks[finding.level];
    const emphasize = finding.level === 'ok' ? (text: string) => text : (text: string) => paint(1, text);
    const head = `  ${paint(colour, mark)} ${emphasize(finding.check)}${' '.repeat(nameWidth - finding.check.length)}  `;
    const advice =
      finding.advice === null
        ? []
        : lines(`→ ${escapeControls(finding.advice)}`, indent).map((line) => paint(36, line));
    return [
      ...lines(escapeControls(finding.found), head),
      ...advice,
      ...(finding.check === 'settings' ? formatSettings() : []),
    ];
  };
  const formatSettings = (): string[] =>
    diagnosis.settings.flatMap(({ path, value, from }) => [
      ...lines(`${escapeControls(`${path} = ${value}`)} (${escapeControls(from)})`, indent).map((line) =>
        paint(2, line),
      ),
    ]);
  const groups = Map.groupBy(diagnosis.findings, ({ group }) => group);
  const body = [...groups].flatMap(([group, findings]) => [
    paint(1, headings[group]),
    ...findings.flatMap(formatFinding),
    '',
  ]);
  return `${[...body, formatDiagnosisSummary(diagnosis, paint)].join('\n')}\n`;
}

function formatDiagnosisSummary(
  { findings, problems, warnings, exit_code }: Diagnosis,
  paint: (code: number, text: string) => string,
) {
  const okCount = findings.length - problems - warnings;
  const countText = `${formatCount(problems, 'problem')}, ${formatCount(warnings, 'warning')}, ${okCount} ok.`;
  if (problems > 0) return `${paint(31, countText)} A run would end with exit code ${exit_code}.`;
  if (warnings > 0) return `${paint(33, countText)} Runs can continue.`;
  return paint(32, 'All ok.');
}

/** Wraps a text at spaces to lines of at most `width` columns. Longer words are not broken. */
function wrapWords(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const line = lines.at(-1);
    if (line === undefined || stringWidth(line) + 1 + stringWidth(word) > width) lines.push(word);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines;
}
