import type { Summary } from '../app/summary.ts';
import { formatCount, formatDuration, formatNumber } from '../core/format-quantity.ts';
import { formatIsoUtc } from '../core/time.ts';
import { escapeControls } from './escape-control.ts';
import { buildSummaryRows } from './summary-rows.ts';
import type { TerminalStyle } from './terminal-style.ts';
import { createPaints } from './terminal-style.ts';
import { wrapText } from './wrap.ts';

/** How it ended, and what is said of that behind the time that it took. */
const outcomeTexts: Record<Summary['outcome'], readonly [ending: string, more: string]> = {
  done: ['done', ''],
  failed: ['failed', ''],
  usage: ['not started', ''],
  credential: ['stopped', ': the key was refused'],
  incomplete: ['done', ', but incomplete'],
  busy: ['ended', ', but not published: another run is writing'],
  damaged: ['ended', ': the archive is damaged'],
  unreachable: ['failed', ': the upstream could not be reached'],
  interrupted: ['stopped', '; what was accepted is kept'],
};

/** Off a terminal: neither wrapped nor coloured. */
const plainStyle: TerminalStyle = { width: null, hasColour: false };

/** The end of a job, for a person: what came in, what was published, what is missing, what to do. */
export function formatSummary(summary: Summary, root: string, style: TerminalStyle = plainStyle): string {
  const { bold, faint, green, yellow, red } = createPaints(style.hasColour);
  const { job, outcome, warnings_count } = summary;
  const calm = outcome === 'done' && warnings_count === 0 ? green : yellow;
  const paint = outcome === 'done' || outcome === 'incomplete' || outcome === 'interrupted' ? calm : red;
  const took = formatDuration(summary.finished_at - summary.started_at);
  const [ending, more] = outcomeTexts[outcome];
  const head = `${bold(job)} ${paint(ending)} after ${took}${more === '' ? '' : paint(more)}`;
  const rows = buildSummaryRows(summary, root, style.width);
  const width = Math.max(0, ...rows.map(([name]) => name.length));
  const lines = rows.flatMap(([name, values]) =>
    values.map((value, i) => `  ${faint((i === 0 ? name : '').padEnd(width))}  ${value}`),
  );
  return [head, ...lines, ...formatProblems(summary, style), ...formatNextAction(summary, style)].join('\n');
}

function formatProblems(
  { warnings, warnings_count, failures, failures_count, error }: Summary,
  style: TerminalStyle,
): string[] {
  const { yellow, red } = createPaints(style.hasColour);
  const out: string[] = [];
  if (error !== null) out.push('', ...formatLabelled('error:', red, error, style));
  if (warnings.length > 0)
    out.push('', ...warnings.flatMap((warning) => formatLabelled('warning:', yellow, warning, style)));
  if (warnings_count > warnings.length)
    out.push(`… and ${formatCount(warnings_count - warnings.length, 'warning')} more`);
  const whole = failures.filter(({ symbol }) => symbol === null);
  if (whole.length > 0)
    out.push('', ...whole.flatMap(({ reason }) => formatLabelled('incomplete:', yellow, reason, style)));
  const windows = failures.filter(({ symbol }) => symbol !== null);
  if (windows.length > 0) {
    const all = failures_count - whole.length;
    // A night asks no more for what it was told to be lost.
    const next = windows.some(({ reason }) => reason.startsWith('lost: ')) ? '' : '; the next run asks again';
    out.push('', `${formatCount(all, 'window')} could not be fetched${next}:`);
    for (const { symbol, from, to, reason } of windows.slice(0, windowsShown))
      out.push(
        ...wrapText(
          `${escapeControls(symbol!)}  ${formatIsoUtc(from!)} … ${formatIsoUtc(to!)}  ${escapeControls(reason)}`,
          style.width,
          '  ',
          '      ',
        ),
      );
    if (all > windowsShown) out.push(`  … and ${formatNumber(all - windowsShown)} more`);
  }
  return out;
}

const windowsShown = 5;

/** The one thing to do next, its command by itself in a line, so that it can be copied. */
function formatNextAction({ next_action: action }: Summary, style: TerminalStyle): string[] {
  if (action === null || action === undefined) return [];
  const { bold } = createPaints(style.hasColour);
  const [, sentence, command] = /^(.*?): ((?:oddslake|gzip) .*)$/s.exec(action) ?? [];
  if (sentence === undefined) return ['', ...formatLabelled('next:', bold, action, style)];
  return ['', ...formatLabelled('next:', bold, `${sentence}:`, style), `  ${escapeControls(command!)}`];
}

function formatLabelled(
  head: string,
  paint: (text: string) => string,
  text: string,
  { width }: TerminalStyle,
): string[] {
  const [first, ...rest] = wrapText(`${head} ${escapeControls(text)}`, width, '', '  ');
  return [paint(head) + first!.slice(head.length), ...rest];
}
