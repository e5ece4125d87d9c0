import type { DayState } from './calendar.ts';

/** A published file, as the manifest lists it. */
export interface ListedFile {
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
  readonly datasets: Readonly<Record<string, { readonly files: readonly ListedFile[] }>>;
}

/** Where the service has a published file: ticks/date=2026-11-19/part-00.parquet → …/files/ticks/2026-11-19/part-00.parquet */
export const urlOf = ({ path }: ListedFile): string =>
  `/api/v1/export/files/${path
    .split('/')
    .map((step) => encodeURIComponent(step.replace(/^date=/, '')))
    .join('/')}`;

/** A name for it outside of its folder: ticks-2026-11-19-part-00.parquet */
export const nameOf = ({ path }: ListedFile): string => path.replaceAll('date=', '').replaceAll('/', '-');

/** The line that fetches it, with the key from the environment, for any POSIX shell. */
export const curlLine = (url: string, name: string): string =>
  `curl --fail --location --header "Authorization: Bearer $ODDSLAKE_KEY" --output ${quoted(name)} ${quoted(url)}`;

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Files of a UTC day by dataset, those without rows left out. */
export const filesOfDay = (manifest: Manifest, date: string): { dataset: string; files: ListedFile[] }[] =>
  Object.entries(manifest.datasets)
    .map(([dataset, { files }]) => ({ dataset, files: files.filter((file) => file.date === date) }))
    .filter(({ files }) => files.length > 0);
