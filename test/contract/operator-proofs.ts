const at =
  (file: string) =>
  (title: string): readonly [string, string] => [file, title];

const webhook = at('e2e/webhook.test.ts');
const port = at('e2e/schedule-port.test.ts');

const failed = webhook(
  'with anything but 0, once, with what is missing; of one that ended well only where that is asked for',
);
const fromFile = webhook('whose address is in a file, and that SIGTERM stopped');
const taken = port('an unavailable port exits 2 before any run');

/** Promises to operators: metrics, health, notifications. */
export const operatorVariables = { ODDSLAKE_WEBHOOK_URL: failed, ODDSLAKE_WEBHOOK_URL_FILE: fromFile } as const;

export const operatorSettings = {
  'schedule.host': taken,
  'schedule.port': taken,
  'schedule.late_hours_max': port('missed runs make it not ready until a run has ended'),
  'metrics.textfile': at('e2e/metrics-file.test.ts')(
    'every run leaves its figures in the file, whole, for everybody to read, and wipes those of no other job',
  ),
  'notify.webhook_url': failed,
  'notify.webhook_url_file': fromFile,
  'notify.when': failed,
} as const;
