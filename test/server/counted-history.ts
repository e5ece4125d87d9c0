import { expect, onTestFinished } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { watchManifest } from '../../src/archive/read/manifest-watcher.ts';
import { openVerifiedFiles } from '../../src/archive/read/verified-files.ts';
import { systemRandom } from '../../src/base/system.ts';
import { type HistoricalService, openHistoricalService } from '../../src/server/history/historical-service.ts';
import type { ServiceContext } from '../../src/server/http/service-context.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { clockAt, now } from '../archive/scratch.ts';

// Compares pages that are read without a DuckDB plan with those of the plan.

interface CountedService {
  readonly service: HistoricalService;
  /** Number of DuckDB queries. */
  countQueries(): number;
}

/** The historical service of an archive, without HTTP. With a cache of 0 bytes it reads markets by DuckDB only. */
export async function openCounted(archive: Archive, cacheBytesMax: number): Promise<CountedService> {
  const settings = await loadSettings({
    env: {},
    cwd: archive.layout.root,
    set: [`service.cache_bytes_max=${cacheBytesMax}`],
  });
  const files = openVerifiedFiles(archive, cacheBytesMax);
  const context = {
    archive,
    current: watchManifest(archive),
    files,
    settings,
    clock: clockAt(now),
    random: systemRandom,
  };
  const service = openHistoricalService(context as unknown as ServiceContext);
  onTestFinished(() => service.history.close());
  let queries = 0;
  const read: HistoricalService['history']['read'] = (work) =>
    service.history.read((generation) =>
      work({
        ...generation,
        openQuery(...args) {
          queries++;
          return generation.openQuery(...args);
        },
      }),
    );
  return { service: { ...service, history: { ...service.history, read } }, countQueries: () => queries };
}

export interface Page {
  readonly next_cursor: string | null;
}

export type ReadPage = (service: HistoricalService, cursor: string | undefined) => Promise<Page>;

/** Requires that all pages of a query are the same from both services. Returns the number of pages. */
export async function requireEqualPages(
  fast: HistoricalService,
  plain: HistoricalService,
  read: ReadPage,
): Promise<number> {
  let cursor: string | undefined;
  for (let pages = 1; ; pages++) {
    const page = await read(fast, cursor);
    expect(JSON.stringify(page)).toBe(JSON.stringify(await read(plain, cursor)));
    if (page.next_cursor === null) return pages;
    cursor = page.next_cursor;
  }
}
