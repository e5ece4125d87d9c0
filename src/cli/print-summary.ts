import type { Summary } from '../app/summary.ts';
import { duration, many, number } from '../core/format-quantity.ts';
import { isoUtc } from '../core/time.ts';
import { visible } from './escape-control.ts';
import { summaryRows } from './summary-rows.ts';
import type { TableStyle } from './terminal-style.ts';
import { paints } from './terminal-style.ts';
import { wrapped } from './wrap.ts';

/** How it ended, and what is said of that behind the time that it took. */
const endings: Record<Summary['outcome'], readonly [ending: string, more: string]> = {
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
const plain: TableStyle = { width: null, colour: false };

/** The end of a job, for a person: what came in, what was published, what is missing, what to do. */
export function summaryText(summary: Summary, root: string, style: TableStyle = plain): string {
  const { bold, faint, green, yellow, red } = paints(style.colour);
  const { job, outcome, warnings_count } = summary;
  const calm = outcome === 'done' && warnings_count === 0 ? green : yellow;
  const paint = outcome === 'done' || outcome === 'incomplete' || outcome === 'interrupted' ? calm : red;
  const took = duration(summary.finished_at - summary.started_at);
  const [ending, more] = endings[outcome];
  const head = `${bold(job)} ${paint(ending)} after ${took}${more === '' ? '' : paint(more)}`;
  const rows = summaryRows(summary, root, style.width);
  const width = Math.max(0, ...rows.map(([name]) => name.length));
  const lines = rows.flatMap(([name, values]) =>
    values.map((value, i) => `  ${faint((i === 0 ? name : '').padEnd(width))}  ${value}`),
  );
  return [head, ...lines, ...problems(summary, style), ...nextLines(summary, style)].join('\n');
}

function problems({ warnings, warnings_count, failures, failures_count, error }: Summary, style: TableStyle): string[] {
  const { yellow, red } = paints(style.colour);
  const out: string[] = [];
  if (error !== null) out.push('', ...told('error:', red, error, style));
  if (warnings.length > 0) out.push('', ...warnings.flatMap((warning) => told('warning:', yellow, warning, style)));
  if (warnings_count > warnings.length) out.push(`… and ${many(warnings_count - warnings.length, 'warning')} more`);
  const whole = failures.filter(({ symbol }) => symbol === null);
  if (whole.length > 0) out.push('', ...whole.flatMap(({ reason }) => told('incomplete:', yellow, reason, style)));
  const windows = failures.filter(({ symbol }) => symbol !== null);
  if (windows.length > 0) {
    const all = failures_count - whole.length;
    // A night asks no more for what it was told to be lost.
    const next = windows.some(({ reason }) => reason.startsWith('lost: ')) ? '' : '; the next run asks again';
    out.push('', `${many(all, 'window')} could not be fetched${next}:`);
    for (const { symbol, from, to, reason } of windows.slice(0, windowsShown))
      out.push(
        ...wrapped(
          `${visible(symbol!)}  ${isoUtc(from!)} … ${isoUtc(to!)}  ${visible(reason)}`,
          style.width,
          '  ',
          '      ',
        ),
      );
    if (all > windowsShown) out.push(`  … and ${number(all - windowsShown)} more`);
  }
  return out;
}

const windowsShown = 5;

/** The one thing to do next, its command by itself in a line, so that it can be copied. */
function nextLines({ next_action: action }: Summary, style: TableStyle): string[] {
  if (action === null || action === undefined) return [];
  const { bold } = paints(style.colour);
  const [, sentence, command] = /^(.*?): ((?:oddslake|gzip) .*)$/s.exec(action) ?? [];
  if (sentence === undefined) return ['', ...told('next:', bold, action, style)];
  return ['', ...told('next:', bold, `${sentence}:`, style), `  ${visible(command!)}`];
}

function told(head: string, paint: (text: string) => string, text: string, { width }: TableStyle): string[] {
  const [first, ...rest] = wrapped(`${head} ${visible(text)}`, width, '', '  ');
  return [paint(head) + first!.slice(head.length), ...rest];
}
