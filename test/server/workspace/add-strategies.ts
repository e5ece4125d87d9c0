import type { DatabaseLocation } from '../../../src/server/workspace/database-url.ts';
import { createStrategyStore } from '../../../src/server/workspace/strategy-store.ts';
import { openWorkspaceDatabase } from '../../../src/server/workspace/workspace-database.ts';

// A process that adds strategies to a service's database and prints the results as JSON.

export interface Adding {
  readonly location: DatabaseLocation;
  readonly name: string;
  readonly ids: readonly string[];
  readonly idempotencyKey: string | null;
  readonly ownMax: number;
}

const { location, name, ids, idempotencyKey, ownMax } = JSON.parse(process.argv[2]!) as Adding;
const db = await openWorkspaceDatabase(location);
const owner = { owner: 'alice', workspace: 'trading' };
const reported: unknown[] = [];
for (const id of ids) {
  const made = { id, idempotency_key: idempotencyKey, body_sha256: 'same', created_at: 1, name, definition: '{}' };
  reported.push(await createStrategyStore(db).add(owner, made, ownMax));
}
console.log(JSON.stringify(reported));
await db.destroy();
