import type { Bench } from './bench.ts';
import type { PeerServerName } from './peers.ts';
import { type BenchedPostgres, startPostgres } from './postgres.ts';
import { type BenchedService, startServer } from './service.ts';

/** The peers of the HTTP service that can run on this machine. Must be closed. */
interface ServePeers {
  readonly servers: ReadonlyMap<PeerServerName, () => Promise<BenchedService>>;
  /** Why the others cannot. */
  readonly missing: ReadonlyMap<PeerServerName, string>;
  /** Those of the others that are installed. */
  readonly failed: readonly string[];
  readonly versions: readonly string[];
  close(): Promise<void>;
}

/** Starts PostgreSQL and copies the ticks of the archive into it; DuckDB reads the archive. */
export async function openServePeers(bench: Bench, root: string): Promise<ServePeers> {
  const servers = new Map<PeerServerName, () => Promise<BenchedService>>();
  const missing = new Map<PeerServerName, string>();
  const failed: string[] = [];
  const versions: string[] = [];
  let postgres: BenchedPostgres | undefined;
  const skip = (name: PeerServerName, reason: string): void => {
    bench.tell(`${name} is skipped: ${reason}`);
    missing.set(name, reason);
  };

  const forPostgres = bench.peers.findServer('postgres');
  if ('missing' in forPostgres) skip('postgres', forPostgres.missing);
  else {
    postgres = await startPostgres(bench.env).catch((error: Error) => void skip('postgres', error.message));
    if (postgres !== undefined) {
      const database = postgres;
      const loaded = bench.peers.run('serve_postgres.py', ['load', database.url, root]);
      if ('failed' in loaded) {
        skip('postgres', loaded.failed);
        failed.push('postgres');
      } else {
        versions.push(`PostgreSQL ${loaded.printed.trim()}`, forPostgres.version);
        servers.set('postgres', async () => {
          const server = await startServer(forPostgres.argv('serve', database.url), bench.env);
          return { ...server, cpuMs: () => server.cpuMs() + database.cpuMs() };
        });
      }
    }
  }
  const forDuckdb = bench.peers.findServer('duckdb');
  if ('missing' in forDuckdb) skip('duckdb', forDuckdb.missing);
  else {
    versions.push(forDuckdb.version);
    servers.set('duckdb', () => startServer(forDuckdb.argv(root), bench.env));
  }
  return { servers, missing, failed, versions, close: async () => await postgres?.stop() };
}
