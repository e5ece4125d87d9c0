import { backtestCommands, backtestFlags } from './backtest-proofs.ts';
import { operatorSettings, operatorVariables } from './operator-proofs.ts';
import { serviceCommands, serviceFlags, serviceRoutes, serviceSettings, serviceVariables } from './service-proofs.ts';

/** The file below test/, and the sentence of the test in it. */
export type Proof = readonly [file: string, title: string];

type ByName = Readonly<Record<string, Proof>>;

interface Proofs {
  readonly commands: ByName;
  readonly commonFlags: ByName;
  /** By `command --flag`. */
  readonly flags: ByName;
  readonly exitCodes: Readonly<Record<number, Proof>>;
  readonly variables: ByName;
  readonly settings: ByName;
  /** By method and path. */
  readonly routes: ByName;
  /** For every column that has none of its own under its `dataset.name`. */
  readonly everyColumn: Proof;
  readonly columns: ByName;
  readonly manifest: ByName;
  readonly everyFileField: Proof;
  readonly rootFiles: ByName;
  readonly everySummaryField: Proof;
  readonly summary: ByName;
}

const commandsFile = 'contract/commands.test.ts';
const published = 'contract/published.long.test.ts';
const settings = 'e2e/settings.test.ts';
const looking = 'e2e/looking.test.ts';
const again = 'e2e/again.test.ts';
const usage = 'e2e/usage.test.ts';
const exits = 'e2e/exit-codes.test.ts';

const badUsage: Proof = [usage, 'bad settings and bad usage exit 2 before any work'];
const busy: Proof = [exits, 'waits for --wait, exits 5, and its ticks are published later'];
const rerun: Proof = [again, 'a repeated nightly run of a past date requests no ticks and changes no byte'];
const tailed: Proof = [
  'e2e/tail.test.ts',
  'tail prints the ticks since a time and then new ones, each once, and ends with 0 on SIGINT',
];
const dryRun: Proof = [again, '--dry-run prints symbols, windows, requests and time, and fetches no tick'];
const backfilled: Proof = [
  again,
  'a killed run is resumed with the missing windows only, and a third run requests nothing',
];
const sinceNow: Proof = ['e2e/since.test.ts', 'is a window that ends now, for gaps, exports and backtests'];
const printedStatus: Proof = [looking, 'status prints coverage as text and JSON, and exits 4 beyond --max-lag'];
const gapAccepted: Proof = [
  'e2e/gaps-accepted.test.ts',
  'turns a failing gap into a warning, without effect on watermark and lag',
];
const forgotten: Proof = [
  'e2e/symbols.test.ts',
  'forget ends what is expected of a symbol, also after the state is lost, until watch',
];
const selected: Proof = [
  'e2e/symbols.test.ts',
  'include and exclude choose from the market lists, and watch adds to them',
];
const gapRevoked: Proof = ['e2e/gaps-accepted.test.ts', 'is reverted by revoke, and the next run fetches the gap'];
const reportedGaps: Proof = [looking, 'lifetimes start at the stated retention of a service, with a warning'];
const columnsAsPromised: Proof = [published, 'have exactly the promised columns, types and nulls'];
const manifestShape: Proof = [published, 'the manifest, its days and its files have exactly the promised fields'];
const manifestTruth: Proof = [published, 'the manifest describes every file correctly'];
const summaryShape: Proof = [published, 'the last line of --json has the promised fields'];
const addsUp: Proof = [
  'faults/upstream-faults.test.ts',
  'leaves exactly its ticks in the archive after two runs, with counts that add up',
];
const nightFact = (title: string): Proof => ['collector/run/night-facts.long.test.ts', title];
const recheckShare: Proof = [
  'collector/run/recheck-nights.long.test.ts',
  'recheck_share sets the share of repeated requests, and 0 disables rechecks',
];
const caught: Proof = [
  'collector/run/recheck-nights.long.test.ts',
  'is detected: its coverage counts as inferred until it is read again completely',
];
const growingOverlap: Proof = [
  'collector/run/recheck-nights.long.test.ts',
  'after the overlap are found, and the overlap grows to include them',
];
const longNightFact = (title: string): Proof => ['collector/run/night-facts.long.test.ts', title];
const reportedRate = nightFact('reports the request rate of a run with requests');
const besideMedian = longNightFact('reports a night with the medians of previous nights, and consistent counts');
const marketsChanged = nightFact('compares markets with the lists of the previous night, despite polls in between');
const uncovered = nightFact('counts failed windows as gap minutes, and their symbols as not covered');
const tooLate = longNightFact('counts symbols that are fetched after the service has thinned out their days');
const reach: Proof = [
  'archive/completeness/completeness.test.ts',
  'puts the watermark where every live symbol is covered without a gap, and reaches as far with inferred windows',
];
const daysJudged: Proof = [
  'archive/days.test.ts',
  'says of a day whether it is complete, and up to where every live symbol is covered',
];
const fields: Proof = [
  settings,
  'field_paths say where a record has question, source, opens_at, closes_at, resolved_at and outcome',
];
const details: Proof = [
  'e2e/import-markets.test.ts',
  'field_paths find event, exclusive, strikes, expected end, rules, fees, tick size and source of the outcome',
];
const attempts: Proof = [settings, 'retry_attempts_max bounds the attempts at one request'];
const delays: Proof = ['settings/load.test.ts', 'the minimum delay is at most the maximum'];
const doctored: Proof = ['e2e/doctor.test.ts', 'reports no problem for a healthy archive, and changes nothing'];
const initialized = (title: string): Proof => ['e2e/init.test.ts', title];
const firstNightly = 'writes the setting of order books, prints the checks of doctor, and runs the first nightly';
const completed = (title: string): Proof => ['e2e/completion.test.ts', title];
const configShown: Proof = [
  'e2e/config.test.ts',
  'config show lists changed settings with value and source, without secrets',
];
const setTwice: Proof = ['settings/load.test.ts', 'the last --set of a key wins, and a specific flag overrides --set'];

const code = (title: string): Proof => [exits, title];
const cli = 'e2e/commands.test.ts';
const quiet: Proof = [
  cli,
  '--quiet prints only the result, --config names the settings, --no-progress keeps log lines',
];
const onlyThose: Proof = [cli, 'backfill --symbol and --symbols-file fetch only those symbols'];
const tickSymbols: Proof = [cli, 'ticks --symbol polls only that symbol'];
const polls: Proof = [cli, 'markets polls only the lists; ticks then polls their live symbols'];
const precedence: Proof = [
  'settings/load.test.ts',
  'flags override environment, environment the file, the file the defaults',
];
const fromUrl: Proof = [
  'e2e/repair-from.test.ts',
  'ticks that the upstream no longer has stay a gap until another oddslake provides them',
];
const keyFile: Proof = ['settings/load.test.ts', 'is read from a file relative to the config, and trimmed'];
const otherKey: Proof = ['settings/load.test.ts', 'of another oddslake is separate from the key of the upstream'];
const outputHome: Proof = [settings, 'output is where the archive is, from the folder of the config on'];
const rate: Proof = ['faults/upstream-faults.test.ts', 'never exceeds the allowed rate and respects Retry-After'];
const views: Proof = [settings, 'views are the lists that are polled'];
const effect = (title: string): Proof => [settings, title];
const stopped: Proof = [exits, '%s in the middle of a run stops it cleanly, and nothing accepted is lost'];

const books = 'e2e/orderbook.test.ts';
const booksNightly = 'e2e/books-nightly.test.ts';
const importAgain = 'e2e/import-again.test.ts';
const addsUpOverRuns: Proof = [
  'e2e/numbers.test.ts',
  'sums over runs match the archive: killed, resumed, stopped, published by another, backfilled, imported',
];
const pushed = (title: string): Proof => ['bucket/push.long.test.ts', title];
const printedBucket: Proof = [
  'e2e/bucket.test.ts',
  'pushes an archive, says that nothing changed, pulls it and verifies both',
];
const encrypted: Proof = [
  'bucket/s3-store.long.test.ts',
  'asks for the encryption of bucket.sse with the key of bucket.kms_key',
];
const importFlag = (title: string): Proof => ['e2e/import-flags.test.ts', title];
const imported = (title: string): Proof => ['e2e/import.test.ts', title];
const exported = (title: string): Proof => ['e2e/export.test.ts', title];
const recording: Proof = ['faults/recording.test.ts', 'gives the same tick bytes by import as over HTTP'];
const scheduled: Proof = [
  'e2e/schedule.test.ts',
  'runs every scheduled job, and catches up only within catch_up_hours',
];
const feedFiles: Proof = ['e2e/sandbox-files.test.ts', 'writes files that import reads without further flags'];
const jitter: Proof = ['base/timetable.test.ts', 'starts with jitter, before the next scheduled time'];
const changed: Proof = ['e2e/changes.test.ts', 'changes lists changed files since a generation, as paths or JSON'];
const ofSources = (title: string): Proof => ['e2e/sources.test.ts', title];
const sourceAlone = ofSources('collects a source alone, and its lists are no evidence about the markets of the other');
const sourceSymbols = ofSources('requests a symbol from its source only');
const sourceSelected = ofSources('selects in status, gaps, symbols and export');
const sqlAnswers: Proof = ['e2e/sql.test.ts', 'sql has views and macros over the datasets'];

/** Which test proves which promise; the names are those of promises.ts and of the settings. */
export const proofs: Proofs = {
  commands: {
    ...serviceCommands,
    ...backtestCommands,
    nightly: rerun,
    markets: polls,
    ticks: polls,
    backfill: backfilled,
    publish: [cli, 'publish merges the journal of an earlier run'],
    status: printedStatus,
    report: ['e2e/report.test.ts', 'report writes its page into the archive and changes nothing else'],
    gaps: reportedGaps,
    'gaps accept': gapAccepted,
    'gaps revoke': gapRevoked,
    'symbols forget': forgotten,
    'symbols watch': selected,
    'symbols retry': [
      'e2e/gaps-accepted.test.ts',
      'symbols retry polls suspended symbols now, and exits 4 if they are still unknown',
    ],
    verify: [looking, 'verify prints totals and damaged files, as text and JSON'],
    sandbox: [cli, 'sandbox prints its address, responds, and exits 0 when stopped'],
    'sandbox files': feedFiles,
    demo: [cli, 'demo fills output/demo from a sandbox and prints how to load it'],
    orderbook: [books, 'polls the symbols named, and goes on where one of them fails'],
    import: recording,
    schedule: scheduled,
    tail: tailed,
    symbols: ['e2e/symbols.test.ts', 'symbols matches all words in any case, and counts omitted rows'],
    changes: changed,
    snapshot: [
      'archive/snapshot.test.ts',
      'a snapshot keeps its bytes through the publishes after it, and verifies as an archive of its own',
    ],
    push: printedBucket,
    pull: ['bucket/pull.long.test.ts', 'a push and a pull give an equal archive, byte for byte, that verifies'],
    export: exported('Parquet has the types of the archive'),
    sql: sqlAnswers,
    doctor: doctored,
    completion: completed('completes commands, subcommands, flags and values'),
    'config show': configShown,
    'config check': ['e2e/config.test.ts', 'config check lists every problem, exits 2, and never contacts the network'],
    init: ['e2e/init.test.ts', 'writes a config for the new archive, without the key'],
  },
  commonFlags: {
    '--config': quiet,
    '--output': ['settings/load.test.ts', 'is named by flag, environment or config file'],
    '--set': setTwice,
    '--json': ['e2e/json.test.ts', 'every command prints one JSON object without colours'],
    '--quiet': quiet,
    '--log-level': [cli, '--log-level is the minimum level of log lines'],
    '--no-progress': quiet,
    '--wait': busy,
    '--strict': ['e2e/doctor.test.ts', 'a rate above the stated limit is a warning, exit code 4 with --strict'],
    '--help': [cli, '--help works before and after a command, --version prints a version'],
  },
  flags: {
    ...serviceFlags,
    ...backtestFlags,
    'nightly --date': rerun,
    'tail --since': tailed,
    'tail --url': ['e2e/tail.test.ts', 'tail follows a service without loss or repetition, also across its restart'],
    'nightly --dry-run': [
      'e2e/dry-run.test.ts',
      'nightly --dry-run is right within 20 %, contacts nobody and writes nothing',
    ],
    'nightly --source': sourceAlone,
    'markets --source': sourceAlone,
    'ticks --source': sourceSymbols,
    'orderbook --source': ofSources('polls the order books of its source, whose responses name the symbol as it does'),
    'backfill --source': ofSources('backfills each source within its coverage'),
    'import --source': ofSources(
      'names the source of imported files, whose symbols it qualifies unless they are qualified',
    ),
    'schedule --source': ofSources('runs the jobs of a schedule for the chosen sources'),
    'status --source': sourceSelected,
    'gaps --source': sourceSelected,
    'symbols --source': sourceSelected,
    'symbols retry --source': ofSources('suspends a symbol at the source that does not know it'),
    'export --source': sourceSelected,
    'doctor --source': ofSources('selects the sources that doctor checks'),
    'ticks --symbol': tickSymbols,
    'backfill --from': backfilled,
    'backfill --to': backfilled,
    'backfill --since': ['e2e/since.test.ts', 'is a window that ends now, for a backfill, which needs one'],
    'backfill --symbol': onlyThose,
    'backfill --symbols-file': onlyThose,
    'backfill --dry-run': dryRun,
    'backfill --force': [again, '--force fetches covered windows again and changes no tick'],
    'backfill --all-known': [
      'collector/paging/plan.test.ts',
      'requests windows outside of the lifetime for all known symbols on demand',
    ],
    'status --max-lag': printedStatus,
    'report --out': ['e2e/report.test.ts', 'report --out writes to another path, but not into a dataset'],
    'verify --repair': ['e2e/repair.test.ts', 'restores the rows of a damaged file from the upstream, to the byte'],
    'verify --from-url': fromUrl,
    'verify --download': printedBucket,
    'push --force-restore': pushed(
      'an archive restored from a backup is refused, and pushed on top with --force-restore',
    ),
    'gaps --from': reportedGaps,
    'gaps --to': reportedGaps,
    'gaps --since': sinceNow,
    'gaps --symbol': reportedGaps,
    'gaps --dataset': ['e2e/import-trades.test.ts', 'the gaps of trades are the windows that no import has declared'],
    'gaps accept --from': gapAccepted,
    'gaps accept --to': gapAccepted,
    'gaps accept --reason': gapAccepted,
    'symbols forget --reason': forgotten,
    'gaps revoke --from': gapRevoked,
    'gaps revoke --to': gapRevoked,
    'orderbook --symbol': [books, 'polls the symbols named, and goes on where one of them fails'],
    'import --dataset': [
      'e2e/import-markets.test.ts',
      'copies the rows that one archive published into another, byte for byte',
    ],
    'import --format': imported('gives the same bytes whatever the format, however it is packed'),
    'import --columns': importFlag('reads columns with other names, and prices in cents'),
    'import --time-unit': importFlag('prints the unit of numeric times, and reads it in every format'),
    'import --truncate-time': importFlag(
      'of a mostly rejected file publishes nothing of any file, and names the flag that helps',
    ),
    'import --price-scale': importFlag('reads columns with other names, and prices in cents'),
    'import --allow-rejected': importFlag('accepts a file with some rejected rows, up to the allowed share'),
    'import --dry-run': importFlag('prints in a dry run what it would accept and reject, and imports nothing'),
    'import --tz': imported('reads times in the zone it is given, and sets aside those that zone does not have'),
    'import --covers': imported(
      'covers of rows what it is given, up to when the file was written, for every symbol in the input',
    ),
    'import --prefer': [
      importAgain,
      'polled prices win, unless imports are preferred; then those win over later polls',
    ],
    'changes --since': changed,
    'doctor --offline': doctored,
    'config show --all': configShown,
    'init --no-check': initialized('tries the address and the key before it writes, unless disabled'),
    'init --order-books': initialized(firstNightly),
    'init --nightly': initialized(firstNightly),
    'export --out': exported('replaces an existing file atomically, and keeps it if the export fails'),
    'export --dataset': exported('exports rows of coverage and markets that overlap the window'),
    'export --symbol': exported('Parquet has the types of the archive'),
    'export --from': exported('exports rows of coverage and markets that overlap the window'),
    'export --to': exported('exports rows of coverage and markets that overlap the window'),
    'export --since': sinceNow,
    'export --format': exported('--format overrides the extension'),
    'export --csv-safe': [
      'e2e/csv-safe.test.ts',
      'export and sql write CSV for spreadsheets with --csv-safe, and no other format',
    ],
    'sql --csv-safe': [
      'e2e/csv-safe.test.ts',
      'export and sql write CSV for spreadsheets with --csv-safe, and no other format',
    ],
    'sandbox files --from': feedFiles,
    'sandbox files --to': feedFiles,
    'sandbox files --dataset': ['e2e/sandbox-files.test.ts', 'writes only the datasets named, and refuses others'],
    'sandbox files --seed': feedFiles,
    'sql --format': [
      'archive/query/write-result.long.test.ts',
      'every kind of statement can be written as csv and json',
    ],
  },
  exitCodes: {
    0: rerun,
    1: [
      'faults/full-disk.test.ts',
      'a run on a full disk exits with 1, and the next run with space completes without loss',
    ],
    2: badUsage,
    3: code('a wrong key exits 3 after one request and keeps the archive'),
    4: code('an unknown symbol exits 4, and is reported when it is suspended'),
    5: busy,
    6: code('exits 6 for a damaged part and publishes the others'),
    7: code('an unreachable address exits 7'),
    130: stopped,
    143: stopped,
  },
  variables: {
    ...serviceVariables,
    ...operatorVariables,
    ODDSLAKE_BASE_URL: precedence,
    ODDSLAKE_API_KEY: ['client/responses.test.ts', 'sends the documented request, with the key as bearer token'],
    ODDSLAKE_API_KEY_FILE: keyFile,
    ODDSLAKE_OUTPUT: ['settings/load.test.ts', 'is named by flag, environment or config file'],
    ODDSLAKE_CONFIG: ['settings/load.test.ts', '--config overrides ODDSLAKE_CONFIG'],
    ODDSLAKE_FROM_API_KEY: otherKey,
    ODDSLAKE_FROM_API_KEY_FILE: otherKey,
    ODDSLAKE_REQUESTS_PER_SECOND: [commandsFile, 'every promised variable of the environment sets its setting'],
  },
  routes: serviceRoutes,
  settings: {
    ...serviceSettings,
    ...operatorSettings,
    'upstream.base_url': ['settings/load.test.ts', 'is required only if used, and the error names the variable'],
    'upstream.api_key': ['settings/load.test.ts', 'is rejected if given twice in one source'],
    'upstream.api_key_file': keyFile,
    'upstream.requests_per_second': rate,
    'upstream.concurrency': effect('concurrency bounds the requests under way'),
    'upstream.request_deadline_seconds': effect('%s gives up what exceeds it'),
    'upstream.response_bytes_max': effect('%s gives up what exceeds it'),
    'upstream.retry_attempts_max': attempts,
    'upstream.retry_delay_seconds_min': delays,
    'upstream.retry_delay_seconds_max': delays,
    'upstream.retry_after_seconds_max': effect(
      'retry_after_seconds_max bounds what is waited for a service that asks for a pause',
    ),
    'source.name': effect('name is the upstream of the manifest, and without it the origin is'),
    'source.views': views,
    'source.include': selected,
    'source.exclude': selected,
    'source.symbol_paths': effect('symbol_paths say where the symbols of a record stand'),
    'source.field_paths.question': fields,
    'source.field_paths.source': fields,
    'source.field_paths.opens_at': fields,
    'source.field_paths.closes_at': fields,
    'source.field_paths.resolved_at': fields,
    'source.field_paths.outcome': fields,
    'source.field_paths.outcome_source': details,
    'source.field_paths.event': details,
    'source.field_paths.exclusive': details,
    'source.field_paths.strike_low': details,
    'source.field_paths.strike_high': details,
    'source.field_paths.expected_end': details,
    'source.field_paths.rules': details,
    'source.field_paths.fee_schedule': details,
    'source.field_paths.tick_size': details,
    'source.linger_days': effect('linger_days is how long a symbol is polled after it turned inactive'),
    'source.suspend_after_days': effect('suspend_after_days days on which the service knows no such symbol suspend it'),
    'source.downsampled_after_days': tooLate,
    'source.first_lookback_days': effect(
      'first_lookback_days is where the first poll starts of a symbol of which nobody knows when it opened',
    ),
    symbols: effect('symbols of the config are polled in place of those of the lists'),
    'poll.overlap_minutes': effect('overlap_minutes are read again before the cursor'),
    'poll.overlap_minutes_max': [
      'collector/run/recheck-nights.long.test.ts',
      'are searched at most overlap_minutes_max back',
    ],
    'poll.recheck_share': recheckShare,
    'poll.confirm': effect('confirm says whether the end of a poll is confirmed at once or by the next'),
    'poll.page_limit': effect('page_limit is what one request asks for'),
    'poll.future_skew_seconds': effect(
      'future_skew_seconds is how far ahead of the clock a moment may lie and still be believed',
    ),
    'publish.journal_ticks_max': effect('publish.journal_ticks_max is where a running job publishes'),
    'archive.output': outputHome,
    'archive.candles': [
      'archive/candles.test.ts',
      'are not made of intervals that nobody asks for, but kept up where they are',
    ],
    'archive.part_rows': effect('part_rows is how many rows a part file of a new day may be expected to have'),
    'archive.parts': effect('parts is the number of files of a day, and a symbol is in the one that its hash names'),
    'archive.verify_days': [
      'collector/run/damage-remembered.long.test.ts',
      'hashes every published byte again within verify_days',
    ],
    'archive.settle_minutes': effect('settle_minutes is how late an answer about a day must come to be final'),
    'log.level': effect('log.level is the least level that is logged'),
    'log.format': effect('log.format is the format of the log, whatever standard error is'),
    'orderbooks.symbols': [
      booksNightly,
      'polls none unless requested to, and none for a past day, which stays repeatable',
    ],
    'orderbooks.all_live': [
      booksNightly,
      'keeps the order book of every live symbol, in whatever shapes the service tells them',
    ],
    'raw.keep_days': ['collector/run/raw.long.test.ts', 'raw.keep_days removes expired days, and 0 keeps none'],
    'import.rejected_share_max': importFlag('accepts a file with some rejected rows, up to the allowed share'),
    'raw.bytes_max': [
      'collector/run/raw.long.test.ts',
      'raw.bytes_max limits the raw responses and removes the oldest first',
    ],
    'repair.from_api_key': otherKey,
    'repair.from_api_key_file': otherKey,
    'report.nightly': [
      'e2e/report.test.ts',
      'report.nightly: a nightly writes the report at its end, whatever the outcome',
    ],
    'report.days': ['e2e/report.test.ts', 'report.days limits the days shown'],
    'report.catalogue_url': ['e2e/report.test.ts', 'report.catalogue_url is linked from the report'],
    'bucket.url': [
      'e2e/bucket-jobs.test.ts',
      'nightly pushes what it has published; a push that fails is a failure of the run, and the next one catches up',
    ],
    'bucket.keep_generations': [
      'bucket/retention.long.test.ts',
      'keeps what the last manifests name, removes the rest below data/ only, and touches no foreign object',
    ],
    'bucket.keep_days': [
      'bucket/retention.long.test.ts',
      'keeps the objects of replaced manifests for keep_days, however many followed',
    ],
    'bucket.push_minutes_max': [
      'e2e/bucket-jobs.test.ts',
      'a push that takes longer than bucket.push_minutes_max fails, and the next one continues where it ended',
    ],
    'bucket.single_writer': pushed(
      'a server without conditional writes is refused, unless only this machine pushes (%i)',
    ),
    'bucket.path_style': [
      'bucket/s3-store.long.test.ts',
      'with bucket.path_style %s the requests go to %s, and are not sent without encryption',
    ],
    'bucket.sse': encrypted,
    'bucket.kms_key': encrypted,
    'bucket.cache_dir': [
      'bucket/file-cache.test.ts',
      'a full disk and a folder that cannot be written to are explained',
    ],
    'bucket.cache_bytes_max': [
      'bucket/file-cache.test.ts',
      'the entries that were not used for longest are removed first',
    ],
    'drops.markets_share_max': [
      'collector/run/falls.long.test.ts',
      'a sharp drop of markets exits with 4, publishes, and becomes the median',
    ],
    'drops.ticks_share_max': [
      'collector/run/falls.long.test.ts',
      'a sharp drop of ticks exits with 4, unless the check is disabled',
    ],
    'schedule.nightly': scheduled,
    'schedule.markets': scheduled,
    'schedule.ticks': scheduled,
    'schedule.orderbook': scheduled,
    'schedule.publish': scheduled,
    'schedule.jitter_seconds': jitter,
    'schedule.catch_up_hours': scheduled,
  },
  everyColumn: columnsAsPromised,
  columns: {
    'ticks.symbol': ['faults/recording.test.ts', 'is archived row for row, and a second backfill requests nothing'],
    'ticks.t': ['archive/rows.test.ts', 'keeps times at both ends of the valid range, and below 2^32 ms'],
    'ticks.p': ['archive/rows.test.ts', 'decodes bit for bit for any doubles, row groups and batches'],
    'coverage.ticks': [
      'archive/publish.test.ts',
      'cuts coverage at midnight, gives each window one row, and counts the published ticks in it',
    ],
    'conflicts.seen_at': [
      'archive/publish.test.ts',
      'puts the price that lost into conflicts, with the moment of the later look, once',
    ],
    'markets.extra': ['archive/format/parse-market.test.ts', 'holds every field without a column as it came'],
  },
  manifest: {
    format_version: [
      'archive/open.test.ts',
      'of format %i is refused, and nothing of it changes, with its state or without',
    ],
    generation: ['archive/publish.test.ts', 'without anything new makes no new generation and touches no file'],
    created_at: manifestShape,
    writer: manifestShape,
    upstream: effect('name is the upstream of the manifest, and without it the origin is'),
    sources: ofSources('is a set of sources: others are refused, and one more is added'),
    parts: ['archive/open.test.ts', 'keeps the number of parts it was created with'],
    day_parts: ['archive/day-parts.test.ts', 'a small day has one file, and keeps it when it grows'],
    previous_sha256: manifestShape,
    watermark: reach,
    reached: reach,
    verified_through: manifestShape,
    completeness: [
      'whole/green-implies-whole.long.test.ts',
      'over two hundred stories a green surface means a complete archive, and every state occurs',
    ],
    commit_id: [
      'archive/commit-id.test.ts',
      'each commit has an ID of its own, a repair that puts bytes back included',
    ],
    days: daysJudged,
    selection: forgotten,
    lost: [
      'archive/lost.test.ts',
      'a state filled from the published tree knows what is lost, and whether it was reported is forgotten with the state',
    ],
    datasets: manifestTruth,
    'days.state': [
      'archive/completeness/completeness.test.ts',
      'counts a day as complete only with responses fetched long enough after it',
    ],
    'days.expected': [
      'archive/completeness/completeness.test.ts',
      'gives each day the state that a check of every symbol and quarter gives',
    ],
    'days.covered': [
      'archive/completeness/completeness.test.ts',
      'gives each day the state that a check of every symbol and quarter gives',
    ],
    'days.exceptions': [
      'archive/completeness/completeness.test.ts',
      'counts lost and accepted windows, which hold back neither watermark nor day',
    ],
    'days.missing': [
      'archive/completeness/completeness.test.ts',
      'lists at most twenty missing symbols, and counts them all',
    ],
    'days.reasons': [
      'archive/completeness/completeness.test.ts',
      'gives each day the state that a check of every symbol and quarter gives',
    ],
    'days.reason': [
      'contract/day-reasons.test.ts',
      'the command fetches what is missing and proves what is not proven',
    ],
    'days.next_action': [
      'e2e/looking.test.ts',
      'status prints coverage as text and JSON, and exits 4 beyond --max-lag',
    ],
  },
  everyFileField: manifestTruth,
  rootFiles: {
    'manifest.json': manifestTruth,
    'README.md': ['archive/readme.test.ts', 'has Python that names folders and columns which are there'],
    'views.sql': [
      'archive/views.long.test.ts',
      'gives every dataset with its columns and times in UTC, those without files too',
    ],
    SHA256SUMS: ['archive/damage.test.ts', 'sha256sum -c agrees with SHA256SUMS, and notices a flipped bit'],
  },
  everySummaryField: summaryShape,
  summary: {
    'rate.allowed_per_second': reportedRate,
    'rate.used': reportedRate,
    'rate.wait_ms': reportedRate,
    'night.nights': besideMedian,
    'night.ticks.new': nightFact('includes polls of other jobs since the last night'),
    'night.ticks.late': nightFact('counts ticks that appear after their window was covered as late'),
    'night.ticks.conflicts': besideMedian,
    'night.markets.new': marketsChanged,
    'night.markets.delisted': marketsChanged,
    'night.markets.resolved': marketsChanged,
    'night.markets.overdue': [
      'archive/journal/nightly-comparison.test.ts',
      'by hand: each is new, resolved or gone at most once, and also overdue',
    ],
    'night.covered.symbols': uncovered,
    'night.covered.gap_minutes': uncovered,
    'night.fetched_late': tooLate,
    'rechecks.requests': recheckShare,
    'rechecks.windows': recheckShare,
    'rechecks.contradicted': caught,
    'rechecks.new_ticks': caught,
    'rechecks.withdrawn_windows': caught,
    'rechecks.reread_windows': caught,
    'rechecks.doubtful_windows': caught,
    'rechecks.lateness_ms': growingOverlap,
    'rechecks.overlap_ms': growingOverlap,
    next_action: [
      'e2e/next-commands.test.ts',
      'the printed command fetches the missing windows with the same settings',
    ],
    'ticks.fetched': addsUp,
    'ticks.accepted': addsUp,
    'ticks.duplicates': addsUp,
    'ticks.conflicts': addsUp,
    'ticks.quarantined': addsUp,
    recovered: addsUpOverRuns,
    'published.added': addsUpOverRuns,
    'published.lost': addsUpOverRuns,
    markets: ['e2e/next-commands.test.ts', 'polls of lists and order books print their counts'],
    schema_drift: [
      'collector/run/drift.long.test.ts',
      'reports a removed, renamed or retyped field once, and again when it returns',
    ],
    warnings: ['collector/run/summary.test.ts', 'truncates lists at 20 entries and keeps their lengths'],
    failures: ['collector/run/summary.test.ts', 'truncates lists at 20 entries and keeps their lengths'],
  },
};
