/** A state of any other schema is refused. Every change of the tables raises it. */
export const schemaVersion = 15;

/** When a listed symbol ended, with the first and the last of what is known of it; null while it is active. For an index. */
export const endedSql = 'max(inactive_since, coalesce(resolved_at, 0), coalesce(last_active, 0))';

/** What is judged of a symbol. Each change of it reopens a closed one. A mere listing changes no more than `last_seen`. */
const judgedColumns =
  'canonical_id, source, question, category, is_active, opens_at, closes_at, resolved_at, outcome, first_seen, ' +
  'last_active, listed, inactive_since, polled_from, first_tick, last_tick, ticks, resolution_seen, unknown_since, ' +
  'suspended_at, served_from, outcome_source, event, exclusive, strike_low, strike_high, expected_end, rules_sha256, ' +
  'fee_schedule, tick_size';

export const reopenedSql = 'closed_from = null, closed_to = null, known_from = null, known_to = null';
/** Whether the lifetime of a symbol depends on when a list last named it. */
const dependsOnListing =
  '(old.outcome is null and old.resolved_at > old.last_seen or coalesce(old.last_active, old.last_tick) is null)';

/** Where something of a symbol is journaled that it is judged by. */
export const journalOfSymbols = ['journal_ticks', 'journal_coverage', 'journal_withdrawn'];
const reopeningTables = [...journalOfSymbols, 'coverage', 'owed', 'accepted', 'lost', 'unselected', 'watched'];

/** Whatever writes to the tables of a closed symbol reopens it, and what is closed or open is counted with it. */
const closingTriggers = `
create trigger symbol_changed after update on symbols when old.closed_to is not null and new.closed_to is not null and (
  (${judgedColumns.replace(/\w+/g, 'old.$&')}) is not (${judgedColumns.replace(/\w+/g, 'new.$&')}) or old.last_seen is not new.last_seen and ${dependsOnListing}) begin
  update symbols set ${reopenedSql} where symbol = new.symbol;
end;
${['closed old new', 'reopened new old']
  .map((words, reopens) => {
    const [name, open, closed] = words.split(' ');
    const n = 1 - 2 * reopens;
    return `create trigger symbol_${name} after update of closed_to on symbols
  when ${open}.closed_to is null and ${closed}.closed_to is not null begin
  insert into closed_days values (${closed}.closed_from, ${n}, ${n}), (${closed}.closed_to, ${-n}, 0)
    on conflict do update set change = change + excluded.change, symbols = symbols + excluded.symbols; end;`;
  })
  .join('')}
${reopeningTables
  .flatMap((table) =>
    ['insert', 'update', 'delete'].map(
      (event) => `create trigger ${table}_${event} after ${event} on ${table} begin
  update symbols set ${reopenedSql} where symbol = ${event === 'delete' ? 'old' : 'new'}.symbol and closed_to is not null; end;`,
    ),
  )
  .join('')}`;

/**
 * The state database, one SQLite file in WAL mode with full sync. Days are UTC midnights in epoch milliseconds, other times
 * are epoch milliseconds. `t_to` is excluded.
 *
 * The `journal*` tables hold accepted data that is not yet published. `coverage`, `precedence` and the tick counts of
 * `symbols` describe what is published. Both change only in one transaction, so they are always consistent.
 */
export const schemaSql = `
-- Single values: the identity of the archive, the last commit, what is remembered of each source. Keys of several sources
-- end with the source.
create table meta (key text primary key, value text not null) without rowid;

-- A run of a job and what became of the rows that it fetched. source: the one that it collected, of several; null: the only
-- service, or none. summary: JSON. published_added, published_lost: ticks that its generations added and removed.
-- rejected_bytes_left: bytes of rejected input that it may still quarantine; rejected_dropped: rejected rows that it only
-- counted.
create table runs (
  run_id text primary key, job text not null, pid integer not null, started_at integer not null,
  finished_at integer, exit_code integer,
  fetched integer not null default 0, quarantined integer not null default 0,
  accepted integer not null default 0, duplicates integer not null default 0, conflicts integer not null default 0,
  recovered integer not null default 0, summary text,
  rejected_bytes_left integer not null default 16777216, rejected_dropped integer not null default 0,
  published_added integer not null default 0, published_lost integer not null default 0, source text
) without rowid;
-- The same counts of a run for the rows of a series, such as quotes.
create table series_counts (
  run_id text not null, dataset text not null, fetched integer not null default 0, quarantined integer not null default 0,
  accepted integer not null default 0, duplicates integer not null default 0, conflicts integer not null default 0,
  recovered integer not null default 0, primary key (run_id, dataset)
) without rowid;

-- One row per response of the upstream, or batch of an imported file. rows: the number of its rows in the other journal
-- tables, without rejected input. checksum, here and in the tables that follow: see journal-rows.ts.
create table journal (
  id integer primary key autoincrement, run_id text not null, kind text not null, symbol text,
  requested_from integer, requested_to integer, observed_at integer not null, origin text not null, rank integer not null,
  rows integer not null, checksum integer not null
);
-- Its ticks, split by day: n times and prices. Here and below, a publish finds the rows of a part by its range of symbols.
create table journal_ticks (
  id integer primary key, record_id integer not null, symbol text not null, day integer not null,
  n integer not null, t blob not null, p blob not null, checksum integer not null
);
create index journal_ticks_bin on journal_ticks (day, symbol, id);
create index journal_ticks_record on journal_ticks (record_id);
create index journal_ticks_symbol on journal_ticks (symbol, day, record_id);
-- The window that it covers, split by day. evidence: see format/coverage.ts.
create table journal_coverage (
  id integer primary key, record_id integer not null, symbol text not null, day integer not null,
  t_from integer not null, t_to integer not null, fetched_at integer not null, origin text not null,
  evidence text not null, checksum integer not null
);
create index journal_coverage_bin on journal_coverage (day, symbol, id);
create index journal_coverage_record on journal_coverage (record_id);
create index journal_coverage_symbol on journal_coverage (symbol);
-- Withdrawals, split by day. They remove published coverage and that of earlier records.
create table journal_withdrawn (
  id integer primary key, record_id integer not null, symbol text not null, day integer not null,
  t_from integer not null, t_to integer not null, checksum integer not null
);
create index journal_withdrawn_bin on journal_withdrawn (day, symbol, id);
create index journal_withdrawn_record on journal_withdrawn (record_id);
create index journal_withdrawn_symbol on journal_withdrawn (symbol);
-- Rejected input, as received.
create table journal_rejected (
  id integer primary key, record_id integer not null, run_id text not null, symbol text, at integer not null,
  reason text not null, raw text not null, checksum integer not null
);
-- A complete poll of the market lists: the records as received, compressed.
create table journal_markets (
  record_id integer primary key, observed_at integer not null, payload blob not null, checksum integer not null
);
-- Order book snapshots, one row each. Price and quantity of its n levels, bids first, each side best first.
create table journal_books (
  id integer primary key, record_id integer not null, symbol text not null, day integer not null,
  t integer not null, observed_at integer not null, bids integer not null, n integer not null, price blob not null,
  quantity blob not null, checksum integer not null
);
create index journal_books_bin on journal_books (day, symbol, id);
create index journal_books_record on journal_books (record_id);
-- Responses of the order book route: each covers its moment. snapshots: the number of snapshots that it returned.
create table journal_book_coverage (
  id integer primary key, record_id integer not null, symbol text not null, at integer not null,
  snapshots integer not null, checksum integer not null
);
create index journal_book_coverage_record on journal_book_coverage (record_id);
-- Rows of a series of one symbol and UTC day: n times, the columns of numbers one after another, n doubles each, and the
-- texts as JSON.
create table journal_series (
  id integer primary key, record_id integer not null, dataset text not null, symbol text not null, day integer not null,
  n integer not null, t blob not null, v blob not null, checksum integer not null
);
create index journal_series_bin on journal_series (day, symbol, id);
create index journal_series_record on journal_series (record_id);
-- Windows that responses or files with rows of a series cover, split by day.
create table journal_series_coverage (
  id integer primary key, record_id integer not null, dataset text not null, symbol text not null, day integer not null,
  t_from integer not null, t_to integer not null, fetched_at integer not null,
  origin text not null, evidence text not null, checksum integer not null
);
create index journal_series_coverage_bin on journal_series_coverage (day, symbol, id);
create index journal_series_coverage_record on journal_series_coverage (record_id);

-- Windows of the last nights in which a response had no ticks although others reached it: see collector/proof.
create table empty_windows (
  symbol text not null, observed_at integer not null, t_from integer not null, t_to integer not null,
  primary key (symbol, observed_at, t_from)
) without rowid;
-- Published coverage of ticks, one window per response; the windows of a symbol are disjoint.
create table coverage (
  symbol text not null, t_from integer not null, t_to integer not null, fetched_at integer not null,
  origin text not null, evidence text not null, primary key (symbol, t_from)
) without rowid;
-- Rank and observation time of the published rows of a dataset, by symbol and UTC day. windows: packed, see
-- precedence-store.ts.
create table precedence (
  dataset text not null, symbol text not null, day integer not null, windows blob not null,
  primary key (dataset, symbol, day)
) without rowid;
-- When each published order book snapshot was observed. Of one moment, the one observed later wins.
create table book_observed (
  symbol text not null, t integer not null, observed_at integer not null, primary key (symbol, t)
) without rowid;

-- What is known of each symbol: what the market lists say, the lifetime, the number of published ticks, and how it responds.
-- last_active: when a list last named it as active; listed: whether one ever named it; inactive_since: when the lists first
-- did not; polled_from: where its polling began; resolution_seen: when the lists first showed it as resolved; served_from:
-- start of the history that the server says it keeps. unknown_since, unknown_days, unknown_at: since when the server reports
-- it as unknown while it responds for others, on how many UTC days, and when last; suspended_at: since when it is suspended
-- for that; tried_at: when it last failed while suspended. closed_from, closed_to: UTC midnights between which a closed symbol is
-- expected, and covered by proof, see completeness.ts; null if it is open. known_from, known_to: the first and the last
-- time that is known of a closed one.
create table symbols (
  symbol text primary key, canonical_id text, source text, question text, category text, is_active integer,
  opens_at integer, closes_at integer, resolved_at integer, outcome real,
  first_seen integer not null, last_seen integer not null, last_active integer, listed integer not null default 0,
  inactive_since integer, polled_from integer, first_tick integer, last_tick integer, ticks integer not null default 0,
  resolution_seen integer, unknown_since integer, unknown_days integer not null default 0, unknown_at integer,
  suspended_at integer, tried_at integer, served_from integer, outcome_source text, event text, exclusive integer,
  strike_low real, strike_high real, expected_end integer, rules_sha256 text, fee_schedule text, tick_size real,
  closed_from integer, closed_to integer, known_from integer, known_to integer
) without rowid;
create index symbols_open on symbols (symbol) where closed_to is null;
create index symbols_closed on symbols (closed_to) where closed_to is not null;
create index symbols_known_from on symbols (known_from) where known_from is not null;
create index symbols_known_to on symbols (known_to) where known_to is not null;
create index symbols_ended on symbols (${endedSql}) where listed = 1;
create index symbols_first_seen on symbols (first_seen);
create index symbols_suspended on symbols (symbol) where suspended_at is not null;
create index symbols_unknown on symbols (symbol) where unknown_since is not null;
-- The closed symbols by day: how many more are expected from that day on, and how many are first expected on it (day 0: never).
create table closed_days (day integer primary key, change integer not null, symbols integer not null);
-- Windows of a symbol's ticks that were requested without success, disjoint, with the reason, unless covered since.
create table owed (
  symbol text not null, t_from integer not null, t_to integer not null, kind text not null, reason text not null,
  since integer not null, primary key (symbol, t_from)
) without rowid;
-- Gaps that a user accepted, disjoint. reported_at: when a run ended with exit code 4 because of one.
create table accepted (
  symbol text not null, t_from integer not null, t_to integer not null, reason text not null,
  accepted_at integer not null, reported_at integer, primary key (symbol, t_from)
) without rowid;
-- Windows whose published ticks were lost, with their number. They are not covered until as many ticks are restored. Each
-- lies within one UTC day. reported_at: when a run ended with exit code 4 because of it.
create table lost (
  dataset text not null, symbol text not null, t_from integer not null, t_to integer not null, ticks integer not null,
  lost_at integer not null, reported_at integer, primary key (dataset, symbol, t_from)
) without rowid;
-- Windows in which a symbol is not collected, disjoint: see selection-store.ts. t_from 0: nothing was collected before; t_to
-- null: until now.
create table unselected (
  symbol text not null, t_from integer not null, t_to integer, kind text not null, reason text,
  decided_at integer not null, primary key (symbol, t_from)
) without rowid;
-- Symbols that a user watches: they are collected whatever lists and settings say.
create table watched (symbol text primary key, decided_at integer not null) without rowid;

-- The best poll of each market list within each UTC day: a whole one if there is any, else a complete one, else the latest.
-- markets: how many it named; total: as the server stated it; reason: why the list does not count as complete, or why a
-- complete one is not known to be whole; null if it is. The view * means all views together. Views of several sources begin
-- with the source.
create table listings (
  day integer not null, view text not null, at integer not null, markets integer not null, total integer,
  is_complete integer not null, reason text, primary key (day, view)
) without rowid;

-- At most one row: a committed publish, or repair, whose files are not all moved yet.
create table intents (generation integer primary key, commit_id text not null, moves text not null);
-- Parts of the text of the last published manifest: see recorded-manifest.ts.
create table manifest_parts (sha256 text primary key, text text not null);
-- Row groups of published files, to find the intact ones of a damaged file: see archive/parquet/row-group-index.ts.
create table row_groups (
  path text primary key, sha256 text not null, footer blob not null, groups text not null
) without rowid;
-- Damaged and missing files, until a verify or a repair is clean.
create table damage (
  path text primary key, kind text not null, found_at integer not null, run_id text not null
) without rowid;
-- When a published file of this hash was last written, or hashed and found intact.
create table hash_times (path text primary key, sha256 text not null, hashed_at integer not null) without rowid;

-- What journaled responses changed, in the order in which they became durable, for streams: see tick-log.ts. at: when the
-- response was observed, never decreasing. bytes_to: total size of this and all earlier rows, removed ones included.
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
${closingTriggers}
`;
