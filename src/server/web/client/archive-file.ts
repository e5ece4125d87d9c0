import { dayMs } from '../../../base/window.ts';
import type { DayState } from '../../../contract/day-reasons.ts';

/** A published file in the manifest. */
export interface ManifestFile {
  readonly path: string;
  readonly date: string | null;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
}

/** The parts of manifest.json that the page reads. */
export interface Manifest {
  readonly generation: number;
  readonly created_at: number;
  readonly days: Readonly<Record<string, DayState>>;
  readonly datasets: Readonly<Record<string, { readonly files: readonly ManifestFile[] }>>;
}

/** URL of a published file: ticks/date=2026-11-19/part-00.parquet → …/files/ticks/2026-11-19/part-00.parquet */
export const toFileUrl = ({ path }: ManifestFile): string =>
  `/api/v1/export/files/${path
    .split('/')
    .map((step) => encodeURIComponent(step.replace(/^date=/, '')))
    .join('/')}`;

/** File name without folders: ticks-2026-11-19-part-00.parquet */
export const toFileName = ({ path }: ManifestFile): string => path.replaceAll('date=', '').replaceAll('/', '-');

/** A curl command for a POSIX shell that downloads a file, with the key from the environment if one is needed. */
export const formatCurlCommand = (url: string, name: string, isKeyNeeded = true): string =>
  `curl --fail --location ${isKeyNeeded ? '--header "Authorization: Bearer $ODDSLAKE_KEY" ' : ''}--output ${quoteShell(name)} ${quoteShell(url)}`;

export const quoteShell = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** The files of a UTC day by dataset. Datasets without rows on the day are omitted: they may have a file without rows. */
export const listFilesOfDay = (manifest: Manifest, date: string): { dataset: string; files: ManifestFile[] }[] =>
  Object.entries(manifest.datasets)
    .map(([dataset, { files }]) => ({ dataset, files: files.filter((file) => file.date === date && file.rows > 0) }))
    .filter(({ files }) => files.length > 0);

export interface CalendarDay {
  readonly date: string;
  /** Null if the archive has no data for the day. */
  readonly state: DayState | null;
}

export interface CalendarMonth {
  /** YYYY-MM */
  readonly month: string;
  /** Days of the week before the first day: 0 for a Monday, to 6. */
  readonly leadingBlanks: number;
  readonly days: readonly CalendarDay[];
}

/** Maximum number of months in the calendar; older months are omitted. */
const monthsMax = 120;

/** The months from the first to the last day of the archive, including days without data. */
export function buildCalendar(days: Readonly<Record<string, DayState>>): CalendarMonth[] {
  const dates = Object.keys(days).sort();
  const [first, last] = [dates[0], dates.at(-1)];
  if (first === undefined || last === undefined) return [];
  const months: CalendarMonth[] = [];
  for (let month = last.slice(0, 7); month >= first.slice(0, 7) && months.length < monthsMax; ) {
    const start = Date.parse(`${month}-01`);
    months.unshift({ month, leadingBlanks: (new Date(start).getUTCDay() + 6) % 7, days: listDaysOfMonth(month, days) });
    month = new Date(start - dayMs).toISOString().slice(0, 7);
  }
  return months;
}

function listDaysOfMonth(month: string, days: Readonly<Record<string, DayState>>): readonly CalendarDay[] {
  const out: CalendarDay[] = [];
  for (let t = Date.parse(`${month}-01`); ; t += dayMs) {
    const date = new Date(t).toISOString().slice(0, 10);
    if (!date.startsWith(month)) return out;
    out.push({ date, state: days[date] ?? null });
  }
}

export const levelsCount = 5;

/**
 * Shade of a day by its share of covered symbols: 0 for none, `levelsCount` for all; null if no symbol is expected. If one
 * symbol is not covered, the day does not have the darkest shade.
 */
export function toLevel(state: DayState | null): number | null {
  if (state === null || state.expected === 0) return null;
  const share = state.covered / state.expected;
  if (share >= 1) return levelsCount;
  return share <= 0 ? 0 : Math.min(levelsCount - 1, 1 + Math.floor(share * (levelsCount - 1)));
}
