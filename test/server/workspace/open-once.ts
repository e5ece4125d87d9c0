import type { DatabaseLocation } from '../../../src/server/workspace/database-url.ts';
import { openWorkspaceDatabase } from '../../../src/server/workspace/workspace-database.ts';

// A process that opens a service's database and exits.
const db = await openWorkspaceDatabase(JSON.parse(process.argv[2]!) as DatabaseLocation);
await db.destroy();
