import { parseTextLayer, type SettingsLayer } from './source.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** The one place that reads the process's environment; everything else is handed it as a value. */
export const readProcessEnvironment = (): Environment => process.env;

/** The variables and the setting that each of them is. */
export const settingByVariable: Readonly<Record<string, string>> = {
  ODDSLAKE_BASE_URL: 'upstream.base_url',
  ODDSLAKE_API_KEY: 'upstream.api_key',
  ODDSLAKE_API_KEY_FILE: 'upstream.api_key_file',
  ODDSLAKE_FROM_API_KEY: 'repair.from_api_key',
  ODDSLAKE_FROM_API_KEY_FILE: 'repair.from_api_key_file',
  ODDSLAKE_WEBHOOK_URL: 'notify.webhook_url',
  ODDSLAKE_WEBHOOK_URL_FILE: 'notify.webhook_url_file',
  ODDSLAKE_REQUESTS_PER_SECOND: 'upstream.requests_per_second',
  ODDSLAKE_OUTPUT: 'archive.output',
  ODDSLAKE_DATABASE_URL: 'service.database_url',
  ODDSLAKE_TOKEN_SECRET: 'service.tokens.secret',
};

/** The settings that the environment names; an empty variable counts as not set, unknown ones are left alone. */
export function readEnvironmentLayers(env: Environment): SettingsLayer[] {
  return Object.entries(settingByVariable).flatMap(([name, path]) => {
    const text = env[name]?.trim();
    return text === undefined || text === '' ? [] : [parseTextLayer(path, text, name)];
  });
}
