const at =
  (file: string) =>
  (title: string): readonly [string, string] => [file, title];

const webhook = at('e2e/webhook.test.ts');
const port = at('e2e/schedule-port.test.ts');

const failed = webhook('with an exit code other than 0, once, with what is missing; and about success only if enabled');
const fromFile = webhook('whose webhook address is in a file, and that SIGTERM stopped');
const pinged = at('e2e/ping-mail.test.ts')(
  'is pinged at the start and at the end of a job, with failure at its own address',
);
const mailed = at('e2e/ping-mail.test.ts')('is sent by SMTP about a run that failed, and about others only if enabled');
const secretUrl = at('settings/secrets.test.ts')('reads the address of a ping and of a mail server from a file');
const taken = port('an unavailable port exits 2 before any run');

/** Promises to operators: metrics, health, notifications. */
export const operatorVariables = {
  ODDSLAKE_WEBHOOK_URL: failed,
  ODDSLAKE_WEBHOOK_URL_FILE: fromFile,
  ODDSLAKE_PING_URL: pinged,
  ODDSLAKE_PING_URL_FILE: secretUrl,
  ODDSLAKE_SMTP_URL: mailed,
  ODDSLAKE_SMTP_URL_FILE: mailed,
} as const;

export const operatorSettings = {
  'schedule.host': taken,
  'schedule.port': taken,
  'schedule.late_hours_max': port('missed runs make it not ready until a run has ended'),
  'metrics.textfile': at('e2e/metrics-file.test.ts')(
    'every run writes its metrics to the file, complete and readable by all, and keeps those of other jobs',
  ),
  'notify.webhook_url': failed,
  'notify.webhook_url_file': fromFile,
  'notify.when': failed,
  'notify.ping_url': pinged,
  'notify.ping_url_file': secretUrl,
  'notify.ping_start_url': at('settings/secrets.test.ts')('derives the addresses of pings, unless they are set'),
  'notify.ping_fail_url': pinged,
  'notify.ping_jobs': pinged,
  'notify.email.to': mailed,
  'notify.email.from': mailed,
  'notify.email.when': mailed,
  'notify.email.smtp_url': mailed,
  'notify.email.smtp_url_file': mailed,
  'notify.email.sendmail': at('e2e/ping-mail.test.ts')('is passed to a local sendmail, whose failure is a warning'),
} as const;
