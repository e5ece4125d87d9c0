import type { DayState } from './calendar.ts';

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
