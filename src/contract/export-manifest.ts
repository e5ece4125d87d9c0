import { type TProperties, type TSchema, Type } from 'typebox';
import { GenerationParameter } from './query-parameters.ts';

/* Bulk export: the manifest and the published files. */

/** The datasets with one folder per day. */
const datedDatasets = [
  'ticks',
  'markets',
  'orderbooks',
  'quotes',
  'trades',
  'candles_1h',
  'candles_1d',
  'coverage',
  'conflicts',
  'quote_conflicts',
  'trade_conflicts',
] as const;
export const exportDatasets = ['ticks', 'symbols', ...datedDatasets.slice(1)] as const;

/** An enum schema. A union of constants would report one error for each of its values. */
export const oneOf = <const T extends string>(names: readonly T[], description: string) =>
  Type.Unsafe<T>({ type: 'string', enum: [...names], description });
export const nullable = <S extends TSchema>(schema: S, description: string) =>
  Type.Union([schema, Type.Null()], { description });
/** An object that responses may extend by further fields. */
export const titled = <F extends TProperties>(title: string, fields: F) => Type.Object(fields, { title });
export const described = <F extends TProperties>(title: string, description: string, fields: F) =>
  Type.Object(fields, { title, description });
/** An object without further fields, in requests. */
export const closed = <F extends TProperties>(fields: F) => Type.Object(fields, { additionalProperties: false });
export const epochMs = Type.Integer();
export const text = Type.String();
export const Count = (description: string) => Type.Integer({ minimum: 0, description });
export const Sha256 = (description: string) => Type.String({ pattern: '^[0-9a-f]{64}$', description });
export const GeneratedAt = Type.Integer({ description: 'When the response was generated, epoch milliseconds.' });

export const ExportQuery = closed({
  since: Type.Optional(
    GenerationParameter(
      'Lists only the files that were written after this generation, with their URLs. 0 lists all files.',
    ),
  ),
});

const fileFields = {
  path: Type.String({ description: 'Path relative to the root of the archive.' }),
  date: nullable(text, 'UTC day, YYYY-MM-DD; null if the dataset has no days.'),
  rows: Count('Number of rows.'),
  bytes: Count('Size in bytes.'),
  sha256: Sha256('SHA-256 of the file, in hex; also its ETag.'),
  t_min: nullable(epochMs, 'Earliest time of a row, epoch milliseconds; null if there are no rows.'),
  t_max: nullable(epochMs, 'Latest time of a row, epoch milliseconds; null if there are no rows.'),
  symbols: Count('Number of symbols.'),
  symbol_from: nullable(text, 'Least symbol, in the order of UTF-8 bytes; null if there are no rows.'),
  symbol_to: nullable(text, 'Greatest symbol, in the order of UTF-8 bytes; null if there are no rows.'),
  generation: Count('Generation that wrote the file.'),
};

/** manifest.json, byte for byte. */
const ManifestResponse = described('Manifest', 'manifest.json as published, byte for byte.', {
  format_version: Type.Integer({ minimum: 1, description: 'Version of the layout of the archive.' }),
  generation: Count('Number of publishes; 0 before the first publish.'),
  created_at: Type.Integer({ description: 'When it was published, epoch milliseconds.' }),
  writer: Type.String({ description: 'The program that wrote it.' }),
  upstream: Type.String({ description: 'Name of the upstream.' }),
  previous_sha256: nullable(text, 'SHA-256 of the previous manifest.'),
  watermark: nullable(epochMs, 'Every live symbol is covered by proven windows up to this time, epoch milliseconds.'),
  reached: nullable(
    epochMs,
    'Every live symbol is covered by proven or inferred windows up to this time, epoch milliseconds.',
  ),
  days: Type.Unsafe<object>({
    type: 'object',
    additionalProperties: true,
    description:
      'By day: state (complete, provisional, complete_with_exceptions, incomplete, empty), expected, covered, missing, exceptions.',
  }),
  datasets: Type.Unsafe<object>({
    type: 'object',
    additionalProperties: titled('ManifestDataset', {
      files: Type.Array(Type.Object(fileFields, { title: 'ManifestFile' })),
    }),
    description: 'The files of each dataset.',
  }),
  lost: Type.Optional(
    Type.Array(
      Type.Object(
        {
          dataset: text,
          symbol: text,
          from: epochMs,
          to: epochMs,
          ticks: Count('Number of ticks that were published in the window.'),
        },
        {
          title: 'LostWindow',
          examples: [{ dataset: 'ticks', symbol: 'KXBTC', from: 1749859200000, to: 1749862800000, ticks: 12 }],
        },
      ),
      { description: 'Windows whose published ticks were lost; absent if there are none.' },
    ),
  ),
  removed: Type.Optional(
    Type.Array(
      Type.Object(
        { path: text, generation: Count('First generation without the file.') },
        { title: 'RemovedFile', examples: [{ path: 'ticks/date=2025-06-14/part-00.parquet', generation: 12 }] },
      ),
      {
        description: 'Files that a repair removed; absent if there are none.',
      },
    ),
  ),
});

const ChangesResponse = described('Changes', 'With `since`: the files written after that generation.', {
  since: Count('The generation of the request.'),
  generation: Count('The generation that a copy has after fetching these files.'),
  count: Count('Number of files.'),
  files: Type.Array(
    titled('ChangedFile', {
      dataset: oneOf(exportDatasets, 'The dataset.'),
      ...fileFields,
      url: Type.String({ description: 'URL of the file, relative to this service.' }),
    }),
  ),
  removed: Type.Array(text, { description: 'Paths of files that no longer exist: remove them from the copy.' }),
  generated_at: GeneratedAt,
});

/** Part numbers have at most four digits. */
const Part = Type.String({
  pattern: '^part-\\d{2,4}\\.parquet$',
  description: 'A file of the manifest: part-00.parquet',
});

export const FilePath = closed({
  dataset: oneOf(datedDatasets, 'A dataset with a folder per day.'),
  date: Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$', description: 'UTC day, YYYY-MM-DD.' }),
  part: Part,
});
export const SymbolsPath = closed({ part: Part });

/** Headers that GET and HEAD of a file support. */
export const FileHeaders = Type.Object({
  range: Type.Optional(
    Type.String({
      description:
        'bytes=0-99, or up to 8 ranges; the response to several ranges is multipart/byteranges. The header is ignored if there are more than 8 ranges, if their total size exceeds that of the file, or if the unit is not bytes.',
    }),
  ),
  'if-range': Type.Optional(
    Type.String({
      description: 'A strong ETag: the range applies only if the file still has it. A date never matches.',
    }),
  ),
  'if-match': Type.Optional(
    Type.String({ description: 'ETags: 412 if the file has none of them because it was published again.' }),
  ),
  'if-none-match': Type.Optional(Type.String({ description: 'ETags: 304 if the file still has one of them.' })),
  'if-modified-since': Type.Optional(Type.String({ description: '304 if the file was not modified since.' })),
  'if-unmodified-since': Type.Optional(Type.String({ description: '412 if the file was modified since.' })),
});

const binary = { schema: { type: 'string', format: 'binary' } };

/** Responses of a file route for the OpenAPI document: the complete file, ranges, or 304. */
export const fileResponses = (types: readonly string[]) => {
  const content = Object.fromEntries(types.map((type) => [type, binary]));
  return {
    200: { description: 'The file, after verifying its SHA-256.', headers: fileResponseHeaders, content },
    206: {
      description: 'The requested range; several ranges as multipart/byteranges.',
      headers: fileResponseHeaders,
      content: { ...content, 'multipart/byteranges': binary },
    },
    304: Type.Null({ description: 'The client has the current file.' }),
  };
};

const fileResponseHeaders = {
  etag: { type: 'string', description: 'The SHA-256 in hex; a strong ETag.' },
  'repr-digest': { type: 'string', description: 'The SHA-256 of the complete file (RFC 9530).' },
  'accept-ranges': { type: 'string', description: 'bytes' },
  'last-modified': { type: 'string', description: 'When the file was written; absent if unknown.' },
};

/** Manifest or changes. A range of JSON text has no schema of its own, so 206 has the schema of the complete text. */
export const manifestResponses = {
  ...fileResponses(['application/json']),
  200: Type.Union([ManifestResponse, ChangesResponse]),
  206: {
    description:
      'The requested range; several ranges as multipart/byteranges. The schema is that of the complete text.',
    headers: fileResponseHeaders,
    content: {
      'application/json': { schema: Type.Union([ManifestResponse, ChangesResponse]) },
      'multipart/byteranges': { schema: Type.Union([ManifestResponse, ChangesResponse]) },
    },
  },
};
