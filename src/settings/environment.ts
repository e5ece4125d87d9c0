import type { Environment } from './layers.ts';

/** Only this function reads the environment of the process. All other code receives it as a value. */
export const readProcessEnvironment = (): Environment => process.env;
