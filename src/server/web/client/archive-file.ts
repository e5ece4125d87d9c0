/** A published file, as the manifest lists it. */
export interface ManifestFile {
  readonly path: string;
  readonly date: string | null;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
}

/** manifest.json, as far as the page reads it. */
export interface Manifest {
  readonly generation: number;
  readonly created_at: number;
  readonly upstream: string;
  readonly days: Readonly<Record<string, DayState>>;
  readonly datasets: Readonly<Record<string, { readonly files: readonly ManifestFile[] }>>;
}

/** Where the service has a published file: ticks/date=2026-11-19/part-00.parquet → …/files/ticks/2026-11-19/part-00.parquet */
export const toFileUrl = ({ path }: ManifestFile): string =>
  `/api/v1/export/files/${path
    .split('/')
    .map((step) => encodeURIComponent(step.replace(/^date=/, '')))
    .join('/')}`;

/** A name for it outside of its folder: ticks-2026-11-19-part-00.parquet */
export const toFileName = ({ path }: ManifestFile): string => path.replaceAll('date=', '').replaceAll('/', '-');

/** The line that fetches it, with the key from the environment, for any POSIX shell. */
export const formatCurlCommand = (url: string, name: string): string =>
  `curl --fail --location --header "Authorization: Bearer $ODDSLAKE_KEY" --output ${quoteShell(name)} ${quoteShell(url)}`;

const quoteShell = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Files of a UTC day by dataset, those without rows left out. */
export const listFilesOfDay = (manifest: Manifest, date: string): { dataset: string; files: ManifestFile[] }[] =>
  Object.entries(manifest.datasets)
    .map(([dataset, { files }]) => ({ dataset, files: files.filter((file) => file.date === date) }))
    .filter(({ files }) => files.length > 0);

/** A UTC day as the manifest tells of it. */
export interface DayState {
  /** complete, provisional, complete_with_exceptions, incomplete or empty. */
  readonly state: string;
  readonly expected: number;
  readonly covered: number;
  readonly missing: readonly string[];
  readonly exceptions: number;
}

export interface CalendarDay {
  readonly date: string;
  /** Null: the archive holds nothing of that day. */
  readonly state: DayState | null;
}

export interface CalendarMonth {
  /** YYYY-MM */
  readonly month: string;
  /** Days of the week before the first, from 0 where it is a Monday to 6. */
  readonly leadingBlanks: number;
  readonly days: readonly CalendarDay[];
}

const dayMs = 86_400_000;
/** More than ten years are cut: their newest months are shown. */
const monthsMax = 120;

/** The months from the first to the last day that is known, with the days between them that are not. */
export function buildCalendar(days: Readonly<Record<string, DayState>>): CalendarMonth[] {
  const known = Object.keys(days).sort();
  const [first, last] = [known[0], known.at(-1)];
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
 * How dark a day is: 0 where nothing is covered, `levels` where everything is, between them by the share; null where
 * nothing was expected. A day that lacks a single symbol is never shown as a full one.
 */
export function toLevel(state: DayState | null): number | null {
  if (state === null || state.expected === 0) return null;
  const share = state.covered / state.expected;
  if (share >= 1) return levelsCount;
  return share <= 0 ? 0 : Math.min(levelsCount - 1, 1 + Math.floor(share * (levelsCount - 1)));
}
