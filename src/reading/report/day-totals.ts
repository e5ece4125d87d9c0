import type { Manifest } from '../../archive/manifest.ts';
import type { DayState } from '../../core/verdict.ts';

/** What a UTC day holds, all its datasets together. */
export interface DayTotals {
  /** YYYY-MM-DD */
  readonly date: string;
  readonly ticks: number;
  readonly bytes: number;
  readonly conflicts: number;
  readonly state: DayState['state'];
  /** Symbols alive that day, and those of them covered throughout. */
  readonly expected: number;
  readonly covered: number;
}

/** The days that a manifest has files of, and those that were judged, in their order. */
export function computeDayTotals(
  { datasets }: Pick<Manifest, 'datasets'>,
  days: Readonly<Record<string, DayState>>,
): DayTotals[] {
  const totals = new Map<string, { -readonly [name in keyof DayTotals]: DayTotals[name] }>();
  const of = (date: string) => {
    const known = totals.get(date);
    if (known !== undefined) return known;
    const { state = 'incomplete', expected = 0, covered = 0 } = days[date] ?? {};
    const total = { date, ticks: 0, bytes: 0, conflicts: 0, state, expected, covered };
    totals.set(date, total);
    return total;
  };
  for (const date of Object.keys(days)) of(date);
  for (const [dataset, { files }] of Object.entries(datasets)) {
    for (const { date, rows, bytes } of files) {
      if (date === null) continue;
      const total = of(date);
      total.bytes += bytes;
      if (dataset === 'ticks') total.ticks += rows;
      if (dataset === 'conflicts') total.conflicts += rows;
    }
  }
  return [...totals.values()].sort((a, b) => (a.date < b.date ? -1 : 1));
}
