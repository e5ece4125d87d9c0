import { many } from '../core/format-quantity.ts';
import { grouped } from '../core/format-thousands.ts';
import { type Html, html } from '../core/html.ts';
import { dayOf } from '../core/time.ts';
import type { CoverageFacts } from '../reading/report/coverage-facts.ts';
import type { HeatRow } from '../reading/report/coverage-heatmap.ts';
import type { GapGroup } from '../reading/report/gap-groups.ts';
import type { QuarantineReason } from '../reading/report/quarantine.ts';
import type { Gathered, KnownHabit, SilentSymbol } from '../reading/report/report-data.ts';
import type { Part } from './archive-parts.ts';
import { type Column, figure, section, table } from './page-parts.ts';
import { coveragePlot, type HeatLine, heatColours, heatLevels } from './time-plots.ts';
import { lengthOf, momentOf, shortened } from './time-spans.ts';

const groupWords = { category: 'category', source: 'venue', prefix: 'the beginning of the ticker' } as const;
/** Steps that are one on a narrow page. */
const narrowSteps = 6;
/** Of a text that somebody else wrote. */
const lettersMax = 300;

/** Which share of the lives of symbols is covered, by group and hour. */
export function coverageSection({ coverage }: Gathered): Part[] {
  const { rows, groupedBy, stepMs, from, to } = coverage;
  if (rows.length === 0)
    return [{ name: 'Coverage', text: `No symbol lived from ${dayOf(from)} to ${dayOf(to - 1)}.` }];
  const said = `Share of the lives of symbols that is covered, hour by hour, by ${groupWords[groupedBy]}`;
  const lived = rows.reduce((sum, { livedMs }) => sum + total(livedMs), 0);
  const covered = rows.reduce((sum, { coveredMs }) => sum + total(coveredMs), 0);
  return [
    section('Coverage', [
      figure(
        `${said}. A quiet market is covered: somebody asked, and there was nothing.`,
        coveragePlot(`${said}: ${percent(covered / lived)} from ${momentOf(from)} to ${momentOf(to)}`, coverage, {
          wide: { lines: linesOf(coverage, 1), stepMs },
          narrow: { lines: linesOf(coverage, narrowSteps), stepMs: narrowSteps * stepMs },
        }),
      ),
      html`<p class="keys">${levelKeys()}<span class="key only-narrow">six hours a step</span></p>\n`,
      html`<details><summary>The groups in numbers</summary>${groupsTable(rows)}</details>\n`,
    ]),
  ];
}

const total = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

/** Never 100 % where anything is missing. */
const percent = (share: number): string => `${Math.floor(share * 1000) / 10} %`;

const linesOf = ({ rows }: CoverageFacts, steps: number): HeatLine[] =>
  rows.map(({ group, livedMs, coveredMs }) => {
    const [lived, covered] = [summed(livedMs, steps), summed(coveredMs, steps)];
    return { name: group, shares: lived.map((ms, i) => (ms === 0 ? null : covered[i]! / ms)) };
  });

const summed = (values: readonly number[], steps: number): number[] =>
  Array.from({ length: Math.ceil(values.length / steps) }, (_, i) => total(values.slice(i * steps, (i + 1) * steps)));

const levelWords = ['nothing', 'less than half', 'half or more', '90 % or more', 'all'] as const;

const levelKeys = (): Html[] =>
  heatLevels.map(
    (_, level) =>
      html`<span class="key"><span class="swatch level-${heatColours[level]!}" aria-hidden="true"></span>${levelWords[level]!}</span>\n`,
  );

function groupsTable(rows: readonly HeatRow[]): Html {
  const worst = ({ livedMs, coveredMs }: HeatRow): number =>
    livedMs.reduce((least, ms, i) => (ms === 0 ? least : Math.min(least, coveredMs[i]! / ms)), 1);
  const columns: Column<HeatRow>[] = [
    { name: 'Group', kind: 'text', of: ({ group }) => group },
    { name: 'Symbols', of: ({ symbols }) => grouped(symbols) },
    { name: 'Covered', of: ({ livedMs, coveredMs }) => percent(total(coveredMs) / total(livedMs)) },
    { name: 'In the worst hour', of: (row) => percent(worst(row)), isLoss: (row) => worst(row) < 1 },
    { name: 'Missing', of: ({ livedMs, coveredMs }) => lengthOf(total(livedMs) - total(coveredMs)) },
  ];
  return table('Coverage by group', columns, rows);
}

/** What of the lives of symbols nobody has answered for. */
export function gapsSection({ gaps }: Gathered): Part[] {
  const { windows, symbols, missingMs, greatest, groups, oldest } = gaps;
  if (windows === 0 || oldest === null)
    return [
      { name: 'Gaps', text: 'Nothing is missing between the first and the last moment that the archive knows of.' },
    ];
  const columns: Column<GapGroup>[] = [
    { name: 'From', kind: 'left', of: ({ from }) => momentOf(from) },
    { name: 'To', kind: 'left', of: ({ to }) => momentOf(to) },
    { name: 'Length', of: ({ from, to }) => lengthOf(to - from) },
    { name: 'Symbols', of: ({ count }) => grouped(count) },
    { name: 'Such as', kind: 'text', of: (group) => group.symbols.join(', ') },
    { name: 'Why', kind: 'left', of: ({ reason }) => (reason === 'lost' ? 'ticks were lost' : reason) },
  ];
  const cut = groups > greatest.length ? ` The greatest ${greatest.length} of ${grouped(groups)} are listed.` : '';
  const together = groups < windows ? ' Gaps of several symbols at one time stand together.' : '';
  return [
    section(
      'Gaps',
      [
        html`<p class="note">${grouped(windows)} in the lives of ${many(symbols, 'symbol')}, ${lengthOf(missingMs)} in all. The oldest begins ${momentOf(oldest.from)}.${together}${cut} All of them: oddslake gaps</p>\n`,
        table('Gaps', columns, greatest),
      ],
      true,
    ),
  ];
}

/** Input that could not be used, by why. */
export function quarantineSection({ quarantine, shown }: Gathered): Part[] {
  const { count, reasons, reasonsCount, isCut } = quarantine;
  const since = `since ${dayOf(shown.from)}`;
  if (count === 0) return [{ name: 'Quarantine', text: `Nothing was set aside ${since}.` }];
  const columns: Column<QuarantineReason>[] = [
    { name: 'Reason', kind: 'text', of: ({ reason }) => shortened(reason, lettersMax) },
    { name: 'Count', of: (reason) => grouped(reason.count) },
    { name: 'Last', kind: 'left', of: ({ lastAt }) => (lastAt === null ? 'not yet published' : momentOf(lastAt)) },
    { name: 'Such as', kind: 'text', of: ({ symbol }) => symbol ?? '' },
  ];
  const cut = `${isCut ? ' Only the newest of them are counted.' : ''}${reasonsCount > reasons.length ? ` The ${reasons.length} most frequent of ${grouped(reasonsCount)} reasons are listed.` : ''}`;
  return [
    section('Quarantine', [
      html`<p class="note">${grouped(count)} ${count === 1 ? 'was' : 'were'} set aside as received ${since}, under .oddslake/quarantine.${cut}</p>\n`,
      table('Quarantine by reason', columns, reasons),
    ]),
  ];
}

/** Which symbols tick most, and which have stopped to. */
export function symbolsSection({ habits }: Gathered): Part[] {
  const { busiest, silent, days, error } = habits;
  if (error !== null)
    return [section('Symbols', [html`<p class="warning">The ticks could not be read: ${error}</p>\n`])];
  const pause = ({ longestPause }: KnownHabit): string => lengthOf(Math.max(1, longestPause) * 3_600_000);
  const named = <Row extends KnownHabit>(rows: readonly Row[]): Column<Row>[] => [
    { name: 'Symbol', kind: 'text', of: ({ symbol }) => symbol },
    ...(rows.every(({ question }) => question === null)
      ? []
      : [
          { name: 'Question', kind: 'text' as const, of: ({ question }: Row) => shortened(question ?? '', lettersMax) },
        ]),
  ];
  const silentColumns: Column<SilentSymbol>[] = [
    ...named(silent),
    { name: 'Last tick', kind: 'left', of: ({ lastTick }) => momentOf(lastTick) },
    { name: 'Quiet for', of: ({ quietMs }) => lengthOf(quietMs) },
    { name: 'Never before for more than', of: pause },
  ];
  const busyColumns: Column<KnownHabit>[] = [
    ...named(busiest),
    { name: 'Ticks', of: ({ ticks }) => grouped(ticks) },
    { name: 'Hours with ticks', of: ({ hours }) => grouped(hours) },
  ];
  const quiet: Part =
    silent.length === 0
      ? { name: 'Newly silent symbols', text: 'No live symbol that ticked regularly has stopped to.' }
      : section(
          'Newly silent symbols',
          [
            html`<p class="note">Live symbols that are covered, ticked in many hours of the last ${days} days, and have been quiet for more than twice their longest pause:</p>\n`,
            table('Newly silent symbols', silentColumns, silent),
          ],
          true,
        );
  return [
    quiet,
    ...(busiest.length === 0
      ? []
      : [
          section(
            'Busiest symbols',
            [
              html`<p class="note">By ticks in the last ${days} days.</p>\n`,
              table('Busiest symbols', busyColumns, busiest),
            ],
            true,
          ),
        ]),
  ];
}
