import type { DatasetName } from '../../archive/format/datasets.ts';
import { listFilesWithRows, type Manifest, type PublishedFile } from '../../archive/format/manifest.ts';
import { parseManifestSelection, type Selections } from '../../archive/format/selection.ts';
import { memoize } from '../../base/memoize.ts';
import { paths } from '../../contract/paths.ts';
import { type SymbolsQuery, SymbolsQuery as SymbolsQuerySchema, SymbolsResponse } from '../../contract/symbols.ts';
import type { App } from '../http/service-context.ts';
import { createDisconnectSignal, toRequestError } from '../http/stream-response.ts';
import type { HistoricalService } from './historical-service.ts';
import type { GenerationReader } from './history.ts';
import { buildSymbolTable, type SymbolRow, type SymbolTable, searchSymbols, toSearchText } from './symbol-search.ts';

/** Maximum number of symbols in memory, those with the most ticks: about 1 GB. */
const symbolsMax = 1_000_000;
/** Number of rows to process before yielding: a few milliseconds of work. */
const rowsPerSlice = 2000;

/** `/api/v1/symbols`: search as one types, in a table in memory that is read once per generation. */
export function registerSymbolSearch(app: App, service: HistoricalService): void {
  const getTable = openSymbolTable(service);
  app.get(
    paths.symbols,
    {
      config: { isCatalogue: true, data: { scope: 'read', datasets: ['markets'] } },
      schema: {
        operationId: 'listSymbols',
        summary: 'Find symbols',
        description:
          'Published symbols by words and filters, sorted, in pages. A publish may move symbols between pages; use historical/markets or the symbols dataset to read all of them.',
        tags: ['historical'],
        querystring: SymbolsQuerySchema,
        response: { 200: SymbolsResponse },
      },
    },
    async (request, reply): Promise<SymbolsResponse> => {
      const signal = createDisconnectSignal(reply);
      try {
        return createResponse(await getTable(), request.query, service.context.clock.nowMs());
      } catch (error) {
        throw toRequestError(error, signal);
      }
    },
  );
}

function createResponse(
  { table, omitted, selections, generation }: SearchedGeneration,
  query: SymbolsQuery,
  nowMs: number,
): SymbolsResponse {
  const { symbols, total } = searchSymbols(table, query, nowMs, selections);
  return {
    symbols: [...symbols],
    count: symbols.length,
    total,
    offset: query.offset ?? 0,
    sources: [...table.sources],
    categories: [...table.categories],
    omitted,
    generated_at: nowMs,
    generation,
  };
}

interface LoadedTable {
  readonly table: SymbolTable;
  readonly omitted: number;
}

interface SearchedGeneration extends LoadedTable {
  readonly selections: Selections;
  readonly generation: number;
}

/** Decisions change without the files of the symbols. */
const readSelections = memoize(parseManifestSelection);

/** Returns a function that reads the table of the current generation. Requests share the reading. */
function openSymbolTable({ history, context }: HistoricalService) {
  let loaded: { readonly key: string; readonly promise: Promise<LoadedTable> } | undefined;
  return async (): Promise<SearchedGeneration> => {
    const manifest = context.current.getManifest();
    const { generation } = manifest;
    const files = selectFiles(manifest);
    const key = files.map(({ sha256 }) => sha256).join();
    if (loaded?.key !== key) {
      const promise = history.read((reader) => readTable(reader, context.signal));
      const started = { key, promise };
      loaded = started;
      promise.catch(() => {
        if (loaded === started) loaded = undefined;
      });
    }
    return { ...(await loaded.promise), selections: readSelections(manifest), generation };
  };
}

const selectFiles = (manifest: Manifest): readonly PublishedFile[] => listFilesWithRows(manifest, 'symbols');

async function readTable(reader: GenerationReader, signal: AbortSignal): Promise<LoadedTable> {
  const files = selectFiles(reader.manifest);
  const rowsCount = files.reduce((sum, { rows }) => sum + rows, 0);
  const rows: SymbolRow[] = [];
  const texts: string[] = [];
  if (rowsCount > 0) {
    const query = await reader.openQuery(
      new Map<DatasetName, readonly PublishedFile[]>([['symbols', files]]),
      [],
      signal,
    );
    const ms = (name: string): string => `epoch_ms(${name})::DOUBLE`;
    const sql = `SELECT symbol, canonical_id, source, question, category, is_active, ${ms('opens_at')},
      ${ms('coalesce(expected_end, closes_at)')}, ${ms('resolved_at')}, outcome, ${ms('first_seen')}, ${ms('first_tick')},
      ${ms('last_tick')}, ticks::DOUBLE FROM symbols${rowsCount > symbolsMax ? ` ORDER BY ticks DESC LIMIT ${symbolsMax}` : ''}`;
    try {
      for await (const chunk of query.readChunks([sql], signal)) {
        for (let r = 0; r < chunk[0]!.length; r++) {
          const row = toRow(chunk.map((column) => column[r]!));
          rows.push(row);
          texts.push(toSearchText(row));
          if (rows.length % rowsPerSlice === 0) await new Promise((resolve) => setImmediate(resolve));
        }
      }
    } finally {
      await query.close();
    }
  }
  return { table: buildSymbolTable(rows, texts), omitted: rowsCount - rows.length };
}

function toRow(values: readonly unknown[]): SymbolRow {
  const [symbol, canonical_id, source, question, category, is_active, opens_at, ends_at, resolved_at, ...rest] = values;
  const [outcome, first_seen, first_tick, last_tick, ticks] = rest;
  const market = { symbol, canonical_id, source, question, category, is_active, opens_at, ends_at, resolved_at };
  return { ...market, outcome, first_seen, first_tick, last_tick, ticks } as SymbolRow;
}
