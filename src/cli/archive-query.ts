import { join } from 'node:path';
import type { Context } from '../app/context.ts';
import { openConfiguredArchive } from '../app/run.ts';
import { datasetNames, datasets } from '../archive/datasets.ts';
import { pin } from '../archive/pin.ts';
import { openQuery } from '../query/open.ts';
import type { Query } from '../query/query.ts';

const memoryBytesMax = 4 * 1024 ** 3;

/** SQL over one generation of the archive: the datasets that the statement names are pinned while it runs. */
export async function openArchiveQuery(
  context: Context,
  statement: string,
): Promise<{ query: Query; close(): Promise<void> }> {
  const archive = openConfiguredArchive(context, false);
  const id = Math.floor(context.random() * 36 ** 8).toString(36);
  const scratch = join(archive.layout.private, 'pins', `${process.pid}-${id}-scratch`);
  const text = statement.toLowerCase();
  const named = datasetNames.filter((name) => text.includes(name));
  // SHOW TABLES names none and means all.
  const wanted = named.length === 0 ? datasetNames : named;
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
    const query = await openQuery(sources, { threads: 2, memoryBytesMax, scratch });
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
