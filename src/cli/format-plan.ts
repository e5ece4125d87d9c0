import { formatCount, formatDuration, formatNumber, formatRate } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import type { Window } from '../base/window.ts';
import {
  computeExpectedSeconds,
  type ExpectedRate,
  type FetchEstimate,
  type WindowGroup,
} from '../collector/steps/estimate-step.ts';
import { wrapText } from './table.ts';
import { escapeControls, type TerminalStyle } from './terminal-style.ts';

// The output of dry runs of jobs that send requests.

const groupsShown = 20;
const namesShown = 3;
const windowsShown = 3;

/** A plan of ticks, and the requests that the job sends besides. */
interface ShownPlan {
  /** The source, of an archive's several; null: the only service. */
  readonly source: string | null;
  readonly ticks: FetchEstimate;
  readonly rate: ExpectedRate;
  /** Other requests by what they are for, e.g. `market lists`. Empty for a backfill. */
  readonly others: readonly { readonly name: string; readonly requests: number }[];
  /** Whether the market lists were never polled, so that the symbols are unknown. */
  readonly isFirst: boolean;
  /** Sentences. */
  readonly warnings?: readonly string[];
}

/** Formats a plan: how much, how long, and the windows, with equal ones in one group. Ends with a newline. */
export function formatPlan(
  { source, ticks, rate, others, isFirst, warnings = [] }: ShownPlan,
  style: TerminalStyle,
): string {
  const { symbols, windows, requests, unknownSymbols, groups } = ticks;
  const total = countAll({ ticks, others });
  const atLeast = unknownSymbols > 0 || isFirst ? 'at least' : 'about';
  const duration = formatDuration(computeExpectedSeconds(total, rate) * 1000);
  const rateText = `${formatRate(rate.perSecond)} per second`;
  const sourceText = source === null ? '' : `${source}: `;
  const isUnknown = hasNoSymbols({ ticks, isFirst });
  const figures = [
    `${sourceText}${formatCount(symbols, 'symbol')}, ${formatCount(windows, 'window')}, ${atLeast} ${formatCount(total, 'request')}${ticks.ticks === 0 ? '' : ` and ${formatNumber(roundCount(ticks.ticks))} ticks`}`,
    rate.isMeasured
      ? `${atLeast} ${duration} at ${rateText}: the service allows more, but responded no faster in the last long run`
      : `${atLeast} ${duration} at the configured rate of ${rateText}`,
  ];
  const unknown = [
    `${sourceText}which symbols exist is not known, nor what their ticks would take: no market list has been polled yet`,
    `${style.complete('oddslake markets')} polls the lists, and then this plan has figures`,
  ];
  const parts = [...(isUnknown ? [] : [{ name: 'ticks', requests }]), ...others.filter((one) => one.requests > 0)];
  const lines = [
    ...(isUnknown ? unknown : figures),
    ...(parts.every(({ name }) => name === 'ticks')
      ? []
      : [
          `${isUnknown ? 'other ' : ''}requests: ${parts.map((one) => `${one.name} ${formatNumber(one.requests)}`).join(', ')}`,
        ]),
    ...(isFirst && !isUnknown
      ? ['the market lists were not polled yet: they will name symbols that are not counted here']
      : []),
    ...(unknownSymbols === 0
      ? []
      : [`nothing is known yet of ${formatCount(unknownSymbols, 'symbol')}: each window counts as one request`]),
    ...warnings.map((text) => `warning: ${escapeControls(text)}`),
  ].flatMap((line) => wrapText(line, style.width, '', '  '));
  const more = groups.length > groupsShown ? [`  … and ${formatCount(groups.length - groupsShown, 'more group')}`] : [];
  return `${[...lines, ...groups.slice(0, groupsShown).flatMap((group) => formatGroup(group, style)), ...more].join('\n')}\n`;
}

function formatGroup({ windows, symbols, requests }: WindowGroup, { width }: TerminalStyle): string[] {
  const shown = windows.slice(0, windowsShown).map(formatWindow);
  const more = windows.length > windowsShown ? [`${formatNumber(windows.length - windowsShown)} more windows`] : [];
  const names = symbols.slice(0, namesShown).map(escapeControls);
  const others = symbols.length > namesShown ? `, and ${formatNumber(symbols.length - namesShown)} more` : '';
  const head = `${[...shown, ...more].join(', ')}`;
  const tail = `${formatCount(symbols.length, 'symbol')}, ${formatCount(Math.round(requests), 'request')}: ${names.join(', ')}${others}`;
  return [...wrapText(head, width, '  ', '  '), ...wrapText(tail, width, '    ', '    ')];
}

const formatWindow = ({ from, to }: Window): string => `${formatIsoUtc(from)} … ${formatIsoUtc(to)}`;

/** A count without digits that the estimate does not support. */
const roundCount = (count: number): number => (count < 100 ? count : Number(count.toPrecision(2)));

const countAll = ({ ticks, others }: Pick<ShownPlan, 'ticks' | 'others'>): number =>
  others.reduce((sum, { requests }) => sum + requests, ticks.requests);

const hasNoSymbols = ({ ticks, isFirst }: Pick<ShownPlan, 'ticks' | 'isFirst'>): boolean =>
  isFirst && ticks.symbols === 0;

/** The same as JSON. Times are epoch ms; the groups are cut, with a count beside them. Figures that are not known are null. */
export function toPlanJson({ source, ticks, rate, others, isFirst, warnings = [] }: ShownPlan): object {
  const requests = countAll({ ticks, others });
  const ifKnown = (figure: number): number | null => (hasNoSymbols({ ticks, isFirst }) ? null : figure);
  return {
    ...(source !== null && { source }),
    symbols: ifKnown(ticks.symbols),
    windows: ifKnown(ticks.windows),
    expected_requests: ifKnown(requests),
    expected_seconds: ifKnown(Math.round(computeExpectedSeconds(requests, rate) * 10) / 10),
    expected_ticks: ifKnown(ticks.ticks),
    requests_per_second: rate.perSecond,
    ...(others.length > 0 && {
      requests: Object.fromEntries(
        [{ name: 'ticks', requests: ifKnown(ticks.requests) }, ...others].map((one) => [
          one.name.replaceAll(' ', '_'),
          one.requests,
        ]),
      ),
    }),
    is_first: isFirst,
    ...(warnings.length > 0 && { warnings }),
    unknown_symbols: ifKnown(ticks.unknownSymbols),
    groups: ticks.groups.slice(0, groupsShown).map((group) => ({
      windows: group.windows.slice(0, groupsShown).map(({ from, to }) => ({ from, to })),
      windows_count: group.windows.length,
      symbols: group.symbols.slice(0, groupsShown),
      symbols_count: group.symbols.length,
      expected_requests: Math.round(group.requests),
    })),
    groups_count: ticks.groups.length,
  };
}
