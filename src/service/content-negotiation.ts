import Negotiator from 'negotiator';
import type { HistoricalFormat } from '../contract/historical.ts';
import type { SliceFormat } from '../reading/export-ranges.ts';
import { ProblemError } from './problem-details.ts';

interface FileFormat {
  /** As the answer's Content-Type has it. */
  readonly type: string;
  readonly extension: string;
  readonly format: SliceFormat;
}

/** The formats that are files. */
export const fileFormats: Readonly<Record<Exclude<HistoricalFormat, 'json'>, FileFormat>> = {
  ndjson: { type: 'application/x-ndjson', extension: 'ndjson', format: 'ndjson' },
  csv: { type: 'text/csv; charset=utf-8', extension: 'csv', format: 'csv' },
  // https://www.iana.org/assignments/media-types/application/vnd.apache.arrow.stream
  arrow: { type: 'application/vnd.apache.arrow.stream', extension: 'arrows', format: 'arrow_stream' },
  parquet: { type: 'application/vnd.apache.parquet', extension: 'parquet', format: 'parquet' },
};

/** What Accept may name, the best first where the client does not care. */
const formatByMediaType: ReadonlyMap<string, HistoricalFormat> = new Map([
  ['application/json', 'json'],
  ...Object.entries(fileFormats).map(([name, { type }]) => [type.split(';')[0]!, name as HistoricalFormat] as const),
  // Names in use for the same before they were registered.
  ['application/ndjson', 'ndjson'],
  ['application/jsonl', 'ndjson'],
]);

/** The format that a request asks for: by parameter, else by Accept (RFC 9110), else JSON. Throws ProblemError 406. */
export function negotiateFormat(asked: HistoricalFormat | undefined, accept: string | undefined): HistoricalFormat {
  if (asked !== undefined) return asked;
  const best = new Negotiator({ headers: { accept } }).mediaType([...formatByMediaType.keys()]);
  const format = best === undefined ? undefined : formatByMediaType.get(best);
  if (format !== undefined) return format;
  throw new ProblemError(
    406,
    `Accept names nothing that can be had here: ${[...formatByMediaType.keys()].join(', ')}.`,
  );
}
