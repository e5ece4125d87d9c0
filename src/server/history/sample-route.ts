import { Type } from 'typebox';
import { type DatasetName, datasetNames, datasets } from '../../archive/format/datasets.ts';
import { listFilesWithRows, type PublishedFile } from '../../archive/format/manifest.ts';
import { paths } from '../../contract/paths.ts';
import { requireKeyHolder } from '../auth/authenticate.ts';
import type { App } from '../http/service-context.ts';
import { createDisconnectSignal, toRequestError } from '../http/stream-response.ts';
import { type HistoricalService, scopeToKeyHolder } from './historical-service.ts';

/** Rows of a sample. */
const rowsMax = 5;

const SamplePath = Type.Object({ dataset: Type.Unsafe<DatasetName>({ type: 'string', enum: [...datasetNames] }) });

/**
 * The first rows of the newest file of a dataset, for the cards of the catalogue page. It is not in the OpenAPI document:
 * programs read the files.
 */
export function registerSampleRoute(app: App, service: HistoricalService): void {
  app.get(
    `${paths.samples}/:dataset`,
    {
      config: {
        isCatalogue: true,
        data: { scope: 'read', datasets: ({ params }) => [(params as { dataset: DatasetName }).dataset] },
      },
      schema: { hide: true, params: SamplePath },
    },
    async (request, reply) => {
      const signal = createDisconnectSignal(reply);
      const { dataset } = request.params;
      const release = await scopeToKeyHolder(service, requireKeyHolder(request)).computeSemaphore.acquire(signal);
      try {
        const columns = datasets[dataset].columns.map(({ name, type }) => ({ name, type }));
        const { file, rows } = await readSample(service, dataset, signal);
        return reply.send({ dataset, file, columns, rows });
      } catch (error) {
        throw toRequestError(error, signal);
      } finally {
        release();
      }
    },
  );
}

const readSample = ({ history }: HistoricalService, dataset: DatasetName, signal: AbortSignal) =>
  history.read(async (generation) => {
    const file = findNewestFile(listFilesWithRows(generation.manifest, dataset));
    if (file === null) return { file: null, rows: [] };
    const query = await generation.openQuery(new Map([[dataset, [file]]]), [], signal);
    try {
      return { file: file.path, rows: await query.readRows(`SELECT * FROM ${dataset} LIMIT ${rowsMax}`, [], signal) };
    } finally {
      await query.close();
    }
  });

/** The first file of the last day; null without files. */
function findNewestFile(files: readonly PublishedFile[]): PublishedFile | null {
  const last = files.reduce((max, { date }) => ((date ?? '') > max ? (date ?? '') : max), '');
  return files.find(({ date }) => (date ?? '') === last) ?? null;
}
