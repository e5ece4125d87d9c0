import { formatBytes, formatNumber } from '../core/format-quantity.ts';

/** How far work is, at one moment. */
export interface ProgressState {
  readonly label: string;
  readonly done: number;
  readonly total: number;
  /** What is counted, in the plural; `bytes` are told as sizes. */
  readonly unit: string;
  readonly note?: string | undefined;
  readonly ticks?: number | undefined;
  readonly ticksPerSecond?: number | undefined;
  /** Of work that asks the service: requests a second, how many are allowed, and how long it holds all back. */
  readonly asking?: { readonly perSecond: number; readonly allowed: number; readonly heldBackMs: number } | undefined;
  /** How long the rest will take; null while nobody can tell. */
  readonly remainingMs: number | null;
}

/** One line of at most `width` columns: where it is narrow, what matters least is left out first. */
export function formatProgressLine(facts: ProgressState, width: number): string {
  const { label, note = '', ticks, ticksPerSecond, asking } = facts;
  const share = facts.total > 0 ? Math.min(1, facts.done / facts.total) : 0;
  const percent = `${Math.floor(share * 100)} %`;
  const [count, bare] = formatCounts(facts);
  const came = ticks === undefined || ticks === 0 ? '' : `${formatCompact(ticks)} ticks`;
  const speed = ticksPerSecond === undefined || ticksPerSecond < 1 ? '' : `${formatCompact(ticksPerSecond)} ticks/s`;
  const asks =
    asking === undefined ? '' : `${formatRate(asking.perSecond)} of ${formatRate(asking.allowed)} requests/s`;
  const few = asks.replace('requests', 'req');
  const held =
    asking === undefined || asking.heldBackMs < 1000 ? '' : `held back ${formatRemaining(asking.heldBackMs)}`;
  const left = facts.remainingMs === null ? '' : `${formatRemaining(facts.remainingMs)} left`;
  const bar = (columns: number): string => `${label} ${formatBar(share, columns)}`;
  const forms = [
    [bar(30), percent, count, note, came, speed, asks, held, left],
    [bar(20), percent, count, note, came, speed, asks, held, left],
    [bar(12), percent, count, note, speed, asks, held, left],
    [bar(8), percent, count, note, speed, few, held, left],
    [bar(8), count, note, speed, few, held, left],
    [bar(6), bare, speed, few, held, left],
    [bar(6), bare, few, held, left],
    [label, bare, held, left],
  ];
  const lines = forms.map((form) => form.filter((piece) => piece !== '').join('  '));
  return lines.find((line) => line.length <= width) ?? `${label}  ${percent}`.slice(0, width);
}

/** With what is counted, and without. */
function formatCounts({ done, total, unit }: ProgressState): [string, string] {
  if (unit === 'bytes') return [`${formatBytes(done)} of ${formatBytes(total)}`, formatBytes(done)];
  const bare = `${formatNumber(done)}/${formatNumber(total)}`;
  return [`${bare} ${unit}`, bare];
}

const formatBar = (share: number, columns: number): string => {
  const full = Math.floor(share * columns);
  return '█'.repeat(full) + '░'.repeat(columns - full);
};

/** `1.2M`. */
const formatCompact = (n: number): string =>
  n < 1000 ? String(Math.round(n)) : n.toLocaleString('en-US', { notation: 'compact', maximumFractionDigits: 1 });

/** `4.8`, `12`, `0.25`. */
const formatRate = (perSecond: number): string => formatNumber(Number(perSecond.toPrecision(2)));

/** `45s`, `3m20s`, `12m`, `2h05m`: the longer, the coarser, as nobody knows it better. */
export function formatRemaining(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 600) {
    const tens = Math.ceil(seconds / 10) * 10;
    return `${Math.floor(tens / 60)}m${String(tens % 60).padStart(2, '0')}s`;
  }
  const minutes = Math.ceil(seconds / 60);
  return minutes < 60 ? `${minutes}m` : `${Math.floor(minutes / 60)}h${String(minutes % 60).padStart(2, '0')}m`;
}
