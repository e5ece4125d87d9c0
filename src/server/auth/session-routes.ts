import { Type } from 'typebox';
import { GeneratedAt } from '../../contract/export-manifest.ts';
import { paths } from '../../contract/paths.ts';
import { ProblemError } from '../http/problem-details.ts';
import type { App, ServiceContext } from '../http/service-context.ts';
import { parseCredential, toNetworkPrefix } from './authenticate.ts';
import { createFixedWindowLimiter, createRateLimitError } from './fixed-window-limiter.ts';

const SessionRequest = Type.Object(
  { one_time_key: Type.String({ minLength: 1, maxLength: 200 }) },
  { additionalProperties: false },
);

const PageSessionResponse = Type.Object({
  /** Credential of the session, for the Authorization header. */
  credential: Type.String(),
  /** When the session ends, epoch milliseconds UTC. */
  expires_at: Type.Integer(),
  generated_at: GeneratedAt,
});
type PageSessionResponse = Type.Static<typeof PageSessionResponse>;

/** Exchanges that one address may try in a minute, and maximum number of counted addresses. */
const attemptsMax = 20;
const addressesMax = 100_000;

/** `/api/v1/session`: exchanges the one-time key of a link for a session of the catalogue page, and ends a session. */
export function registerSessionRoutes(app: App, { sessions = null, clock }: ServiceContext): void {
  const attempts = createFixedWindowLimiter(clock, addressesMax);
  app.post(
    paths.session,
    {
      config: { access: 'open' },
      // For the page alone, so that clients which are generated from the OpenAPI document do not have it.
      schema: { hide: true, body: SessionRequest, response: { 200: PageSessionResponse } },
    },
    async (request): Promise<PageSessionResponse> => {
      const decision = attempts.acquire(toNetworkPrefix(request.ip), attemptsMax);
      if (!decision.isAllowed)
        throw createRateLimitError('Too many attempts to sign in from this address.', 'address', attemptsMax, decision);
      const session = sessions?.exchange(request.body.one_time_key) ?? null;
      if (session === null)
        throw new ProblemError(
          401,
          'The sign-in link was used before, has expired, or is of another run of the service.',
          {
            headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
          },
        );
      return { credential: session.credential, expires_at: session.expiresAt, generated_at: clock.nowMs() };
    },
  );
  app.delete(paths.session, { config: { access: 'open' }, schema: { hide: true } }, async ({ headers }, reply) => {
    sessions?.end(parseCredential(headers.authorization ?? ''));
    return reply.code(204).send(null);
  });
}
