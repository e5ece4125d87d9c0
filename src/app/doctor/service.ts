import { createFindings, type Finding } from './finding.ts';

/** The database of `oddslake serve` and `oddslake keys`. */
export interface ServiceFacts {
  /** E.g. `SQLite in .oddslake`, `postgres://db.example/oddslake`; never with a password. */
  readonly description: string;
  /** Null where there is none yet: the first key makes it. */
  readonly database: { readonly pending: number } | { readonly fault: string; readonly exitCode: 1 | 2 } | null;
}

export function judgeService({ description, database }: ServiceFacts): Finding {
  const { ok, problem } = createFindings('service', 'database');
  if (database === null) return ok(`${description}, not made yet: oddslake keys create makes it`);
  if ('fault' in database)
    return problem(
      database.exitCode,
      database.fault,
      'Only oddslake serve, keys and tokens need it; check ODDSLAKE_DATABASE_URL, and that the database runs.',
    );
  return database.pending === 0
    ? ok(description)
    : ok(`${description}, of an older oddslake: the next oddslake serve brings it up to date`);
}
