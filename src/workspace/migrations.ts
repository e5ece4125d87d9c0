import type { Migration } from 'kysely/migration';

/**
 * Every step of the schema, by name, in the order of the names; what was released is never changed, only added to. Types
 * that both databases know: text, bigint for epoch milliseconds and counts. The next one goes below the last.
 */
export const migrations: Readonly<Record<string, Migration>> = {
  '001_keys': {
    async up(db) {
      await db.schema
        .createTable('keys')
        .addColumn('id', 'text', (column) => column.primaryKey())
        .addColumn('name', 'text', (column) => column.notNull())
        .addColumn('digest', 'text', (column) => column.notNull())
        .addColumn('created_at', 'bigint', (column) => column.notNull())
        .addColumn('expires_at', 'bigint')
        .addColumn('revoked_at', 'bigint')
        .addColumn('last_used_at', 'bigint')
        .addColumn('requests_per_minute', 'bigint')
        .execute();
    },
  },
};
