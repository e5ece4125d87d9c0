import { join } from 'node:path';
import type { Context } from '../app/context.ts';
import { openConfiguredArchive } from '../app/run.ts';
import { type DatasetName, datasetNames, datasets } from '../archive/datasets.ts';
import { pin } from '../archive/pin.ts';
import { hasDailyCandles } from '../archive/views-file.ts';
import { type Definition, definitions, definitionsFor } from '../archive/views-sql.ts';
import { openQuery } from '../query/open.ts';
import type { Query } from '../query/query.ts';

const memoryBytesMax = 4 * 1024 ** 3;

/** SQL over one generation of the archive: the datasets that the statement means are pinned while it runs. */
export async function openArchiveQuery(
  context: Context,
  statement: string,
): Promise<{ query: Query; close(): Promise<void> }> {
  const archive = openConfiguredArchive(context, false);
  const id = Math.floor(context.random() * 36 ** 8).toString(36);
  const scratch = join(archive.layout.private, 'pins', `${process.pid}-${id}-scratch`);
  const { wanted, defined } = meantBy(statement, hasDailyCandles(archive.manifest()));
  const pinned = pin(archive, wanted, id);
  const sources = wanted.map((name) => ({
    dataset: name,
    columns: datasets[name],
    dated: name !== 'symbols',
    paths: pinned.paths(name),
  }));
  const release = (): void => {
    pinned.release();
    archive.disk.remove(scratch);
    archive.close();
  };
  try {
    const query = await openQuery(sources, {
      ...{ threads: 2, memoryBytesMax, scratch },
      definitions: defined.map(({ sql }) => sql),
    });
    return {
      query,
      async close() {
        await query.close();
        release();
      },
    };
  } catch (error) {
    release();
    throw error;
  }
}

/** The datasets that a statement means, by its text, themselves or through views and macros. */
function meantBy(statement: string, daily: boolean): { wanted: DatasetName[]; defined: readonly Definition[] } {
  const text = statement.toLowerCase();
  const defined = definitionsFor(statement, daily);
  const needed = new Set<DatasetName>(defined.flatMap(({ needs }) => needs));
  const wanted = datasetNames.filter((name) => needed.has(name) || text.includes(name));
  // SHOW TABLES names none and means all.
  return wanted.length === 0 ? { wanted: datasetNames, defined: definitions(daily) } : { wanted, defined };
}
