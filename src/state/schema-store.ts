import type { FieldShape, Shape } from '../core/infer-schema.ts';
import { compareShapes, type Drift } from '../core/schema-drift.ts';
import type { Database } from './database.ts';

/** What the records of a resource looked like when they were last seen; nothing where they never were. */
export function readShape(db: Database, resource: string): Shape {
  const rows = db.all<{ field: string; types: string }>(
    'select field, types from shapes where resource = ? order by field',
    resource,
  );
  return new Map(rows.map(({ field, types }) => [field, JSON.parse(types) as FieldShape]));
}

/** Compares what the records look like with what is known, which they are from now on. `atMs`: epoch ms. */
export const replaceShape = (db: Database, resource: string, now: Shape, atMs: number): readonly Drift[] =>
  // At once, so that of two runs only one tells of a drift.
  db.transaction(() => {
    const { drifts, known } = compareShapes(readShape(db, resource), now);
    db.run('delete from shapes where resource = ?', resource);
    for (const [field, shape] of known)
      db.run('insert or replace into shapes values (?, ?, ?, ?)', resource, field, JSON.stringify(shape), atMs);
    return drifts;
  });
