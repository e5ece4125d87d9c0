import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Type } from 'typebox';
import { readCheckedManifest, readCheckedManifestBytes } from '../../archive/archive.ts';
import { sha256 } from '../../archive/disk/file-system.ts';
import type { DatasetName } from '../../archive/format/datasets.ts';
import { parseDatasetName } from '../../archive/format/layout.ts';
import type { Manifest, PublishedFile } from '../../archive/format/manifest.ts';
import { listChangedFiles, listRemovedPaths } from '../../archive/publish/prune-files.ts';
import { toOpenedFile } from '../../archive/read/verified-files.ts';
import { DamageError } from '../../base/errors.ts';
import { memoize } from '../../base/memoize.ts';
import {
  ExportQuery,
  FileHeaders,
  FilePath,
  fileResponses,
  manifestResponses,
  SymbolsPath,
} from '../../contract/export-manifest.ts';
import { paths } from '../../contract/paths.ts';
import { requireKeyHolder } from '../auth/authenticate.ts';
import { isPermittedDataset } from '../auth/key-permissions.ts';
import { ProblemError } from '../http/problem-details.ts';
import { sendFile } from '../http/send-file.ts';
import type { App, ServiceContext } from '../http/service-context.ts';
import type { KeyHolder } from '../workspace/owner.ts';

const parquetMediaType = 'application/vnd.apache.parquet';

/**
 * Maximum number of publishes during one request. After that, a file with a checksum mismatch is treated as damaged.
 */
const attemptsMax = 20;

/** `/api/v1/export`: the manifest, changes since a generation, and the published files. */
export function registerExportRoutes(app: App, context: ServiceContext): void {
  const published = createManifestReader(context);
  app.route({
    method: ['GET', 'HEAD'],
    url: paths.export,
    config: { isCatalogue: true, data: { scope: null, datasets: [] } },
    schema: {
      operationId: 'getManifest',
      summary: 'The manifest, or the changes since a generation',
      tags: ['export'],
      querystring: ExportQuery,
      headers: FileHeaders,
      response: manifestResponses,
    },
    handler: async (request, reply) => {
      const { since } = request.query;
      if (since !== undefined) return createChangesPage(context, since, requireKeyHolder(request));
      const bytes = published();
      const opened = toOpenedFile({ bytes, modifiedMs: null });
      const file = { bytes: bytes.length, sha256: sha256(bytes), type: 'application/json; charset=utf-8' };
      return sendFile({ ...file, open: async () => opened }, ...toUntypedExchange(request, reply), context.random);
    },
  });
  const files = {
    method: ['GET', 'HEAD'] as ['GET', 'HEAD'],
    schema: {
      summary: 'A published file, byte for byte',
      tags: ['export'],
      headers: FileHeaders,
      response: fileResponses([parquetMediaType]),
    },
  };
  app.route({
    ...files,
    url: `${paths.exportFiles}/symbols/:part`,
    config: { isCatalogue: true, data: { scope: 'export', datasets: ['symbols'] } },
    schema: { ...files.schema, operationId: 'getSymbolsFile', params: SymbolsPath },
    handler: (request, reply) =>
      sendPublished(context, 'symbols', `symbols/${request.params.part}`, ...toUntypedExchange(request, reply)),
  });
  app.route({
    ...files,
    url: `${paths.exportFiles}/:dataset/:date/:part`,
    config: {
      isCatalogue: true,
      data: {
        scope: 'export',
        datasets: ({ params }) => [(params as Type.Static<typeof FilePath>).dataset as DatasetName],
      },
    },
    schema: { ...files.schema, operationId: 'getPublishedFile', params: FilePath },
    handler: (request, reply) => {
      const { dataset, date, part } = request.params;
      return sendPublished(
        context,
        dataset as DatasetName,
        `${dataset}/date=${date}/${part}`,
        ...toUntypedExchange(request, reply),
      );
    },
  });
}

/** Removes the route-specific types, which the shared functions for sending files do not use. */
export const toUntypedExchange = (request: unknown, reply: unknown): [FastifyRequest, FastifyReply] => [
  request as FastifyRequest,
  reply as FastifyReply,
];

/** Opens only files that the manifest lists. */
async function sendPublished(
  context: ServiceContext,
  dataset: DatasetName,
  path: string,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  let file = requireListedFile(context.current.getManifest(), dataset, path);
  for (let attempt = 1; ; attempt++) {
    const { bytes, sha256 } = file;
    try {
      const open = () => context.files.open(file);
      return await sendFile({ bytes, sha256, type: parquetMediaType, open }, request, reply, context.random);
    } catch (error) {
      if (!(error instanceof DamageError) || attempt === attemptsMax) throw error;
      file = requireListedFile(readCheckedManifest(context.archive), dataset, path);
      if (file.sha256 === sha256) throw error;
    }
  }
}

const indexFiles = memoize(
  ({ datasets }: Manifest): ReadonlyMap<string, PublishedFile> =>
    new Map(Object.values(datasets).flatMap(({ files }) => files.map((file) => [file.path, file]))),
);

function requireListedFile(manifest: Manifest, dataset: DatasetName, path: string): PublishedFile {
  const file = indexFiles(manifest).get(path);
  if (file === undefined) throw new ProblemError(404, `The manifest lists no file ${path} of ${dataset}.`);
  return file;
}

/** The changes of the datasets that the key permits, so that a client can load all listed files. */
function createChangesPage({ current, clock }: ServiceContext, since: number, key: KeyHolder) {
  const manifest = current.getManifest();
  const { generation } = manifest;
  if (since > generation) {
    throw new ProblemError(
      400,
      `Generation ${since} does not exist: the archive is at generation ${generation}. It may be another archive, or one that was restored from a backup.`,
      { code: 'invalid_parameter', errors: [{ name: 'since', reason: `must be at most ${generation}` }] },
    );
  }
  const isPermitted = (path: string): boolean => isPermittedDataset(key, parseDatasetName(path));
  const changed = listChangedFiles(manifest, since).filter(({ path }) => isPermitted(path));
  const files = changed.map((file) => ({ ...file, url: toFileUrl(file.path) }));
  return {
    since,
    generation,
    count: files.length,
    files,
    removed: listRemovedPaths(manifest, since).filter(isPermitted),
    generated_at: clock.nowMs(),
  };
}

/** The URL of a published file. The URL path contains the date without the `date=` prefix of the folder. */
const toFileUrl = (path: string): string => `${paths.exportFiles}/${path.replace('/date=', '/')}`;

/** Returns the manifest text as bytes, and rereads it only after a change. */
function createManifestReader({ archive, current }: ServiceContext): () => Uint8Array {
  let cached: { readonly version: number; readonly bytes: Uint8Array } | undefined;
  return () => {
    const version = current.getVersion();
    if (cached?.version !== version) cached = { version, bytes: readCheckedManifestBytes(archive) };
    return cached.bytes;
  };
}
