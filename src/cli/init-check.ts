import { OddslakeError } from '../base/errors.ts';
import type { Context } from '../context/context.ts';
import type { Finding } from '../doctor/finding.ts';
import { judgeUpstream, probeUpstream } from '../doctor/upstream.ts';
import type { Environment } from '../settings/source.ts';
import type { Prompter } from './init-config.ts';

/**
 * Tries the address and the key before a config is written, with one request for one market. A missing key is no failure:
 * it may be set later. On a terminal, asks whether to write the config anyway.
 * @param prompter null if there is no terminal
 * @throws OddslakeError with the exit code that a run would have, if the service cannot be used
 */
export async function requireUsableUpstream(
  context: Context,
  env: Environment,
  prompter: Prompter | null,
  print: (text: string) => void,
): Promise<void> {
  const facts = await probeUpstream(context, { isOnline: true, env, privateFolder: null, lastRunSummary: null });
  const findings = judgeUpstream(facts, context.settings.poll.futureSkewSeconds * 1000);
  const failure = findings.find((finding) => isFailure(finding, facts.hasKey));
  if (failure === undefined) {
    const accepted = findings.filter(({ check, severity }) => severity === 'ok' && /^(reachable|key)$/.test(check));
    for (const { check, message } of accepted) print(check === 'key' ? `Key ${message}.` : `Reached ${message}.`);
    for (const { check, message, action } of findings)
      if (check === 'rate' && action !== null) print(`Rate: ${message}. ${action}`);
    return;
  }
  const { check, message, action, exit_code: exitCode } = failure;
  const what = check === 'key' ? 'Trying the key failed' : 'The service cannot be reached';
  const sentence = `${what}: ${message}.${action === null ? '' : ` ${action}`}`;
  if (prompter === null)
    throw new OddslakeError(exitCode, `${sentence} Nothing was written; --no-check writes the config anyway.`);
  prompter.print(sentence);
  if (!(await askYesNo(prompter, 'Write the config anyway?', false)))
    throw new OddslakeError(exitCode, 'Nothing was written.');
}

/** Whether the service cannot be used as configured. A wrong clock or rate can be changed later. */
const isFailure = ({ check, severity }: Finding, hasKey: boolean): boolean =>
  severity === 'action_required' && (check === 'reachable' || (check === 'key' && hasKey));

/** Asks until the answer is yes, no, or empty for the default. */
export async function askYesNo(prompter: Prompter, question: string, byDefault: boolean): Promise<boolean> {
  for (;;) {
    const answer = (await prompter.ask(`${question} [${byDefault ? 'Y/n' : 'y/N'}]: `)).trim().toLowerCase();
    if (answer === '') return byDefault;
    if (/^(y|yes)$/.test(answer)) return true;
    if (/^(n|no)$/.test(answer)) return false;
    prompter.print('Answer y or n.');
  }
}
