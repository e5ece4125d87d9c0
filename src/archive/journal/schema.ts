/**
 * The state database, one SQLite file in WAL mode with full sync. Days are UTC midnights in epoch milliseconds.
 *
 * The `journal*` tables hold accepted data that is not yet published. `segments`, `standings` and the tick counts of
 * `symbols` describe what is published. Both change only in one transaction, so they are always consistent.
 */
export const schemaVersion = 11;

const version1 = `
create table meta (key text primary key, value text not null) without rowid;

create table runs (
  run_id text primary key, job text not null, pid integer not null, started_at integer not null,
  finished_at integer, exit_code integer,
  fetched integer not null default 0, quarantined integer not null default 0,
  accepted integer not null default 0, duplicates integer not null default 0, conflicts integer not null default 0,
  recovered integer not null default 0, summary text
) without rowid;

-- One row per response from the upstream.
create table journal (
  id integer primary key autoincrement, run_id text not null, kind text not null, symbol text,
  asked_from integer, asked_to integer, observed_at integer not null, origin text not null, rank integer not null
);
-- Its ticks, split by day, so that a publish finds those of one part of one day.
create table journal_ticks (
  id integer primary key, record_id integer not null, symbol text not null, day integer not null, part integer not null,
  n integer not null, t blob not null, p blob not null
);
create index journal_ticks_bin on journal_ticks (day, part, id);
create index journal_ticks_record on journal_ticks (record_id);
create table journal_cover (
  id integer primary key, record_id integer not null, symbol text not null, day integer not null, part integer not null,
  t_from integer not null, t_to integer not null, fetched_at integer not null, origin text not null
);
create index journal_cover_bin on journal_cover (day, part, id);
create index journal_cover_record on journal_cover (record_id);
create index journal_cover_symbol on journal_cover (symbol);
create table journal_rejected (
  id integer primary key, record_id integer not null, run_id text not null, symbol text, at integer not null,
  reason text not null, raw text not null
);
-- A complete poll of the market lists: the records as received, compressed.
create table journal_markets (record_id integer primary key, observed_at integer not null, payload blob not null);

create table segments (
  symbol text not null, t_from integer not null, t_to integer not null, fetched_at integer not null,
  origin text not null, primary key (symbol, t_from)
) without rowid;
create table contested (
  symbol text not null, t integer not null, rank integer not null, observed_at integer not null,
  primary key (symbol, t)
) without rowid;

create table symbols (
  symbol text primary key, canonical_id text, source text, question text, category text, is_active integer,
  opens_at integer, closes_at integer, resolved_at integer, outcome real,
  first_seen integer not null, last_seen integer not null, last_active integer, listed integer not null default 0,
  inactive_since integer, polled_from integer, first_tick integer, last_tick integer, ticks integer not null default 0,
  failures integer not null default 0, retired_at integer
) without rowid;

-- At most one row: a committed publish whose files are not all moved yet.
create table intents (generation integer primary key, manifest text not null, moves text not null);
`;

/** Version 2 added order books, imported ticks and the history of nights. */
const version2 = `
-- Order book snapshots, one row each. Price and quantity of its n levels, bids first, each side best first.
create table journal_books (
  id integer primary key, record_id integer not null, symbol text not null, day integer not null, part integer not null,
  t integer not null, observed_at integer not null, bids integer not null, n integer not null, price blob not null,
  quantity blob not null
);
create index journal_books_bin on journal_books (day, part, id);
create index journal_books_record on journal_books (record_id);
-- Responses of the order book route: each covers its moment. snapshots: the number of snapshots that it returned.
create table journal_book_cover (
  id integer primary key, record_id integer not null, symbol text not null, at integer not null,
  snapshots integer not null
);
create index journal_book_cover_record on journal_book_cover (record_id);

-- Windows of a symbol's published ticks that share a precedence, as those of one import do. A key in contested overrides
-- them. t_to is excluded; windows of a symbol never overlap, and each lies within one UTC day.
create table imported (
  symbol text not null, t_from integer not null, t_to integer not null, rank integer not null,
  observed_at integer not null, primary key (symbol, t_from)
) without rowid;

-- Volumes of the last nights, to detect a sharp fall. Only the newest are kept.
create table nights (
  run_id text primary key, polled_to integer not null, polled_ms integer not null, markets integer, ticks integer not null
) without rowid;
`;

/** Version 3 added an index to read the journaled ticks of one symbol. */
const version3 = `
create index if not exists journal_ticks_symbol on journal_ticks (symbol, day, record_id);
`;

/** Version 4 added row groups for repairs, lost windows, and the shapes of the upstream's responses. */
const version4 = `
-- Row groups of published files, to find the intact ones of a damaged file: see archive/parquet/row-group-index.ts.
create table row_groups (
  path text primary key, sha256 text not null, footer blob not null, groups text not null
) without rowid;

-- Windows whose published ticks were lost, with their number. They are not covered until as many ticks are restored.
-- t_to is excluded; each lies within one UTC day. told_at: when a run ended with exit code 4 because of it.
create table lost (
  dataset text not null, symbol text not null, t_from integer not null, t_to integer not null, ticks integer not null,
  lost_at integer not null, told_at integer, primary key (dataset, symbol, t_from)
) without rowid;

-- The fields of the upstream's responses and the types that each had when it was last seen.
create table shapes (
  resource text not null, field text not null, types text not null, last_seen integer not null,
  primary key (resource, field)
) without rowid;
`;

/** Version 5 added the counts that nights are compared with, and when a market was first seen as resolved. */
const version5 = `
-- Late ticks and conflicts; null for nights that did not count them. listed_at: the time of the night's market lists;
-- null if they could not be fetched. For earlier nights it is their end, so that changes are not reported twice.
alter table nights add column late integer;
alter table nights add column conflicts integer;
alter table nights add column listed_at integer;
update nights set listed_at = (select finished_at from runs where runs.run_id = nights.run_id);
alter table runs add column late integer not null default 0;
-- When the lists first showed it as resolved.
alter table symbols add column resolution_seen integer;
`;

/** Version 6 added format 3 of the archive. */
const version6 = `
-- Evidence of coverage: 'stated', 'confirmed', 'declared' or 'inferred'. Older coverage is inferred.
alter table journal_cover add column evidence text not null default 'inferred';
-- Two layers, proven and inferred: windows of a symbol overlap only across the layers.
create table segments_6 (
  symbol text not null, t_from integer not null, t_to integer not null, fetched_at integer not null,
  origin text not null, evidence text not null, primary key (symbol, t_from, evidence)
) without rowid;
insert into segments_6 select symbol, t_from, t_to, fetched_at, origin, 'inferred' from segments;
drop table segments;
alter table segments_6 rename to segments;
-- Withdrawals, split by day. They remove published coverage and that of earlier records.
create table journal_withdrawn (
  id integer primary key, record_id integer not null, symbol text not null, day integer not null, part integer not null,
  t_from integer not null, t_to integer not null, checksum integer not null default 0
);
create index journal_withdrawn_bin on journal_withdrawn (day, part, id);
create index journal_withdrawn_record on journal_withdrawn (record_id);
create index journal_withdrawn_symbol on journal_withdrawn (symbol);

-- Damaged and missing files, until a verify or a repair is clean.
create table damage (
  path text primary key, kind text not null, found_at integer not null, run_id text not null
) without rowid;
-- When a published file of this hash was last written, or hashed and found intact.
create table hash_times (path text primary key, sha256 text not null, hashed_at integer not null) without rowid;

-- The best poll of each market list within each UTC day: a complete one if there is any, else the latest. total: as the
-- server stated it. reason: why the list does not count as complete; null if it does. The view * means all views, for
-- days without details.
create table listings (
  day integer not null, view text not null, at integer not null, named integer not null, total integer,
  whole integer not null, reason text, primary key (day, view)
) without rowid;
insert or ignore into listings (day, view, at, named, whole)
  select listed_at - listed_at % 86400000, '*', listed_at, markets, 1 from nights
  where listed_at is not null and markets is not null;

-- Rank and observation time of published ticks, by symbol and UTC day, packed: see precedence.ts. Replaces imported and
-- contested, which held only those of imports and of keys with two prices.
create table standings (
  symbol text not null, day integer not null, stretches blob not null, primary key (symbol, day)
) without rowid;

-- The commit of an open intent, since a repair commits without a new generation. Null: written by an older version.
alter table intents add column commit_id text;

-- When each published order book snapshot was observed. Of one moment, the one observed later wins.
create table book_observed (
  symbol text not null, t integer not null, observed_at integer not null, primary key (symbol, t)
) without rowid;

-- The number of a record's rows in the other tables, without rejected input, and the checksum of each row: see
-- journal-rows.ts. An upgrade computes them for an older state.
alter table journal add column rows integer not null default 0;
alter table journal add column checksum integer not null default 0;
alter table journal_ticks add column checksum integer not null default 0;
alter table journal_cover add column checksum integer not null default 0;
alter table journal_rejected add column checksum integer not null default 0;
alter table journal_markets add column checksum integer not null default 0;
alter table journal_books add column checksum integer not null default 0;
alter table journal_book_cover add column checksum integer not null default 0;

-- Quarantine: bytes of rejected input that a run may still keep, and the number of rejected rows that it only counted.
alter table runs add column rejected_bytes_left integer not null default 16777216;
alter table runs add column rejected_dropped integer not null default 0;
-- Ticks that the generations of a run added and removed.
alter table runs add column published_added integer not null default 0;
alter table runs add column published_lost integer not null default 0;

-- A symbol that the server reports as unknown while it responds for others: since when, on how many UTC days, and when
-- last; since when it is suspended, and when a suspended one last failed. Older versions retired symbols after failures
-- of any kind, which is no evidence, so no symbol stays retired.
alter table symbols add column unknown_since integer;
alter table symbols add column unknown_days integer not null default 0;
alter table symbols add column unknown_at integer;
alter table symbols add column suspended_at integer;
alter table symbols add column tried_at integer;
-- Start of the history that the server says it keeps.
alter table symbols add column served_from integer;
alter table symbols drop column failures;
alter table symbols drop column retired_at;
-- Windows of a symbol's ticks that were requested without success, disjoint, with the reason, unless covered since.
create table owed (
  symbol text not null, t_from integer not null, t_to integer not null, kind text not null, reason text not null,
  since integer not null, primary key (symbol, t_from)
) without rowid;
-- Gaps that a user accepted, disjoint. told_at: when a run ended with exit code 4 because of one.
create table accepted (
  symbol text not null, t_from integer not null, t_to integer not null, reason text not null,
  accepted_at integer not null, told_at integer, primary key (symbol, t_from)
) without rowid;
`;

/** Version 7 added the tick log: see tick-log.ts. */
const version7 = `
-- What journaled responses changed, in the order in which they became durable, for streams. at: when the response was
-- observed, never decreasing. bytes_to: total size of this and all earlier rows, removed ones included.
create table tick_log (
  seq integer primary key autoincrement, symbol text not null, is_revision integer not null, at integer not null,
  t_min integer not null, t_max integer not null, bytes_to integer not null, t blob not null, p blob not null,
  checksum integer not null
);
create index tick_log_symbol on tick_log (symbol, seq);
create index tick_log_times on tick_log (symbol, t_max, t_min);
create index tick_log_at on tick_log (at);
-- The symbols that are logged: from which row on, and until when. last_tick: no later tick was journaled.
create table tick_log_symbols (
  symbol text primary key, since integer not null, until integer not null, last_tick integer
) without rowid;
`;

/** Version 8 added format 4 of the archive: facts of markets, and quotes as the first of the series (format/series.ts). */
const version8 = `
-- What market records say of outcome, event and trading rules. Every earlier outcome was stated by a record.
alter table symbols add column outcome_source text;
alter table symbols add column event text;
alter table symbols add column exclusive integer;
alter table symbols add column strike_low real;
alter table symbols add column strike_high real;
alter table symbols add column expected_end integer;
alter table symbols add column rules_sha256 text;
alter table symbols add column fee_schedule text;
alter table symbols add column tick_size real;
update symbols set outcome_source = 'reported' where outcome is not null;

-- Rows of a series of one symbol and UTC day: n times, the columns of numbers one after another, n doubles each, and the texts as JSON.
create table journal_series (
  id integer primary key, record_id integer not null, dataset text not null, symbol text not null, day integer not null,
  part integer not null, n integer not null, t blob not null, v blob not null, checksum integer not null
);
create index journal_series_bin on journal_series (day, part, id);
create index journal_series_record on journal_series (record_id);
-- Windows that responses or files with rows of a series cover, split by day.
create table journal_series_cover (
  id integer primary key, record_id integer not null, dataset text not null, symbol text not null, day integer not null,
  part integer not null, t_from integer not null, t_to integer not null, fetched_at integer not null,
  origin text not null, evidence text not null, checksum integer not null
);
create index journal_series_cover_bin on journal_series_cover (day, part, id);
create index journal_series_cover_record on journal_series_cover (record_id);
-- Rank and observation time of published rows, as standings has them of ticks.
create table series_standings (
  dataset text not null, symbol text not null, day integer not null, stretches blob not null,
  primary key (dataset, symbol, day)
) without rowid;
-- What became of the rows of a series that a run fetched.
create table series_counts (
  run_id text not null, dataset text not null, fetched integer not null default 0, quarantined integer not null default 0,
  accepted integer not null default 0, duplicates integer not null default 0, conflicts integer not null default 0,
  recovered integer not null default 0, primary key (run_id, dataset)
) without rowid;
`;

/** Version 9 added several sources. What is kept in `meta`, `listings` and `shapes` for each has its name in the key. */
const version9 = `
-- The source that a run or a night collected, of an archive's several; null: the only service, or none.
alter table runs add column source text;
alter table nights add column source text;
-- Inferred windows of several responses may have been joined once they were two days old, so a poll must not confirm them.
insert into meta
  select 'evidence_since', max(fetched_at) + 1 from segments
  where evidence = 'inferred' and t_to <= (
    select max(newest.fetched_at) from segments newest where newest.symbol = segments.symbol
  ) - 172800000
  having max(fetched_at) is not null
  on conflict do update set value = max(cast(value as integer), cast(excluded.value as integer));
`;

/** Version 10 keeps the text of the manifest in parts: see recorded-manifest.ts. */
const version10 = `
create table manifest_parts (sha256 text primary key, text text not null);
`;

/** Version 11 added the decisions about which symbols are collected: see selection-store.ts. */
const version11 = `
-- Windows in which a symbol is not collected, disjoint. t_from 0: nothing was collected before; t_to null: until now.
create table unselected (
  symbol text not null, t_from integer not null, t_to integer, kind text not null, reason text,
  decided_at integer not null, primary key (symbol, t_from)
) without rowid;
-- Symbols that a user watches: they are collected whatever lists and settings say.
create table watched (symbol text primary key, decided_at integer not null) without rowid;
`;

/** The statements of each version, from 1. An older state is upgraded with those that it is missing. */
export const schemaVersions: readonly string[] = [
  version1,
  version2,
  version3,
  version4,
  version5,
  version6,
  version7,
  version8,
  version9,
  version10,
  version11,
];
