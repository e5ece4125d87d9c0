const at =
  (file: string) =>
  (title: string): readonly [string, string] => [file, title];

const webhook = at('e2e/webhook.test.ts');
const port = at('e2e/schedule-port.test.ts');

const failed = webhook('with an exit code other than 0, once, with what is missing; and about success only if enabled');
const fromFile = webhook('whose webhook address is in a file, and that SIGTERM stopped');
const pinged = at('e2e/ping.test.ts')(
  'is pinged at the start and at the end of a job, with failure at its own address',
);
const secretUrl = at('settings/secrets.test.ts')('reads the address of a ping from a file');
const taken = port('an unavailable port exits 2 before any run');

/** Promises to operators: metrics, health, notifications. */
export const operatorVariables = {
  ODDSLAKE_WEBHOOK_URL: failed,
  ODDSLAKE_WEBHOOK_URL_FILE: fromFile,
  ODDSLAKE_PING_URL: pinged,
  ODDSLAKE_PING_URL_FILE: secretUrl,
} as const;

export const operatorSettings = {
  'schedule.host': taken,
  'schedule.port': taken,
  'schedule.late_hours_max': port('missed runs make it not ready until a run has ended'),
  'notify.webhook_url': failed,
  'notify.webhook_url_file': fromFile,
  'notify.when': failed,
  'notify.ping_url': pinged,
  'notify.ping_url_file': secretUrl,
  'notify.ping_start_url': at('settings/secrets.test.ts')('derives the addresses of pings, unless they are set'),
  'notify.ping_fail_url': pinged,
  'notify.ping_jobs': pinged,
} as const;
