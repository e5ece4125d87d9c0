import type { Summary } from '../app/summary.ts';
import { isoUtc } from '../core/time.ts';
import { duration, many, number, size } from './amounts.ts';

const minute = (ms: number): string =>
  isoUtc(ms)
    .replace('T', ' ')
    .replace(/(:\d\d)(:\d\d)(\.\d+)?Z$/, '$1$2 UTC');

const endings: Record<Summary['outcome'], string> = {
  done: 'done',
  failed: 'failed',
  usage: 'not started',
  credential: 'stopped: the key was refused',
  incomplete: 'done, but incomplete',
  busy: 'not published: another run is writing',
  damaged: 'stopped: the archive is damaged',
  unreachable: 'failed: the upstream could not be reached',
  interrupted: 'stopped; what was accepted is kept',
};

/** The end of a job, for a person: what came in, what was published, what is missing, what to do. */
export function summaryText(summary: Summary, root: string): string {
  const { ticks, symbols, published, job, outcome } = summary;
  const head = `${job} ${endings[outcome]}, after ${duration(summary.finished_at - summary.started_at)}`;
  const rows: [string, string][] = [];
  if (summary.run_id !== null) {
    const recovered = summary.recovered > 0 ? ` · ${number(summary.recovered)} recovered from an earlier run` : '';
    if (ticks.fetched > 0 || summary.recovered > 0 || symbols.planned > 0) {
      rows.push([
        'ticks',
        `${number(ticks.accepted)} new · ${number(ticks.duplicates)} known · ${number(ticks.conflicts)} conflicting · ${number(ticks.quarantined)} set aside${recovered}`,
      ]);
    }
    if (symbols.planned > 0) {
      const retired = symbols.retired > 0 ? ` · ${number(symbols.retired)} given up` : '';
      rows.push([
        'symbols',
        `${number(symbols.done)} of ${number(symbols.planned)} done · ${number(symbols.failed)} failed${retired}`,
      ]);
    }
    const { books } = summary;
    const missing = books.missing > 0 ? ` · ${number(books.missing)} without one` : '';
    if (books.planned > 0) {
      rows.push([
        'books',
        `${number(books.done)} of ${number(books.planned)} symbols · ${number(books.snapshots)} snapshots, ${number(books.empty)} empty · ${number(books.quarantined)} set aside · ${number(books.failed)} failed${missing}`,
      ]);
    }
    if (summary.requests > 0) {
      rows.push([
        'requests',
        `${number(summary.requests)} (${number(summary.retries)} ${summary.retries === 1 ? 'retry' : 'retries'})${summary.throttled_ms > 0 ? ` · held back for ${duration(summary.throttled_ms)}` : ''}`,
      ]);
    }
    if (summary.restored !== undefined) {
      const back = restoredText(summary.restored);
      if (back !== '') rows.push(['back', back]);
    }
    rows.push(['published', publishedText(published, summary.generation)]);
    if (summary.watermark !== null) rows.push(['covered', `every live symbol up to ${minute(summary.watermark)}`]);
    rows.push(['archive', root]);
  }
  const width = Math.max(0, ...rows.map(([name]) => name.length));
  const lines = rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`);
  return [head, ...lines, ...problems(summary)].join('\n');
}

function restoredText({ raw, asked }: NonNullable<Summary['restored']>): string {
  const of = (part: typeof raw, where: string): string[] =>
    part === undefined || part.windows === 0
      ? []
      : [`${many(part.ticks, 'tick')} of ${many(part.windows, 'lost window')} ${where}`];
  return [...of(raw, 'from .oddslake/raw'), ...of(asked, 'asked for again')].join(' · ');
}

function publishedText(published: Summary['published'], generation: number): string {
  if (published.files === 0) return `nothing new (generation ${generation})`;
  const { dates } = published;
  const last =
    published.dates_count > dates.length ? `and ${published.dates_count - dates.length} days more` : dates.at(-1);
  const days = published.dates_count > 1 ? `${dates[0]} … ${last}` : (dates[0] ?? 'no day');
  return `${many(published.files, 'file')}, ${size(published.bytes)}, ${days} (generation ${generation})`;
}

function problems({ warnings, warnings_count, failures, failures_count, error }: Summary): string[] {
  const out: string[] = [];
  if (error !== null) out.push('', `error: ${error}`);
  if (warnings.length > 0) out.push('', ...warnings.map((warning) => `warning: ${warning}`));
  if (warnings_count > warnings.length) out.push(`… and ${warnings_count - warnings.length} warnings more`);
  const whole = failures.filter(({ symbol }) => symbol === null);
  if (whole.length > 0) out.push('', ...whole.map(({ reason }) => `incomplete: ${reason}`));
  const windows = failures.filter(({ symbol }) => symbol !== null);
  if (windows.length > 0) {
    const all = failures_count - whole.length;
    // A night asks no more for what it was told to be lost.
    const next = windows.some(({ reason }) => reason.startsWith('lost: ')) ? '' : '; the next run asks again';
    out.push('', `${many(all, 'window')} could not be fetched${next}:`);
    for (const { symbol, from, to, reason } of windows.slice(0, 5))
      out.push(`  ${symbol}  ${isoUtc(from!)} … ${isoUtc(to!)}  ${reason}`);
    if (all > 5) out.push(`  … and ${number(all - 5)} more`);
  }
  return out;
}
