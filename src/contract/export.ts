import { type TSchema, Type } from 'typebox';

/* Bulk export: the manifest and the published files as they are. */

/** Every dataset that is published; those with days have their files below a date. */
const datedDatasets = ['ticks', 'markets', 'orderbooks', 'candles_1h', 'candles_1d', 'coverage', 'conflicts'] as const;
export const exportDatasets = ['ticks', 'symbols', ...datedDatasets.slice(1)] as const;

export const oneOf = (names: readonly string[], description: string) =>
  Type.Unsafe<string>({ type: 'string', enum: [...names], description });
export const nullable = <S extends TSchema>(schema: S, description: string) =>
  Type.Union([schema, Type.Null()], { description });
export const epochMs = Type.Integer();
export const text = Type.String();
export const Count = (description: string) => Type.Integer({ minimum: 0, description });
export const Sha256 = (description: string) => Type.String({ pattern: '^[0-9a-f]{64}$', description });
export const GeneratedAt = Type.Integer({ description: 'When the answer was generated, epoch milliseconds.' });

export const ExportQuery = Type.Object(
  {
    since: Type.Optional(
      Type.Integer({
        minimum: 0,
        description:
          'Only the files written after this generation, with their addresses: what a copy of it lacks. 0: every file.',
      }),
    ),
  },
  { additionalProperties: false },
);

const fileFields = {
  path: Type.String({ description: 'Below the root of the archive.' }),
  date: nullable(text, 'UTC day, YYYY-MM-DD; null where the dataset has no days.'),
  rows: Count('Rows in it.'),
  bytes: Count('Its size.'),
  sha256: Sha256('Of its bytes, in hex: its ETag.'),
  t_min: nullable(epochMs, 'Time of its first row, epoch milliseconds.'),
  t_max: nullable(epochMs, 'Time of its last row, epoch milliseconds.'),
  symbols: Count('How many symbols it holds.'),
  generation: Count('The generation that wrote it.'),
};

/** manifest.json, byte for byte. */
export const ManifestResponse = Type.Object(
  {
    format_version: Type.Integer({ minimum: 1, description: 'Version of the layout of the archive.' }),
    generation: Count('Counts the publishes; 0: nothing is published yet.'),
    created_at: Type.Integer({ description: 'When it was published, epoch milliseconds.' }),
    writer: Type.String({ description: 'The program that wrote it.' }),
    upstream: Type.String({ description: 'Where the data is from.' }),
    parts: Type.Integer({ minimum: 1, description: 'Files that a day of a dataset is split into.' }),
    previous_sha256: nullable(text, 'Of the manifest before this one.'),
    watermark: nullable(epochMs, 'Every live symbol is covered up to here by proven windows, epoch milliseconds.'),
    reached: Type.Optional(
      nullable(epochMs, 'The same with inferred windows, epoch milliseconds; absent in an older format.'),
    ),
    days: Type.Unsafe<object>({
      type: 'object',
      additionalProperties: true,
      description:
        'By day: state (complete, provisional, complete_with_exceptions, incomplete, empty), expected, covered, missing, exceptions.',
    }),
    datasets: Type.Unsafe<object>({
      type: 'object',
      additionalProperties: Type.Object({ files: Type.Array(Type.Object(fileFields)) }),
      description: 'The files of each dataset.',
    }),
    lost: Type.Optional(
      Type.Array(
        Type.Object({
          dataset: text,
          symbol: text,
          from: epochMs,
          to: epochMs,
          ticks: Count('How many were published in it.'),
        }),
        { description: 'Windows whose ticks were published once and are lost; absent where there are none.' },
      ),
    ),
    removed: Type.Optional(
      Type.Array(Type.Object({ path: text, generation: Count('The first without it.') }), {
        description: 'Files that a repair had to take out; absent where there are none.',
      }),
    ),
  },
  { description: 'manifest.json as published, byte for byte.' },
);

export const ChangesResponse = Type.Object(
  {
    since: Count('The generation that was asked about.'),
    generation: Count('The generation that a copy is of, once it has these files.'),
    count: Count('Number of files.'),
    files: Type.Array(
      Type.Object({
        dataset: oneOf(exportDatasets, 'The dataset.'),
        ...fileFields,
        url: Type.String({ description: 'Its address, relative to this service.' }),
      }),
    ),
    removed: Type.Array(text, { description: 'Paths of files that are no more, to be removed from a copy.' }),
    generated_at: GeneratedAt,
  },
  { description: 'With `since`: the files written after that generation.' },
);

/** Four digits are more than the parts that an archive may have. */
const Part = Type.String({
  pattern: '^part-\\d{2,4}\\.parquet$',
  description: 'A file of the manifest: part-00.parquet',
});

export const FilePath = Type.Object(
  {
    dataset: oneOf(datedDatasets, 'A dataset that has days.'),
    date: Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$', description: 'UTC day, YYYY-MM-DD.' }),
    part: Part,
  },
  { additionalProperties: false },
);
export const SymbolsPath = Type.Object({ part: Part }, { additionalProperties: false });

/** What GET and HEAD of a file heed. */
export const FileHeaders = Type.Object({
  range: Type.Optional(
    Type.String({
      description:
        'bytes=0-99, or up to 8 of them (answered as multipart/byteranges). More ranges, more bytes than the file has, another unit or none at all: the whole file.',
    }),
  ),
  'if-range': Type.Optional(
    Type.String({
      description: 'A strong ETag: the range counts only while it is still that file. A date never matches.',
    }),
  ),
  'if-match': Type.Optional(
    Type.String({ description: 'ETags: 412 where the file is another one by now, as it was published again.' }),
  ),
  'if-none-match': Type.Optional(Type.String({ description: 'ETags: 304 where the file is still one of them.' })),
  'if-modified-since': Type.Optional(Type.String({ description: '304 where it was not written since.' })),
  'if-unmodified-since': Type.Optional(Type.String({ description: '412 where it was written since.' })),
});

const binary = { schema: { type: 'string', format: 'binary' } };

/** What a file is answered with, for the document: its bytes as one of these types, some of them, or nothing new. */
export const fileResponses = (types: readonly string[]) => {
  const content = Object.fromEntries(types.map((type) => [type, binary]));
  return {
    200: { description: 'The file, its sha256 checked.', headers: fileResponseHeaders, content },
    206: {
      description: 'The range asked for; several of them as multipart/byteranges.',
      headers: fileResponseHeaders,
      content: { ...content, 'multipart/byteranges': binary },
    },
    304: Type.Null({ description: 'It is still what the client has.' }),
  };
};

const fileResponseHeaders = {
  etag: { type: 'string', description: 'The sha256 in hex, strong.' },
  'repr-digest': { type: 'string', description: 'The sha256 of the whole file (RFC 9530).' },
  'accept-ranges': { type: 'string', description: 'bytes' },
  'last-modified': { type: 'string', description: 'When the file was written, where that is known.' },
};

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
