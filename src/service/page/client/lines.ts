import type { TimeRange } from './view.ts';

export interface Tick {
  readonly t: number;
  readonly p: number;
}

export interface Candle {
  readonly t: number;
  readonly open: number;
  readonly high: number;
  readonly low: number;
  readonly close: number;
  readonly ticks: number;
  readonly covered: number;
}

/** Columns of a chart: x in epoch milliseconds, ascending; a null breaks the line. */
export interface StepLine {
  readonly x: number[];
  readonly y: (number | null)[];
}

/**
 * The steps of a price: it holds from tick to tick, a stretch that is covered and has none included, as there nothing
 * was traded. A gap ends it where the gap begins, as what was traded there nobody knows; the next tick begins it again.
 * @param until up to where the answer reaches: a price holds to there, unless a gap comes first
 */
export function toStepLine(ticks: readonly Tick[], gaps: readonly TimeRange[], until: number): StepLine {
  const line: StepLine = { x: [], y: [] };
  const put = (x: number, y: number | null): void => {
    line.x.push(x);
    line.y.push(y);
  };
  let next = 0;
  for (const [i, { t, p }] of ticks.entries()) {
    put(t, p);
    const end = ticks[i + 1]?.t ?? until;
    while (next < gaps.length && gaps[next]!.to <= t) next++;
    const gap = gaps[next];
    if (gap !== undefined && gap.from < end) {
      const stop = Math.max(t, gap.from);
      if (stop > t) put(stop, p);
      // Between two whole milliseconds, so that it is no tick's own place.
      put(stop + 0.5, null);
    } else if (i === ticks.length - 1 && until > t) put(until, p);
  }
  return line;
}

/** Columns of candles at the middle of their intervals, with a row of nulls wherever a gap lies between two of them. */
export function toCandleColumns(candles: readonly Candle[], gaps: readonly TimeRange[], intervalMs: number) {
  const rows: (Candle | null)[] = [];
  const x: number[] = [];
  let next = 0;
  for (const candle of candles) {
    const middle = candle.t + intervalMs / 2;
    const before = x.at(-1);
    while (before !== undefined && next < gaps.length && gaps[next]!.to <= before) next++;
    if (before !== undefined && next < gaps.length && gaps[next]!.from < middle) {
      x.push((before + middle) / 2);
      rows.push(null);
    }
    x.push(middle);
    rows.push(candle);
  }
  const column = (name: 'open' | 'high' | 'low' | 'close'): (number | null)[] => rows.map((c) => c?.[name] ?? null);
  return { x, rows, open: column('open'), high: column('high'), low: column('low'), close: column('close') };
}

/** Sorted, disjoint gaps inside the range. */
export function clipGaps(gaps: readonly TimeRange[], range: TimeRange): TimeRange[] {
  const out: { from: number; to: number }[] = [];
  for (const { from, to } of [...gaps].sort((a, b) => a.from - b.from)) {
    const cut = { from: Math.max(from, range.from), to: Math.min(to, range.to) };
    if (cut.from >= cut.to) continue;
    const last = out.at(-1);
    if (last !== undefined && cut.from <= last.to) last.to = Math.max(last.to, cut.to);
    else out.push(cut);
  }
  return out;
}
