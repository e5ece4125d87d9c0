import { spawn } from 'node:child_process';
import { hostname } from 'node:os';
import type { Context } from '../../context/context.ts';
import { createRedactor, listSecrets, type Settings } from '../../settings/settings.ts';
import type { Summary } from '../run/summary.ts';
import { boundRetries, buildNotification, formatRunText, shouldNotify } from './notify.ts';

type EmailSettings = Settings['notify']['email'];

/** A mail, before it is encoded. */
interface Mail {
  readonly from: string;
  readonly to: readonly string[];
  readonly subject: string;
  readonly text: string;
}

/** Mails the end of a run. @throws Error with the reason and without the password, if that fails */
export async function mailRunEnd(context: Context, summary: Summary): Promise<void> {
  const { settings } = context;
  const { email } = settings.notify;
  if (email.to.length === 0 || email.from === null || !shouldNotify(summary, email.when)) return;
  const mail = { from: email.from, to: email.to, ...composeMail(context, summary) };
  const msMax = boundRetries(summary).totalMsMax;
  try {
    await (email.sendmail === null ? sendBySmtp(email, mail, msMax) : sendBySendmail(email.sendmail, mail, msMax));
  } catch (error) {
    const redact = createRedactor(listSecrets(settings));
    throw new Error(`Could not send the mail: ${redact(toOneLine((error as Error).message))}.`);
  }
}

const subjectLengthMax = 120;
const failuresShown = 20;

/** Subject and text of a mail. Parts of it come from the service: the subject is one line. */
export function composeMail(context: Pick<Context, 'settings'>, summary: Summary): Pick<Mail, 'subject' | 'text'> {
  const { settings } = context;
  const redact = createRedactor(listSecrets(settings));
  const redacted = JSON.parse(redact(JSON.stringify(summary))) as Summary;
  const facts = buildNotification(redacted, { host: hostname(), archive: settings.archive.output });
  const line = formatRunText(context, summary);
  const failures = facts.failures
    .slice(0, failuresShown)
    .map(({ symbol, from, to, reason }) =>
      symbol === null ? `  ${reason}` : `  ${symbol}  ${from} … ${to}  ${reason}`,
    );
  const lines = [
    line,
    '',
    `job:       ${facts.job}`,
    `outcome:   ${facts.outcome} (exit ${facts.exit_code})`,
    `host:      ${facts.host}`,
    `archive:   ${redact(facts.archive)}`,
    `started:   ${facts.started_at}`,
    `finished:  ${facts.finished_at}`,
    ...(failures.length === 0 ? [] : ['', `failures (${facts.failures_count}):`, ...failures]),
    ...(facts.warnings.length === 0
      ? []
      : ['', `warnings (${facts.warnings_count}):`, ...facts.warnings.map((one) => `  ${one}`)]),
    ...(facts.next_action === null ? [] : ['', `next: ${facts.next_action}`]),
  ];
  const subject = `oddslake ${facts.job} on ${facts.host}: ${facts.outcome} (exit ${facts.exit_code})`;
  return { subject: toOneLine(subject).slice(0, subjectLengthMax), text: `${lines.map(toOneLine).join('\n')}\n` };
}

const toOneLine = (text: string): string => text.replace(/\p{Cc}+/gu, ' ');

/** Sends a mail to the server of the settings, with TLS if it offers it. */
async function sendBySmtp({ smtpUrl }: EmailSettings, mail: Mail, msMax: number): Promise<void> {
  const { createTransport } = await import('nodemailer');
  const transport = createTransport({
    url: smtpUrl!,
    connectionTimeout: msMax,
    greetingTimeout: msMax,
    socketTimeout: msMax,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const timeout = AbortSignal.timeout(msMax);
  try {
    await Promise.race([
      transport.sendMail({ ...mail, to: [...mail.to] }),
      new Promise((_, reject) => timeout.addEventListener('abort', () => reject(new Error('no reply in time')))),
    ]);
  } finally {
    transport.close();
  }
}

/** Passes a mail to a program that reads it from standard input, as sendmail does. */
async function sendBySendmail(path: string, mail: Mail, msMax: number): Promise<void> {
  const { default: MailComposer } = await import('nodemailer/lib/mail-composer');
  const bytes = await new MailComposer({ ...mail, to: [...mail.to], newline: 'unix' }).compile().build();
  await new Promise<void>((resolve, reject) => {
    const child = spawn(path, ['-i', '-f', mail.from, ...mail.to], {
      stdio: ['pipe', 'ignore', 'ignore'],
      timeout: msMax,
      killSignal: 'SIGKILL',
    });
    child.on('error', (error: NodeJS.ErrnoException) =>
      reject(new Error(`${path} could not be started (${error.code})`)),
    );
    child.on('close', (code, signal) =>
      code === 0 ? resolve() : reject(new Error(`${path} ended with ${signal ?? `exit code ${code}`}`)),
    );
    // A program that ends early closes the pipe; its exit code says why.
    child.stdin.on('error', () => {});
    child.stdin.end(bytes);
  });
}
