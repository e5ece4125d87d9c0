import { UsageError } from '../../base/errors.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';

/** A recording as columns: symbol i has the ticks offsets[i] to offsets[i + 1], sorted by t. Markets are rows. */
interface RecordingColumns {
  readonly symbols: readonly string[];
  readonly offsets: Uint32Array;
  /** Epoch milliseconds. */
  readonly t: Float64Array;
  readonly p: Float64Array;
  readonly markets: readonly unknown[];
}

/** Reads a recording from two Parquet files: ticks with symbol, t and p, and one row per market. Holds it in memory. */
export async function readRecording(ticksFile: string, marketsFile: string): Promise<RecordingColumns> {
  const { DuckDBInstance } = await import('@duckdb/node-api');
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  try {
    await connection.run("SET TimeZone='UTC'");
    const requireReadable = async (path: string) => {
      try {
        return await connection.run('SELECT count(*) FROM read_parquet($path)', { path });
      } catch (error) {
        throw new UsageError(`The recording ${path} cannot be read: ${(error as Error).message}`, { cause: error });
      }
    };
    await requireReadable(ticksFile);
    await requireReadable(marketsFile);
    const counts = await connection.runAndReadAll(
      'SELECT symbol, count(*)::INTEGER AS n FROM read_parquet($path) GROUP BY 1',
      {
        path: ticksFile,
      },
    );
    const bySymbol = (counts.getRows() as [string, number][]).sort(([a], [b]) => compareUtf8(a, b));
    const offsets = new Uint32Array(bySymbol.length + 1);
    bySymbol.forEach(([, n], i) => {
      offsets[i + 1] = offsets[i]! + n;
    });
    const t = new Float64Array(offsets.at(-1)!);
    const p = new Float64Array(t.length);
    const rows = await connection.stream(
      'SELECT epoch_ms(t)::DOUBLE AS t, p FROM read_parquet($path) ORDER BY symbol, t',
      {
        path: ticksFile,
      },
    );
    let at = 0;
    for (let chunk = await rows.fetchChunk(); chunk !== null && chunk.rowCount > 0; chunk = await rows.fetchChunk()) {
      t.set(chunk.getColumnValues(0) as number[], at);
      p.set(chunk.getColumnValues(1) as number[], at);
      at += chunk.rowCount;
    }
    const markets = (
      await connection.runAndReadAll('SELECT * FROM read_parquet($path)', { path: marketsFile })
    ).getRowObjects();
    return { symbols: bySymbol.map(([symbol]) => symbol), offsets, t, p, markets };
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}
