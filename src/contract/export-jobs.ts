import { Type } from 'typebox';
import { Count, epochMs, exportDatasets, GeneratedAt, nullable, oneOf, Sha256, text } from './export.ts';

/* Exports that are asked for: a job that makes a file of one slice. */

export const exportFormats = ['parquet', 'csv', 'ndjson', 'arrow'] as const;

/** The greatest time that a JavaScript date can be. */
const epochMsMax = 8_640_000_000_000_000;

export const ExportRequest = Type.Object(
  {
    dataset: oneOf(exportDatasets, 'The dataset.'),
    symbols: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 1000 }), {
        maxItems: 1000,
        description: 'Only these symbols, each of which has to be known; without them, or with none, all.',
      }),
    ),
    from: Type.Optional(
      Type.Integer({ minimum: 0, maximum: epochMsMax, description: 'Start, included, epoch milliseconds.' }),
    ),
    to: Type.Optional(Type.Integer({ minimum: 0, maximum: epochMsMax, description: 'End, excluded.' })),
    format: oneOf(exportFormats, 'How the file is written.'),
  },
  { additionalProperties: false, description: 'One slice of one dataset.' },
);

export const ExportRequestHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description: 'Sent again with the same body, the job that it made is answered; with another one, 422.',
    }),
  ),
});

export const jobStates = ['waiting', 'running', 'done', 'failed', 'cancelled'] as const;

export const ExportJob = Type.Object(
  {
    id: Type.String({ description: 'Names it.' }),
    state: oneOf(
      jobStates,
      'waiting and running go on by themselves; the others are final. cancelled: by an older version, as what is removed is gone.',
    ),
    dataset: oneOf(exportDatasets, 'As asked.'),
    symbols: Type.Array(Type.String(), { description: 'As asked, each once; none: all.' }),
    from: nullable(epochMs, 'As asked; null: open.'),
    to: nullable(epochMs, 'As asked; null: open.'),
    format: oneOf(exportFormats, 'As asked.'),
    progress: Type.Object({
      rows_done: Count('Rows written.'),
      rows_total: nullable(Type.Integer({ minimum: 0 }), 'Rows to write; null until they are counted.'),
    }),
    created_at: Type.Integer({ description: 'When it was asked for, epoch milliseconds.' }),
    finished_at: nullable(epochMs, 'When it came to its end; else null.'),
    expires_at: nullable(epochMs, 'When it and its file are removed; null while it is not finished.'),
    file: nullable(
      Type.Object({
        url: Type.String({ description: 'Its address, relative to this service.' }),
        bytes: Count('Its size.'),
        sha256: Sha256('Of its bytes, in hex: its ETag.'),
        rows: Count('Rows in it.'),
        generation: Count('The generation of the archive that it is a slice of.'),
      }),
      'What was made, once it is done.',
    ),
    error: nullable(text, 'Why it failed; else null.'),
  },
  { description: 'An export that was asked for.' },
);

export const ExportJobsQuery = Type.Object(
  {
    limit: Type.Optional(
      Type.Integer({ minimum: 1, default: 100, description: 'Most jobs of the answer; above 2000 it is cut to that.' }),
    ),
  },
  { additionalProperties: false },
);

export const ExportJobsResponse = Type.Object({
  jobs: Type.Array(ExportJob, { description: 'Newest first.' }),
  count: Count('Number of jobs in this answer.'),
  total: Count('Number of all jobs of this key.'),
  generated_at: GeneratedAt,
});

export const ExportJobPath = Type.Object(
  { id: Type.String({ pattern: '^[0-9a-z]{1,40}$', description: 'The job.' }) },
  { additionalProperties: false },
);
