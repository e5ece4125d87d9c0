import type { Compared, NightFacts, RecheckCounts, Summary } from '../app/summary.ts';
import { duration, many, number, size } from '../core/format-quantity.ts';
import { isoUtc } from '../core/time.ts';
import { verdictText } from '../core/verdict-text.ts';
import { visible } from './escape-control.ts';
import { joined, listed, wrapped } from './wrap.ts';

type Row = readonly [name: string, lines: readonly string[]];

/** Columns that a name and the blanks around it take. */
const nameWidth = 13;

/** What is told of a run, by name: what there is nothing to tell of is left out. `width`: null where nothing is cut. */
export function summaryRows(summary: Summary, root: string, width: number | null): Row[] {
  if (summary.run_id === null) return [];
  const room = width === null ? null : Math.max(20, width - nameWidth);
  const { night, books, rechecks, restored, published, symbols } = summary;
  const inLines = (...parts: (string | null)[]): string[] =>
    joined(
      parts.filter((part) => part !== null),
      room,
    );
  const rows: [string, string[]][] = [];
  if (summary.ticks.fetched > 0 || summary.recovered > 0 || symbols.planned > 0 || night !== undefined)
    rows.push(['ticks', inLines(...tickParts(summary))]);
  if (symbols.planned > 0)
    rows.push([
      'symbols',
      inLines(
        `${number(symbols.done)} of ${number(symbols.planned)} done`,
        some(symbols.failed, 'failed'),
        some(symbols.suspended, 'suspended'),
      ),
    ]);
  if (night !== undefined) rows.push(['markets', marketLines(night.markets, room)]);
  else if (summary.markets !== undefined) rows.push(['markets', [many(summary.markets, 'market')]]);
  if (books.planned > 0)
    rows.push([
      'books',
      inLines(
        `${number(books.done)} of ${many(books.planned, 'symbol')}`,
        `${many(books.snapshots, 'snapshot')}${books.empty > 0 ? `, ${number(books.empty)} empty` : ''}`,
        some(books.quarantined, 'set aside'),
        some(books.failed, 'failed'),
        some(books.missing, 'without one'),
      ),
    ]);
  if (rechecks !== undefined && rechecks.windows + rechecks.reread_windows > 0)
    rows.push(['rechecks', inLines(...recheckParts(rechecks))]);
  if (summary.requests > 0) rows.push(['requests', inLines(...requestParts(summary))]);
  if (restored !== undefined) {
    const back = restoredParts(restored);
    if (back.length > 0) rows.push(['back', inLines(...back)]);
  }
  rows.push(['published', inLines(...publishedParts(published, summary.generation))]);
  const covered = coveredParts(summary);
  if (covered.length > 0) rows.push(['covered', covered.flatMap((part) => inLines(part))]);
  if (summary.verdict !== undefined) rows.push(['verdict', inLines(verdictText(summary.verdict))]);
  if (night !== undefined && night.too_late.count > 0) rows.push(['too late', tooLateLines(night.too_late, room)]);
  rows.push(['archive', [visible(root)]]);
  return rows;
}

const recheckParts = (rechecks: RecheckCounts): (string | null)[] => [
  many(rechecks.windows, 'window'),
  some(rechecks.contradicted, 'contradicted'),
  some(rechecks.new_ticks, 'new'),
  some(rechecks.reread_windows, 'read again'),
  some(rechecks.doubtful_windows, 'in doubt'),
  rechecks.lateness_ms === 0 ? null : `up to ${duration(rechecks.lateness_ms)} late`,
];

const some = (count: number, what: string): string | null => (count > 0 ? `${number(count)} ${what}` : null);

function tickParts({ ticks, recovered, night }: Summary): (string | null)[] {
  const aside = some(ticks.quarantined, 'set aside');
  const back = some(recovered, 'recovered from an earlier run');
  const known = some(ticks.duplicates, 'known');
  if (night === undefined)
    return [`${number(ticks.accepted)} new`, known, some(ticks.conflicts, 'conflicting'), aside, back];
  const { new: fresh, late, conflicts } = night.ticks;
  const own = ticks.accepted + recovered;
  const others = own === fresh.count ? null : `${number(own)} of them in this run`;
  return [
    `${number(fresh.count)} new${besideMedian(fresh, night.nights, true)}`,
    others,
    comparedPart(late, 'late', night),
    comparedPart(conflicts, 'conflicting', night),
    known,
    aside,
    back,
  ];
}

/** Nothing where there is none, as there never is. */
const comparedPart = (compared: Compared, what: string, { nights }: NightFacts): string | null =>
  compared.count === 0 && (compared.median ?? 0) === 0
    ? null
    : `${number(compared.count)} ${what}${besideMedian(compared, nights, false)}`;

function besideMedian({ median }: Compared, nights: number, isFirst: boolean): string {
  if (median === null) return '';
  if (nights === 1) return ` (the night before ${round(median)})`;
  return ` (median${isFirst ? ` of ${nights} nights` : ''} ${round(median)})`;
}

/** A median may lie halfway between two counts. */
const round = (median: number): string => number(median < 10 ? median : Math.round(median));

function marketLines({ new: fresh, gone, resolved, overdue }: NightFacts['markets'], room: number | null): string[] {
  const counts = [
    some(fresh.count, 'new'),
    some(resolved.count, 'resolved'),
    some(gone.count, 'gone'),
    some(overdue.count, 'overdue'),
  ].filter((part) => part !== null);
  if (counts.length === 0) return ['none new, none gone'];
  const named = ([what, { names, count }]: readonly [string, typeof gone]): string[] => {
    const left = room === null ? null : room - what.length - 2;
    return count === 0 ? [] : [`${what}: ${listed(names.map(visible), count, left)}`];
  };
  // Those are the ones that somebody may want to look into.
  return [
    ...joined(counts, room),
    ...(
      [
        ['gone', gone],
        ['overdue', overdue],
      ] as const
    ).flatMap(named),
  ];
}

function requestParts({ requests, retries, throttled_ms, rate }: Summary): (string | null)[] {
  return [
    number(requests),
    retries > 0 ? (retries === 1 ? '1 retry' : `${number(retries)} retries`) : null,
    // Of a few requests their share says nothing.
    rate === undefined || requests < 10
      ? null
      : `${Math.round(rate.used * 100)} % of ${perSecond(rate.allowed_per_second)} a second used`,
    rate !== undefined && rate.waited_ms >= 1000 ? `waited ${duration(rate.waited_ms)} for their turn` : null,
    throttled_ms > 0 ? `held back for ${duration(throttled_ms)} by the service` : null,
  ];
}

/** `5`, `0.25`: rates have few digits. */
const perSecond = (rate: number): string => number(Number(rate.toPrecision(3)));

function restoredParts({ raw, asked }: NonNullable<Summary['restored']>): string[] {
  const of = (part: typeof raw, where: string): string[] =>
    part === undefined || part.windows === 0
      ? []
      : [`${many(part.ticks, 'tick')} of ${many(part.windows, 'lost window')} ${where}`];
  return [...of(raw, 'from .oddslake/raw'), ...of(asked, 'asked for again')];
}

function publishedParts(published: Summary['published'], generation: number): string[] {
  if (published.files === 0) return [`nothing new (generation ${number(generation)})`];
  const { dates } = published;
  const last =
    published.dates_count > dates.length
      ? `and ${many(published.dates_count - dates.length, 'day')} more`
      : dates.at(-1);
  const days = published.dates_count > 1 ? `${dates[0]} … ${last}` : (dates[0] ?? 'no day');
  const ticks = [some(published.added, 'ticks added'), some(published.lost, 'ticks lost')].filter(
    (part) => part !== null,
  );
  const files = `${many(published.files, 'file')}, ${size(published.bytes)}, ${days}`;
  return [`${[files, ...ticks].join(', ')} (generation ${number(generation)})`];
}

function coveredParts({ watermark, covered_to = watermark, night, symbols: asked }: Summary): string[] {
  const but = asked.suspended === 0 ? '' : `, but for ${number(asked.suspended)} suspended`;
  const nothing = asked.planned > 0 || night !== undefined ? ['nothing yet'] : [];
  if (covered_to === null && nothing.length > 0) return nothing;
  const upTo = covered_to === null ? [] : [`every live symbol up to ${minute(covered_to)}${but}`];
  if (night === undefined) return upTo;
  const { symbols, gap_minutes: minutes } = night.covered;
  const whole = `${many(symbols, 'symbol')} without a gap`;
  return [...upTo, minutes === 0 ? whole : `${whole}, ${many(minutes, 'minute')} lacking of others`];
}

const minute = (ms: number): string =>
  isoUtc(ms)
    .replace('T', ' ')
    .replace(/(:\d\d)(:\d\d)(\.\d+)?Z$/, '$1$2 UTC');

function tooLateLines({ count, names }: NightFacts['too_late'], room: number | null): string[] {
  const why = `${many(count, 'symbol')} asked for so long after the fact that the service may have thinned ${count === 1 ? 'it' : 'them'}:`;
  return [...wrapped(why, room), listed(names.map(visible), count, room)];
}
