import type { Type } from 'typebox';
import type { ExportJob } from '../contract/export-jobs.ts';
import { paths } from '../contract/paths.ts';
import type { ExportJobRow } from '../workspace/tables.ts';

/** Where a job is told of, relative to the service. */
export const toExportJobUrl = ({ id }: Pick<ExportJobRow, 'id'>): string => `${paths.exportJobs}/${id}`;

/** A job as clients see it. */
export const toExportJob = (row: ExportJobRow): Type.Static<typeof ExportJob> => ({
  id: row.id,
  state: row.state,
  dataset: row.dataset,
  symbols: JSON.parse(row.symbols) as string[],
  from: row.from_ms,
  to: row.to_ms,
  format: row.format,
  progress: { rows_done: row.rows_done, rows_total: row.rows_total },
  created_at: row.created_at,
  finished_at: row.finished_at,
  expires_at: row.expires_at,
  file: toExportFile(row),
  error: row.error,
});

function toExportFile(row: ExportJobRow) {
  const { bytes, sha256, rows, generation } = row;
  if (bytes === null || sha256 === null || rows === null || generation === null) return null;
  return { url: `${toExportJobUrl(row)}/file`, bytes, sha256, rows, generation };
}
