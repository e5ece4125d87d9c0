import type { Database } from './database.ts';

/** How a file is not as it was published; `state`: the state database is damaged, or knows another coverage. */
export type DamageKind = 'missing' | 'size differs' | 'checksum mismatch' | 'orphan' | 'state';

export interface FileDamage {
  /** Relative to the archive's root. */
  readonly path: string;
  readonly kind: DamageKind;
}

export interface RecordedDamage extends FileDamage {
  /** When it was first found, epoch ms. */
  readonly foundAt: number;
  /** The run that found it. */
  readonly runId: string;
}

/** What is remembered of damage, by path; nothing where the last verify or repair was clean. */
export const readRecordedDamage = (db: Database): RecordedDamage[] =>
  db.all<RecordedDamage & Record<string, never>>(
    'select path, kind, found_at as "foundAt", run_id as "runId" from damage order by path',
  );

/** Adds what a run has found. When a path was first found damaged stays. */
export function recordDamage(db: Database, found: readonly FileDamage[], runId: string, nowMs: number): void {
  if (found.length === 0) return;
  db.transaction(() => {
    for (const { path, kind } of found) {
      db.run(
        `insert into damage (path, kind, found_at, run_id) values (?, ?, ?, ?)
         on conflict do update set kind = excluded.kind where kind <> excluded.kind`,
        path,
        kind,
        nowMs,
        runId,
      );
    }
  });
}

/** What a look at the whole archive has found takes the place of what was remembered. */
export function replaceDamage(db: Database, found: readonly FileDamage[], runId: string, nowMs: number): void {
  const paths = new Set(found.map(({ path }) => path));
  const over = readRecordedDamage(db).filter(({ path }) => !paths.has(path));
  if (found.length + over.length === 0) return;
  db.transaction(() => {
    for (const { path } of over) db.run('delete from damage where path = ?', path);
    recordDamage(db, found, runId, nowMs);
  });
}
