import { type Finding, listOtherFindings, type Verdict } from '../contract/finding.ts';
import { wrapAdvice } from './table.ts';
import { createPaints, escapeControls, type TerminalStyle } from './terminal-style.ts';

const stateSigns = { ok: 'green', warning: 'yellow', action_required: 'red' } as const;

/** The verdict, and its command on a line of its own, so that it can be copied. */
export function formatVerdictLines({ state, text, command }: Verdict, style: TerminalStyle): string[] {
  const paints = createPaints(style.hasColour);
  return [
    ...wrapAdvice(escapeControls(text), style).map(paints[stateSigns[state]]),
    ...(command === null ? [] : [`${paints.bold('next:')} ${style.complete(escapeControls(command))}`]),
  ];
}

/** The findings that the verdict does not name, each with its command. Those that need nothing are shown if verbose. */
export function formatFindingLines(findings: readonly Finding[], style: TerminalStyle, isVerbose: boolean): string[] {
  const { yellow, red, faint } = createPaints(style.hasColour);
  const labels = { info: faint('note:'), warning: yellow('warning:'), action_required: red('problem:') };
  const isShown = ({ severity, kind }: Finding) => isVerbose || severity !== 'info' || kind === 'unused columns';
  const shown = listOtherFindings(findings).filter(isShown);
  const lines = shown.flatMap(({ severity, message, advice, command }) => [
    ...wrapAdvice(
      `${labels[severity]} ${escapeControls(message)}${advice === undefined ? '' : `; ${escapeControls(advice)}`}`,
      style,
      '',
      '  ',
    ),
    ...(command === null ? [] : [`  ${style.complete(escapeControls(command))}`]),
  ]);
  return lines.length === 0 ? [] : ['', ...lines];
}
