import type { Database } from './database.ts';
import { setMeta } from './state.ts';

/** One staged file and where it belongs, both relative to the archive's root. */
export interface Move {
  /** Null where nothing takes the place of the file that is there: it goes. */
  readonly from: string | null;
  readonly to: string;
}

/** A publish past its commit point: these files become these, and this is the manifest. */
export interface Intent {
  readonly generation: number;
  /** The text of manifest.json. */
  readonly manifest: string;
  /** In the order to be done: ticks first, coverage last. */
  readonly moves: readonly Move[];
}

export function openIntent(db: Database): Intent | undefined {
  const row = db.one<{ generation: number; manifest: string; moves: string }>('select * from intents');
  if (row === undefined) return undefined;
  return { generation: row.generation, manifest: row.manifest, moves: JSON.parse(row.moves) as Move[] };
}

/** Part of the publish's transaction: with it the generation is decided. */
export function declareIntent(db: Database, intent: Intent): void {
  db.run('insert into intents values (?, ?, ?)', intent.generation, intent.manifest, JSON.stringify(intent.moves));
  setMeta(db, 'generation', String(intent.generation));
}

export function closeIntent(db: Database, generation: number): void {
  db.run('delete from intents where generation = ?', generation);
}
