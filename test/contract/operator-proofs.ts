const at =
  (file: string) =>
  (title: string): readonly [string, string] => [file, title];

const webhook = at('e2e/webhook.test.ts');
const port = at('e2e/schedule-port.test.ts');

const failed = webhook('with an exit code other than 0, once, with what is missing; and about success only if enabled');
const fromFile = webhook('whose webhook address is in a file, and that SIGTERM stopped');
const taken = port('an unavailable port exits 2 before any run');

/** Promises to operators: metrics, health, notifications. */
export const operatorVariables = { ODDSLAKE_WEBHOOK_URL: failed, ODDSLAKE_WEBHOOK_URL_FILE: fromFile } as const;

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
} as const;
